"""Chains as their template sees them: the text of every step, and its call."""

from __future__ import annotations

from dataclasses import dataclass

from edgec.emit.c_literal import STORAGE
from edgec.emit.views.base import View
from edgec.schedule.chain import Chain
from edgec.schedule.program import Buffer, Kernel


@dataclass(frozen=True)
class Step:
    """One step: its view, the C that its template made of that, and how its function is called."""

    view: View
    text: str
    call: str

    @property
    def prototype(self) -> str:
        return f"static void {self.view.name}({self.view.parameters}, {self.view.thread_parameters});"


class ChainView(View):
    """Several kernels behind one name; whoever renders their templates adds them in order."""

    def __init__(self, kernel: Kernel, name: str, aliases: frozenset[Buffer]) -> None:
        super().__init__(kernel, name, aliases)
        self.steps: list[Step] = []

    @property
    def params(self) -> Chain:
        schedule = self.kernel.schedule
        assert isinstance(schedule, Chain)
        return schedule

    def add(self, kernel: Kernel, view: View, text: str) -> None:
        """The next step, as its own template wrote it."""
        p = self.params
        scratch = (
            [f"scratch_bytes + {p.private_bytes}" if p.places else "scratch_bytes"] if kernel.scratch_bytes else []
        )
        tasks = ["0", "1"] if p.is_private(kernel) else ["thread", "threads"]
        *read, written = view.buffers
        operands = [*map(self._operand, read), self._result(written)]
        arguments = ", ".join([*operands, *scratch, *view.sizes, *tasks])
        self.steps.append(Step(view, text, f"{view.name}({arguments})"))

    def _result(self, buffer: Buffer) -> str:
        """The buffer that a step writes; where a later step reads it, it is a parameter of that."""
        if buffer is self.buffers[-1]:
            return self.target
        text = self._operand(buffer)
        return text if buffer in self.params.places else f"({STORAGE[buffer.dtype]} *){text}"

    def _operand(self, buffer: Buffer) -> str:
        if buffer in self.params.places:
            return f"({STORAGE[buffer.dtype]} *)(void *)(scratch_bytes + {self.params.places[buffer]})"
        return self.pointers.get(buffer, self.target)
