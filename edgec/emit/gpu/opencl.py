"""GPU kernels as templates of OpenCL see them.

A kernel of OpenCL C 1.2 gets memory objects, which have no arithmetic: every operand is an object and how many bytes
into it the operand lies (``p0_in``, ``p0_at``), and becomes a pointer in the first lines of the kernel.
"""

from __future__ import annotations

from functools import cached_property

from edgec.emit.c_expression import Printer
from edgec.emit.gpu.base import GpuView
from edgec.emit.gpu.contract import ContractView
from edgec.emit.gpu.loops import MapView, ReduceView
from edgec.emit.gpu.printer import GpuPrinter
from edgec.emit.gpu.registers import RegistersView
from edgec.emit.gpu.window import WindowView
from edgec.ir.expr import Expr, Extent
from edgec.ir.nest import coefficient
from edgec.schedule.gpu.kernel import is_aligned


class OpenClPrinter(GpuPrinter):
    """Vectors are OpenCL's own, as many floats as ``lanes`` says."""

    lanes = 4

    def _ctype(self, e: Expr) -> str:
        if self.is_vector(e):
            return f"{'int' if e.dtype == 'bool' else 'float'}{self.lanes}"
        return super()._ctype(e)

    def spread(self, text: str, dtype: str) -> str:
        return f"(int{self.lanes})({text} ? -1 : 0)" if dtype == "bool" else f"(float{self.lanes})({text})"

    def _load(self, e: Expr) -> str:
        if not self.is_vector(e) or self.lane is None:
            return super()._load(e)
        pointer, (address,) = self.parameters[e.value], e.args
        place = f"{pointer} + {self.position(address)}"
        if is_aligned(address, self.lane, self.lanes):
            return f"ec_load{self.lanes}({place})"
        return f"ec_gather{self.lanes}({place}, {coefficient(address, self.lane)})"


class OpenClView(GpuView):
    """What every kernel has: operands as (object, place), and the launches it is made of."""

    @property
    def launches(self) -> tuple[tuple[str, Extent], ...]:
        """(what the name of each kernel ends with, how many work-groups it has), in order."""
        return (("", self.groups),)

    @property
    def local_bytes(self) -> int:
        """Local memory of one work-group."""
        return 0

    @property
    def declarations(self) -> dict[str, str]:
        return {name: f"__global {kind}" for name, kind in super().declarations.items()}

    @property
    def operands(self) -> dict[str, str]:
        """How each operand is declared as a pointer, by its name; scratch comes last."""
        more = {"scratch": "__global unsigned char *"} if self.kernel.scratch_bytes else {}
        return {**self.declarations, **more}

    @property
    def kernel_parameters(self) -> str:
        operands = [f"__global unsigned char *{name}_in, uint {name}_at" for name in self.operands]
        return ", ".join([*operands, *(f"ec_int {s}" for s in self.sizes)])

    @cached_property
    def unpacked(self) -> list[str]:
        """The lines that make pointers of the operands."""
        return [
            f"{kind}{name} = ({kind.replace('restrict ', '')})({name}_in + {name}_at);"
            for name, kind in self.operands.items()
        ]

    @property
    def last_arguments(self) -> tuple[str, ...]:
        return ()

    def declared(self, name: str) -> str:
        return ""  # the host finds kernels by their names

    def printer(self, names: dict[Expr, str], lane: Expr | None = None, depth: int = 1) -> GpuPrinter:
        printer = OpenClPrinter(names, self.pointers, lane, depth=depth)
        printer.lanes = self.lanes
        return printer

    def store_line(self, printer: Printer, address: Expr, value: str, lane: Expr | None, count: str | None) -> str:
        if lane is None:
            return super().store_line(printer, address, value, lane, count)
        return f"ec_store{self.lanes}({self.target} + {printer.position(address)}, {value});"


class OpenClMap(OpenClView, MapView):
    """A map."""

    @property
    def lanes(self) -> int:  # type: ignore[override]
        return self.params.width


class OpenClRegisters(OpenClView, RegistersView):
    """A product with its blocks in registers."""


class OpenClWindow(OpenClView, WindowView):
    """Windows, several outputs a work-item."""


class OpenClReduce(OpenClView, ReduceView):
    """Reductions along one loop."""

    @property
    def local_bytes(self) -> int:
        return sum(4 * self.threads for _ in self.params.reductions)


class OpenClContract(OpenClView, ContractView):
    """A matrix product in tiles of local memory; a sum in parts is added up by a second kernel."""

    @property
    def launches(self) -> tuple[tuple[str, Extent], ...]:
        first = ("", self.groups)
        return (first, ("_sum", self.params.tiles)) if self.split > 1 else (first,)

    @property
    def local_bytes(self) -> int:
        t = self.tile
        return 2 * t.k * (t.m + 4 + t.n + 4) * 4
