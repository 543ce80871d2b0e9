"""View of a procedure: one thread block per task."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import prod

from edgec.emit.gpu.base import GpuView
from edgec.emit.gpu.printer import GpuPrinter
from edgec.emit.views.procedure import ProcedureView
from edgec.ir import expr as X
from edgec.ir.expr import Expr, Extent
from edgec.schedule.gpu.loops import GROUP

#: Threads of a block that runs a whole procedure.
ALONE = 512


class GpuProcedureView(ProcedureView, GpuView):
    """As in C, but ``k.threads`` threads share a task, and ``k.room`` bytes of memory at ``k.shared_memory``."""

    @property
    def threads(self) -> int:
        return ALONE if self.tasks == 1 else GROUP

    @property
    def groups(self) -> Extent:
        return self.tasks

    @property
    def locks(self) -> int:
        return 0

    @property
    def shared_bytes(self) -> int:
        return 0 if self.params.scratch_bytes else self.params.room

    @property
    def shared_memory(self) -> str:
        """The pointer to the memory that a thread block shares."""
        return f"(scratch_bytes + ec_group() * {self.params.room})" if self.params.scratch_bytes else "ec_shared()"

    @property
    def columns(self) -> Extent:
        """Columns of updates of one slice: iterations of the loops after the axis."""
        return X.plain(prod(extent for extent, _ in self.at.loops[1:]))

    def parts(self, columns: Extent) -> int:
        """The number of threads, a power of two, that can share one of so many columns."""
        if not isinstance(columns, int):
            return 1
        return 1 << max((self.threads // max(columns, 1)).bit_length() - 1, 0)

    def updates(
        self, new: Iterable[tuple[str, Expr]], vectors: Mapping[object, str], lane: Expr, count: str | None = None
    ) -> list[str]:
        """Statements that compute element ``j`` of vectors from element ``j`` of others."""
        printer = GpuPrinter({lane: "j"}, vectors, None, depth=0)
        values = [(vectors[name], printer.value(formula)) for name, formula in new]
        return [*printer.lines, *(f"{pointer}[j] = {value};" for pointer, value in values)]
