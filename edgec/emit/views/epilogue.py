"""Epilogues on vectors: the sums that registers hold, combined where several are one result."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from itertools import product
from math import isinf

from edgec.emit import c_lanes
from edgec.emit.c_expression import Printer
from edgec.emit.c_literal import literal
from edgec.emit.views.base import View
from edgec.ir import expr as X
from edgec.ir.expr import Expr
from edgec.schedule.contract.epilogue import ACCUMULATOR
from edgec.schedule.contract.fp16_epilogue import LANES, Fp16Epilogue
from edgec.schedule.program import BlockSchedule


class HalfEnd:
    """The epilogue of sums of fp16, in fp16: of a vector along the lanes, of which ``live`` lanes exist.

    ``operands`` are declared once for all sums, which lie where ``moved`` says along the lanes.
    """

    def __init__(self, view: View, prefix: str, end: Fp16Epilogue, moved: Mapping[Expr, Expr], live: int) -> None:
        self.view, self.prefix, self.end, self.live = view, prefix, end, live
        self.names: dict[Expr, str] = view.names  # type: ignore[attr-defined]
        loads = {"scale": end.scale, "bias": end.bias}
        self.operands = [
            f"  const ec_vh {prefix}{name} = ec_load_h({self._place(load, moved)});" for name, load in loads.items()
        ]

    def _place(self, load: Expr, moved: Mapping[Expr, Expr]) -> str:
        printer = Printer(self.names, self.view.pointers)
        return f"{self.view.pointers[load.value]} + {printer.position(X.substitute(load.args[0], dict(moved)))}"

    def stored(self, total: str, moved: Mapping[Expr, Expr]) -> str:
        """The line that stores the result of a sum."""
        value = f"ec_fma_lanes_h({total}, {self.prefix}scale, {self.prefix}bias)"
        for name, bound in (("max", self.end.low), ("min", self.end.high)):
            value = value if isinf(bound) else f"ec_{name}_h({value}, ec_set1_h({literal(bound, 'f32')}))"
        printer = Printer(self.names, self.view.pointers)
        schedule = self.view.kernel.schedule
        assert isinstance(schedule, BlockSchedule)
        place = f"{self.view.target} + {printer.position(X.substitute(schedule.address, dict(moved)))}"
        tail = f"_n({place}, {value}, {self.live});" if self.live < LANES else f"({place}, {value});"
        return f"  ec_store_h{tail}"


def on_vectors(printer: Printer, epilogue: Expr, n: Expr, name: Callable[[tuple[int, ...]], str]) -> Expr:
    """``epilogue`` over vectors along ``n`` that ``printer`` knows.

    ``name`` tells what the sum at a place of the window is called; without a window, that at ().
    """

    def vector(text: str, dtype: str) -> Expr:
        leaf = X.load((ACCUMULATOR, text), (X.const(0) + n,), dtype)
        printer.define(leaf, text)
        return leaf

    def named(e: Expr, at: tuple[int, ...]) -> Expr:
        sums = {load: vector(name(at), load.dtype) for load in X.loads(e) if load.value == ACCUMULATOR}
        return X.substitute(e, sums)

    windows = [e for e in X.walk(epilogue) if e.op == "reduce"]
    if not windows:
        return named(epilogue, ())
    (whole,) = windows
    loops, value = X.opened(whole)
    texts = [
        printer.vector(named(X.substitute(value, dict(zip(loops, map(X.const, at)))), at))
        for at in product(*(range(int(v.value.extent)) for v in loops))
    ]
    total = f"{printer.prefix}pooled{len(printer.lines)}"
    combined = reduce(lambda a, b: c_lanes.combined(whole.value[0], whole.dtype, a, b), texts)
    printer.lines.append(f"    const {c_lanes.vector_type(whole.dtype)} {total} = {combined};")
    return X.substitute(epilogue, {whole: vector(total, whole.dtype)})
