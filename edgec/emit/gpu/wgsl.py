"""Views of kernels in WGSL, the shading language of WebGPU.

There are no pointers between buffers: a kernel reads the ``weights`` and reads and writes the ``memory`` (arena, inputs
and outputs), each an array of words of 32 bits, at places that a uniform structure gives. Where all operands of a
kernel in one of the two are floats, the array is one of f32, else of bits.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

from edgec.emit.c_expression import COMPARE, Printer
from edgec.emit.gpu.base import GpuView
from edgec.emit.gpu.contract import ContractView
from edgec.emit.gpu.loops import MapView, ReduceView
from edgec.emit.gpu.printer import GpuPrinter
from edgec.emit.gpu.wgsl_syntax import WGSL_SYNTAX, cast, lacking, operation, type_of
from edgec.ir.expr import Expr, Extent
from edgec.ir.nest import coefficient
from edgec.schedule.program import Buffer

#: Bits of an element as a value, and a value as bits; of words of 32 bits.
_READ = {"f32": "bitcast<f32>({})", "i32": "bitcast<i32>({})", "bool": "({} != 0u)", "u32": "{}"}
_WRITE = {"f32": "bitcast<u32>({})", "i32": "bitcast<u32>({})", "bool": "select(0u, 1u, {})", "u32": "{}"}


class WgslPrinter(GpuPrinter):
    """Expressions in WGSL."""

    syntax = WGSL_SYNTAX
    view: WgslView

    def _ctype(self, e: Expr) -> str:
        kind = type_of(e.dtype)
        return (f"vec4<{kind}>" if kind == "bool" else "vec4f") if self.is_vector(e) else kind

    def spread(self, text: str, dtype: str) -> str:
        return f"{'vec4<bool>' if dtype == 'bool' else 'vec4f'}({text})"

    def _load(self, e: Expr) -> str:
        type_of(e.dtype)
        (address,) = e.args
        if not isinstance(e.value, Buffer):  # a variable of the kernel
            return f"{self.parameters[e.value]}[{self.subscript(address)}]"
        if not self.is_vector(e) or self.lane is None:
            return self.view.read(e.value, self.subscript(address), e.dtype)
        return self.view.read_lanes(e.value, self.subscript(address), coefficient(address, self.lane))

    def _cast(self, e: Expr) -> str:
        return cast(e.args[0], self.value(e.args[0]), e.dtype)

    def _bitcast(self, e: Expr) -> str:
        source, to = e.args[0].dtype, e.dtype
        if {source, to} <= {"f32", "i32", "u32"}:
            return f"bitcast<{to}>({self.value(e.args[0])})"
        raise lacking(f"way to take the bits of {source} for {to}")

    def _scalar_call(self, e: Expr) -> str:
        is_order = e.op in COMPARE and e.op not in ("eq", "ne")
        if e.op == "ne" and e.args[0].dtype == "f32":  # of a NaN, WGSL's own is false
            return f"(!({self.value(e.args[0])} == {self.value(e.args[1])}))"
        if e.op in COMPARE and not (is_order and e.args[0].dtype == "bool"):
            return super()._scalar_call(e)
        args = [self.value(a) for a in e.args]
        if is_order:
            return f"(i32({args[0]}) {COMPARE[e.op]} i32({args[1]}))"
        return f"(!{args[0]})" if e.op == "not" else operation(e.op, e.args[0].dtype, args)

    def _vector_call(self, e: Expr) -> str:
        if e.op in ("isnan", "isinf"):
            return f"ec_{e.op}_lanes({self.vector(e.args[0])})"
        return super()._vector_call(e)


class WgslView(GpuView):
    """A kernel in WGSL: operands by their places, and the launches that it consists of."""

    language = "wgsl"
    syntax = WGSL_SYNTAX

    @cached_property
    def operands(self) -> dict[str, Buffer]:
        """Operands by name, the result last; scratch memory, which has no buffer here, is behind them."""
        return {**{self.pointers[b]: b for b in self.buffers[:-1]}, self.target: self.buffers[-1]}

    @property
    def placed(self) -> list[str]:
        """The names of the places of a kernel, in the order of its structure."""
        return [*self.operands, *(["scratch"] if self.kernel.scratch_bytes else [])]

    @cached_property
    def _in_bits(self) -> dict[bool, bool]:
        """Is there an operand other than of floats, in the weights (True) and in the memory (False)?"""
        return {
            of_weights: any(b.dtype != "f32" for b in self.buffers if (b.space == "weights") is of_weights)
            for of_weights in (True, False)
        }

    def _array(self, of_weights: bool) -> str:
        return ("weights" if of_weights else "memory") + "_bits" * self._in_bits[of_weights]

    def _place(self, name: str, place: str) -> str:
        """The place of an element of an operand in its array."""
        return f"{self.name}_at.{name}" + (f" + {place}" if place != "0" else "")

    def _element(self, name: str, of_weights: bool, place: str) -> str:
        return f"{self._array(of_weights)}[{self._place(name, place)}]"

    def read(self, buffer: Buffer, place: str, dtype: str) -> str:
        """An element of an operand, as a value of ``dtype``: a formula may take integers as floats."""
        of_weights = buffer.space == "weights"
        element = self._element(self.pointers.get(buffer, self.target), of_weights, place)
        if not self._in_bits[of_weights]:
            return element
        lies = type_of(buffer.dtype)
        is_converted = type_of(dtype) == "f32" != lies
        text = _READ[lies if is_converted else type_of(dtype)].format(element)
        return f"f32({text})" if is_converted else text

    def read_lanes(self, buffer: Buffer, place: str, step: int | None) -> str:
        """LANES floats of an operand, ``step`` apart, or integers as floats."""
        what = "lanes" if type_of(buffer.dtype) == "f32" else "integers"
        where = self._place(self.pointers.get(buffer, self.target), place)
        return f"ec_{what}_of_{self._array(buffer.space == 'weights')}({where}, {step})"

    def store_line(self, printer: Printer, address: Expr, value: str, lane: Expr | None, count: str | None) -> str:
        place = printer.subscript(address)
        if lane is not None:
            return f"ec_store_lanes_{self._array(False)}({self._place(self.target, place)}, {value});"
        text = _WRITE[type_of(self.result_type)].format(value) if self._in_bits[False] else value
        return f"{self._element(self.target, False, place)} = {text};"

    @property
    def result_type(self) -> str:
        """The element type of the values that the kernel stores; their memory has words alone."""
        block = self.kernel.block
        return block.output.type.dtype if block is not None else self.buffers[-1].dtype

    def scratch(self, place: str) -> str:
        """LANES floats in scratch memory."""
        return f"ec_lanes_of_{self._array(False)}({self._place('scratch', place)}, 1)"

    def to_scratch(self, place: str, value: str) -> str:
        """The statement that stores LANES floats there."""
        return f"ec_store_lanes_{self._array(False)}({self._place('scratch', place)}, {value});"

    @property
    def declarations(self) -> dict[str, str]:
        return {}  # operands are variables of the module

    def tile_interface(self, indices: Iterable[str], lines: Iterable[str]) -> tuple[str, str]:
        _, arguments = super().tile_interface(indices, lines)
        return ", ".join(f"{name}: i32" for name in arguments.split(", ") if name), arguments

    @property
    def prologue(self) -> list[str]:
        return []

    def declared(self, name: str) -> str:
        return ""  # the host finds kernels by their names

    def printer(self, names: dict[Expr, str], lane: Expr | None = None, depth: int = 1) -> GpuPrinter:
        printer = WgslPrinter(names, self.pointers, lane, depth=depth)
        printer.view = self
        return printer


class WgslMap(WgslView, MapView):
    """A map."""


class WgslReduce(WgslView, ReduceView):
    """Reductions along one loop, combined through workgroup memory."""

    @property
    def local_bytes(self) -> int:
        return sum(4 * self.threads for _ in self.params.reductions)


class WgslContract(WgslView, ContractView):
    """A matrix product in tiles of workgroup memory; a second kernel adds up a sum in parts."""

    @property
    def launches(self) -> tuple[tuple[str, Extent], ...]:
        first = ("", self.groups)
        return (first, ("_sum", self.params.tiles)) if self.split > 1 else (first,)

    @property
    def local_bytes(self) -> int:
        return self.tile.shared_bytes
