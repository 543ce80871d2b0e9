"""View of kernels that share a launch: the text of each, and the thread blocks that it has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from edgec.emit.c_literal import STORAGE
from edgec.emit.gpu.base import GpuView
from edgec.emit.views import View
from edgec.schedule.gpu.loops import GpuMap, GpuReduce
from edgec.schedule.gpu.together import GpuTogether, scratch_places
from edgec.schedule.gpu.vector import BLOCKS, GpuVector
from edgec.schedule.program import Buffer, Kernel


@dataclass(frozen=True)
class Step:
    """One kernel: the CUDA that its template made of it, its first thread block and the end of them, and its call."""

    text: str
    first: int
    end: int
    call: str


class TogetherView(GpuView):
    """Several kernels behind one name; whoever renders their templates adds them in order."""

    def __init__(self, kernel: Kernel, name: str, aliases: frozenset[Buffer]) -> None:
        super().__init__(kernel, name, aliases)
        self.steps: list[Step] = []
        self._views: list[GpuView] = []

    @property
    def params(self) -> GpuTogether:
        schedule = self.kernel.schedule
        assert isinstance(schedule, GpuTogether)
        return schedule

    @property
    def groups(self) -> int:
        return self.steps[-1].end

    @property
    def threads(self) -> int:
        return self._views[0].threads

    @property
    def resident(self) -> int:
        if all(isinstance(k.schedule, GpuVector) for k in self.params.kernels):
            return BLOCKS
        if all(isinstance(k.schedule, (GpuMap, GpuReduce)) for k in self.params.kernels):
            return max(v.resident for v in self._views)
        return 1

    @property
    def shared_bytes(self) -> int:
        return max(v.shared_bytes for v in self._views)

    @property
    def locks(self) -> int:
        return self.params.locks

    @property
    def written(self) -> Sequence[Buffer]:
        return list(dict.fromkeys(k.writes for k in self.params.kernels))

    @property
    def declarations(self) -> dict[str, str]:
        found = super().declarations
        written = (b for b in self.written if b in self.pointers)
        return found | {self.pointers[b]: f"{STORAGE[b.dtype]} *restrict " for b in written}

    def add(self, kernel: Kernel, view: View, text: str) -> None:
        """The next kernel, as its own template wrote it."""
        assert isinstance(view, GpuView)
        self._views.append(view)
        first = self.steps[-1].end if self.steps else 0
        groups = view.groups
        assert isinstance(groups, int) and not view.given_sizes
        arguments = [self.pointers.get(b, self.target) for b in view.buffers]
        before = self.params.kernels[: len(self.steps)]
        if kernel.scratch_bytes:
            arguments.append(f"scratch_bytes + {scratch_places(before)[-1]}")
        if view.locks:
            arguments.append(f"locks + {sum(k.schedule.locks for k in before)}")
        call = f"{view.name}(group - {first}, {', '.join(arguments)})"
        self.steps.append(Step(text, first, first + groups, call))
