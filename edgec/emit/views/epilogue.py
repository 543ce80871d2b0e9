"""Epilogues on vectors: the sums that registers hold, combined where several are one result."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from itertools import product

from edgec.emit import c_lanes
from edgec.emit.c_expression import Printer
from edgec.ir import expr as X
from edgec.ir.expr import Expr
from edgec.schedule.epilogue import ACCUMULATOR


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
