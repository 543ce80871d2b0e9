"""The session of a language model on a GPU: its ports, of which the states are a text's cache."""

from __future__ import annotations

from dataclasses import dataclass

from edgec.emit.host_values import port_of
from edgec.emit.language_model import Session, State
from edgec.schedule.program import Program


@dataclass(frozen=True)
class DeviceState:
    """A state by the number of its port: ``rows`` of ``stride`` bytes, of which a token has ``unit`` (0: all)."""

    port: int
    rows: int
    stride: int
    unit: int


@dataclass(frozen=True)
class DeviceSession:
    """A language model on a GPU: its facts, the field for the number of tokens, and the numbers of its ports."""

    context: int
    chunk: int
    vocabulary: int
    ring: int  # rows of the smallest ring; 0: there is none
    count: str | None  # None: a run takes one token
    ports: tuple[int, int, int]  # tokens, past, logits
    states: tuple[DeviceState, ...]


def device_session(program: Program, session: Session) -> DeviceSession:
    """Facts of a session that the host of a GPU is written from."""
    names = [name for name, _, _ in (*program.inputs, *program.outputs)]
    tokens, past, logits = (names.index(name) for name in ("tokens", "past", "logits"))
    kept = [program.states[b] for _, b, _ in program.outputs if b in program.states]

    def state(at: int, found: State) -> DeviceState:
        return DeviceState(at, found.rows, found.stride, found.unit)

    return DeviceSession(
        session.context, session.chunk, session.vocabulary, session.ring, session.count, (tokens, past, logits),
        tuple(state(port_of(buffer, program), found) for buffer, found in zip(kept, session.states)),
    )  # fmt: skip
