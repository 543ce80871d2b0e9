"""Values of the host code of a project: run-time sizes, runtime assertions, language models."""

from __future__ import annotations

from dataclasses import dataclass

from edgec.emit.c_text import size_name
from edgec.ir.expr import Expr
from edgec.schedule.program import Buffer, Program


@dataclass(frozen=True)
class Open:
    """A dimension that the caller chooses: its name, its C field, and its size in C (a number of steps)."""

    name: str
    field: str
    size: str
    low: int
    high: int
    step: int


@dataclass(frozen=True)
class Demand:
    """A runtime assertion: the message where it is false, and its value as a C expression."""

    message: str
    value: str


@dataclass(frozen=True)
class Computed:
    """A size that the network computes: its C field, its value as a C expression, and where that lies.

    ``port`` is the number of the input or output that holds it, inputs first; or -1, and it is at ``offset`` of the
    arena.
    """

    known: Expr
    field: str
    value: str
    port: int
    offset: int

    @property
    def name(self) -> str:
        return str(self.known.value.name)

    @property
    def low(self) -> int:
        return int(self.known.value.low)

    @property
    def high(self) -> int:
        return int(self.known.value.high)

    @property
    def size(self) -> str:
        """Its name in kernels."""
        return size_name(self.known)

    @property
    def python(self) -> str:
        return f'"{self.name}"'


def shared_ports(program: Program) -> dict[int, int]:
    """The outputs that are the next values of states, and the inputs that hold these, by the numbers of ports."""
    return {port_of(new, program): port_of(old, program) for new, old in program.states.items()}


def port_of(buffer: Buffer, program: Program) -> int:
    """The number of the input or output that is a buffer, inputs first; -1 for none."""
    ports = [b for _, b, _ in (*program.inputs, *program.outputs)]
    return ports.index(buffer) if buffer in ports else -1
