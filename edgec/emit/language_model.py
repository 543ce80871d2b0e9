"""The session of a language model: functions that append tokens, around a network whose caches are states."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from math import prod
from typing import Any

from edgec.frontend.language.cache import REACHED
from edgec.frontend.language.chat import Chat, chat_of
from edgec.frontend.language.chat_form import END, ROLES, START
from edgec.frontend.language.facts import TOKENS, LanguageModel, facts_of
from edgec.frontend.language.lora import GIVEN, NUMBERS, Layout, layout_in
from edgec.frontend.language.table import read
from edgec.ir.expr import Expr
from edgec.ir.graph import Node
from edgec.ir.types import CODED, DTYPES
from edgec.schedule.memory import ALIGNMENT
from edgec.schedule.program import BlockSchedule, Buffer, Program

#: The run-time size that counts the tokens in the cache.
PAST = "past"
#: Modules in C that are the same for all models, and those for models with a tokenizer.
SAMPLER = ("ec_sampler",)
TEXT = ("ec_tokenizer", "ec_stream")
CHAT = ("ec_chat",)


@dataclass(frozen=True)
class State:
    """The place of a state in the cache: ``rows`` of ``stride`` bytes, of which a token has ``unit``.

    A unit of 0: the state is needed as a whole, whatever the number of tokens.
    """

    at: int
    rows: int
    stride: int
    unit: int


@dataclass(frozen=True)
class Session:
    """The facts of a language model, and the arguments of a run in C: the cache holds state after state."""

    facts: LanguageModel
    count: str | None  # the field of the sizes for the number of tokens; None: a run takes one
    arguments: tuple[str, ...]
    cache_bytes: int
    read_bytes: int  # of the weights of products, each of which a run reads once
    states: tuple[State, ...]
    reached: int | None  # where in the cache is the number of positions ever written, if layers have rings of rows
    tokens: bytes | None  # the table of the tokenizer
    chat: Chat | None
    lora: Layout | None  # the room for adapters
    arithmetic: tuple[tuple[str, ...], ...]  # types of the products, and of what is kept
    on_gpu: bool = False

    @property
    def described(self) -> dict[str, Any]:
        """Its entry in the lock file."""
        return {
            **asdict(self.facts), "cache_bytes": self.cache_bytes, "read_bytes": self.read_bytes,
            "has_tokens": self.tokens is not None,
            "chat": None if self.chat is None else "python" if self.chat.form is None else "c",
            **({"lora": self.lora.described} if self.lora is not None else {}),
        }  # fmt: skip

    def digest(self, weights: bytes | memoryview, precision: str) -> bytes:
        """A hash of all that a saved text depends on: weights (empty where they have their own), what is computed in
        which types, places in the cache, tokens."""
        found = sha256(repr((self.facts, self.cache_bytes, self.states, self.arithmetic, precision)).encode())
        for part in (weights, self.tokens or b""):
            found.update(len(part).to_bytes(8, "little"))
            found.update(part)
        return found.digest()

    @property
    def lora_hash(self) -> bytes:
        """A hash of the places in an adapter."""
        assert self.lora is not None
        return self.lora.digest

    @property
    def adapter_bytes(self) -> int:
        """The bytes of an adapter with its head."""
        assert self.lora is not None
        return self.lora.bytes

    @property
    def between(self) -> list[list[str | None]]:
        """The text of a chat template after nothing or a role, before a role or the end."""
        assert self.chat is not None and self.chat.form is not None
        texts = self.chat.form.between
        return [[texts.get((before, after)) for after in (*ROLES, END)] for before in (START, *ROLES)]

    @property
    def changes(self) -> list[int]:
        """The changes that a chat template makes to contents, by role."""
        assert self.chat is not None and self.chat.form is not None
        return [self.chat.form.changes.get(role, 0) for role in ROLES]

    @property
    def modules(self) -> tuple[str, ...]:
        """The modules in C that its artifact has."""
        return (*SAMPLER, *(TEXT if self.tokens is not None else ()), *(CHAT if self.converses else ()))

    @property
    def converses(self) -> bool:
        """Can a program in C talk to it?"""
        return self.tokens is not None and self.chat is not None and self.chat.form is not None

    @property
    def pages(self) -> dict[str, str]:
        """The files that are its own, and the templates that they are rendered from; on a GPU the host of the network
        has the session's functions."""
        parts = [*([] if self.on_gpu else ["session"]), *(["conversation"] if self.converses else [])]
        return {f"{{name}}_{part}.{end}": f"language/{part}.{end}.jinja" for part in parts for end in "hc"}

    def sources(self, name: str) -> list[str]:
        """The files to compile beside those of the network and the table of tokens."""
        own = [page.format(name=name) for page in self.pages if page.endswith(".c")]
        return [*own, *(f"{module}.c" for module in self.modules)]

    @property
    def context(self) -> int:
        return self.facts.context

    @property
    def chunk(self) -> int:
        return self.facts.chunk

    @property
    def ring(self) -> int:
        return self.facts.ring

    @property
    def vocabulary(self) -> int:
        return self.facts.vocabulary


def session_of(
    program: Program, fields: Mapping[str, str], ctypes: Mapping[Buffer, str], on_gpu: bool = False
) -> Session | None:
    """The session of a program; None where it is no language model.

    ``fields`` are the C names of dimensions by name, ``ctypes`` the C types of inputs and outputs.
    """
    facts = facts_of(program.graph)
    if facts is None:
        return None
    places, size = _places([b for _, b, _ in program.inputs if b in program.states.values()])
    given = {"tokens": "tokens", "past": "&session->past", "logits": "logits", GIVEN: "&adapted", NUMBERS: "adapter"}

    def argument(name: str, buffer: Buffer) -> str:
        state = program.states.get(buffer, buffer)
        if state in places:
            return f"({ctypes[state]} *)(void *)(cache + {places[state]})"
        return given[name]

    entries = [(name, buffer) for name, buffer, _ in (*program.inputs, *program.outputs)]
    table = program.graph.metadata.get(TOKENS)
    steps = [s.schedule for k in program.kernels for s in k.steps]
    products = {b for schedule in steps if isinstance(schedule, BlockSchedule) for b in schedule.tables}
    states = tuple(
        _state(places[program.states[buffer]], node) for _, buffer, node in program.outputs if buffer in program.states
    )
    return Session(
        facts, fields.get("tokens"), tuple(argument(*entry) for entry in entries), size, sum(b.bytes for b in products),
        states, next((places[b] for name, b, _ in program.inputs if name == REACHED and b in places), None),
        read(table) if table is not None else None, chat_of(program.graph), layout_in(program.graph),
        _arithmetic(program), on_gpu,
    )  # fmt: skip


def _arithmetic(program: Program) -> tuple[tuple[str, ...], ...]:
    products = (n for n in program.graph.nodes() if n.op in ("matmul", "conv", "update"))
    return tuple(sorted({(n.op, n.type.dtype, *(a.type.dtype for a in n.args)) for n in products}))


def _state(at: int, node: Node) -> State:
    """The place of a state that is ``node`` after a run: by tokens where a run extends it at ``past``."""
    shape = [int(n) for n in node.type.shape]
    size = DTYPES[node.type.dtype].itemsize
    starts = node.attributes.get("starts", ())
    axes = [d for d, start in enumerate(starts) if isinstance(start, Expr) or start]
    is_past = node.op == "update" and len(axes) == 1 and str(starts[axes[0]]) == PAST
    if not is_past or node.type.dtype in CODED:
        return State(at, 1, node.type.bytes, 0)
    unit = prod(shape[axes[0] + 1 :]) * size
    return State(at, prod(shape[: axes[0]]), shape[axes[0]] * unit, unit)


def cache_bytes(program: Program) -> int:
    """The bytes of a session's cache."""
    return _places([b for _, b, _ in program.inputs if b in program.states.values()])[1]


def _places(states: Sequence[Buffer]) -> tuple[dict[Buffer, int], int]:
    """The byte at which each state begins, and the bytes of all."""
    places, size = {}, 0
    for buffer in states:
        places[buffer] = size
        size += -(-buffer.bytes // ALIGNMENT) * ALIGNMENT
    return places, size
