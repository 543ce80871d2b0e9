"""The session of a language model: functions that append tokens, around a network whose caches are states."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from edgec.frontend.language.facts import TOKENS, LanguageModel, facts_of
from edgec.frontend.language.table import read
from edgec.schedule.memory import ALIGNMENT
from edgec.schedule.program import BlockSchedule, Buffer, Program

#: The files of a session, and the templates that they are rendered from.
PAGES = {"{name}_session.h": "language/session.h.jinja", "{name}_session.c": "language/session.c.jinja"}
SOURCE = "{name}_session.c"
#: Modules in C that are the same for all models, and those for models with a tokenizer.
SAMPLER = ("ec_sampler",)
TEXT = ("ec_tokenizer", "ec_stream")


@dataclass(frozen=True)
class Session:
    """The facts of a language model, and the arguments of a run in C: the cache holds state after state."""

    facts: LanguageModel
    count: str  # the field of the sizes for the number of tokens
    arguments: tuple[str, ...]
    cache_bytes: int
    read_bytes: int  # of the weights of products, each of which a run reads once
    tokens: bytes | None  # the table of the tokenizer

    @property
    def described(self) -> dict[str, int | bool]:
        """Its entry in the lock file."""
        return {
            **asdict(self.facts), "cache_bytes": self.cache_bytes, "read_bytes": self.read_bytes,
            "has_tokens": self.tokens is not None,
        }  # fmt: skip

    @property
    def modules(self) -> tuple[str, ...]:
        """The modules in C that its artifact has."""
        return (*SAMPLER, *(TEXT if self.tokens is not None else ()))

    def sources(self, name: str) -> list[str]:
        """The files to compile beside those of the network and the table of tokens."""
        return [SOURCE.format(name=name), *(f"{module}.c" for module in self.modules)]

    @property
    def context(self) -> int:
        return self.facts.context

    @property
    def chunk(self) -> int:
        return self.facts.chunk

    @property
    def vocabulary(self) -> int:
        return self.facts.vocabulary


def session_of(program: Program, fields: Mapping[str, str], ctypes: Mapping[Buffer, str]) -> Session | None:
    """The session of a program; None where it is no language model.

    ``fields`` are the C names of dimensions by name, ``ctypes`` the C types of inputs and outputs.
    """
    facts = facts_of(program.graph)
    if facts is None:
        return None
    places, size = _places([b for _, b, _ in program.inputs if b in program.states.values()])
    given = {"tokens": "tokens", "past": "&session->past", "logits": "logits"}

    def argument(name: str, buffer: Buffer) -> str:
        state = program.states.get(buffer, buffer)
        if state in places:
            return f"({ctypes[state]} *)(void *)(cache + {places[state]})"
        return given[name]

    entries = [(name, buffer) for name, buffer, _ in (*program.inputs, *program.outputs)]
    table = program.graph.metadata.get(TOKENS)
    steps = [s.schedule for k in program.kernels for s in k.steps]
    products = {b for schedule in steps if isinstance(schedule, BlockSchedule) for b in schedule.tables}
    return Session(
        facts, fields["tokens"], tuple(argument(*entry) for entry in entries), size, sum(b.bytes for b in products),
        read(table) if table is not None else None,
    )  # fmt: skip


def _places(states: Sequence[Buffer]) -> tuple[dict[Buffer, int], int]:
    """The byte at which each state begins, and the bytes of all."""
    places, size = {}, 0
    for buffer in states:
        places[buffer] = size
        size += -(-buffer.bytes // ALIGNMENT) * ALIGNMENT
    return places, size
