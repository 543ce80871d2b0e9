"""Rows as their template sees them: one pass a reduction, one for the result."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from math import prod

from edgec.emit import c_lanes
from edgec.emit.c_expression import Printer
from edgec.emit.c_literal import C_TYPES, literal
from edgec.emit.c_text import advanced
from edgec.emit.views.base import Loop, LoopedView
from edgec.ir import expr as X
from edgec.ir.dtypes import neutral
from edgec.ir.expr import Expr, Extent
from edgec.ir.nest import extent, most
from edgec.ir.vector import HALF, LANES, always_computed, parts_beyond_choice
from edgec.schedule.loops import reduced
from edgec.schedule.row import Row, is_sum_of_floats


@dataclass
class Pass:
    """One walk along a row: a reduction, or the result."""

    before: list[str]
    around: list[str]  # within the loops of the walk, before that along the row
    accumulator: str
    start: str  # of the vector it is accumulated in
    number: str  # what becomes of that
    flush: list[str]  # of a part of a long sum: it is added to the parts before it
    full: list[str]
    tail: list[str]


class RowView(LoopedView):
    """Rows: one pass a reduction, one for the result; row values needed again are kept in scratch."""

    @property
    def params(self) -> Row:
        schedule = self.kernel.schedule
        assert isinstance(schedule, Row)
        return schedule

    @property
    def extent(self) -> Extent:
        return extent(self.params.row)

    @property
    def full(self) -> bool:
        """Can there be a whole vector?"""
        return most(self.params.row) >= self.params.lanes

    @property
    def tail(self) -> Extent:
        """The elements beyond the last whole vector."""
        return X.plain(self.extent % self.params.lanes)

    @property
    def tail_start(self) -> Extent:
        return X.plain(self.extent - self.tail)

    @property
    def is_fixed(self) -> bool:
        return isinstance(self.extent, int)

    @property
    def row_stride(self) -> int:
        return -(-most(self.params.row) // 16) * 16

    @property
    def saved_stride(self) -> int:
        """Elements of a value that is kept."""
        return prod(map(most, self.params.walk)) * self.row_stride

    @property
    def walk(self) -> list[Loop]:
        """The loops around a row."""
        return [Loop(f"w{k}", v.value.extent, k) for k, v in enumerate(self.params.walk)]

    @property
    def cut(self) -> int:
        """The loop that parts of long sums cut: its number in the walk, or the length of the walk for the row's."""
        return self.params.parts.split if self.params.parts is not None else -1

    @property
    def rounds(self) -> int:
        """Iterations of that loop in a part."""
        return self.params.parts.rounds if self.params.parts is not None else 0

    @property
    def indent(self) -> str:
        return "  " * len(self.params.walk)

    @property
    def _walk_names(self) -> dict[Expr, str]:
        return {v: loop.name for v, loop in zip(self.params.walk, self.walk)}

    def _saved_place(self, name: str, at: str) -> str:
        """The address of a kept value at a position of the row."""
        below, terms = self.row_stride, []
        for v, loop in reversed(list(zip(self.params.walk, self.walk))):
            terms.append(f"{loop.name} * {below}")
            below *= most(v)
        return advanced(name, " + ".join([*reversed(terms), at]))

    @property
    def saved(self) -> list[str]:
        return [f"saved{k}" for k in range(len(self.params.saved))]

    @cached_property
    def _plan(self) -> tuple[list[Pass], list[str]]:
        p = self.params
        names = self.outer_names
        scalars = Printer(names, self.pointers, depth=2, prefix="u")
        for k in range(len(p.reductions)):
            scalars.define(reduced(k, p.reductions[k][1].dtype), f"r{k}")
        passes: list[Pass] = []
        written: set[Expr] = set()
        for k, (combine, body) in enumerate(p.reductions):
            passes.append(self._pass(f"r{k}", combine, body, scalars, written, names))
        if p.keeps_row:
            passes.append(self._pass("", "", p.result, scalars, written, names))
            return passes, []
        before = len(scalars.lines)
        value = scalars.value(p.result)
        finish = scalars.lines[before:]
        return passes, [*finish, f"    {self.store_line(scalars, p.address, value, None, None)}"]

    def _pass(
        self,
        name: str,
        combine: str,
        body: Expr,
        scalars: Printer,
        written: set[Expr],
        names: dict[Expr, str],
    ) -> Pass:
        p, dtype = self.params, body.dtype
        # What does not depend on the row is computed before the loop, by the printer all passes share.
        mark = len(scalars.lines)
        needed = _reached(body, written)
        invariants = [e for e in _invariants(body, p.row) if e in needed]
        moving = [e for e in invariants if X.free_variables(e) & {*p.walk}]
        for e in invariants:
            if e not in moving:
                scalars.define(e, scalars.value(e))
        before = scalars.lines[mark:]
        names = {**names, **self._walk_names}
        nested = Printer(names, self.pointers, depth=2 + len(p.walk), prefix=f"{name or 'y'}_w")
        nested.given.update(scalars.given)
        for e in moving:
            nested.define(e, nested.value(e))
        has_parts = p.parts is not None and bool(name) and is_sum_of_floats(combine, body)
        deeper = int(has_parts and self.cut == len(p.walk))
        places = dict(zip(p.saved, self.saved))
        first = [e for e in X.walk(body) if e in places and e not in written]
        texts: list[list[str]] = []
        for count in (None, str(self.tail) if self.is_fixed else "count"):
            at = str(self.tail_start) if count and self.is_fixed else "j"
            depth = 3 + len(p.walk) + (0 if count else deeper)
            pad = "  " * depth
            printer = Printer({**names, p.row: at}, self.pointers, p.row, count, depth=depth)
            printer.given.update(nested.given)
            suffix = "_n" if count else ""
            tail = f", {count})" if count else ")"
            for e in written:
                printer.define(e, f"ec_load{suffix}({self._saved_place(places[e], at)}{tail}")
            for e in first:
                text = printer.vector(e)
                printer.lines.append(f"{pad}ec_store{suffix}({self._saved_place(places[e], at)}, {text}{tail};")
            if name:
                value = printer.vector(body)
                if count:
                    fill = c_lanes.broadcast(literal(neutral(combine, dtype), dtype), dtype)
                    live = f"ec_lt(ec_iota(), ec_set1({f'{count}.0f' if self.is_fixed else f'(float){count}'}))"
                    value = f"ec_select{'' if LANES[dtype] == 'float' else '_i'}({live}, {value}, {fill})"
                printer.lines.append(f"{pad}{name}_v = {c_lanes.combined(combine, dtype, f'{name}_v', value)};")
            else:
                value = printer.to_store(body)
                printer.lines.append(pad + self.store_line(printer, p.address, value, p.row, count))
            texts.append(list(printer.lines))
        written.update(first)
        full, rest = texts
        if not name:
            return Pass(before, nested.lines, "", "", "", [], full, rest)
        start = c_lanes.broadcast(literal(neutral(combine, dtype), dtype), dtype)
        together = c_lanes.combined(combine, dtype, f"{name}_s", f"{name}_v")
        number = c_lanes.across(combine, dtype, together if has_parts else f"{name}_v")
        if dtype in HALF:
            number = f"ec_from_{dtype}(ec_to_{dtype}({number}))"
        elif dtype not in ("f32", "i32"):
            number = f"({C_TYPES[dtype]}){number}"
        vector, element = c_lanes.vector_type(dtype), C_TYPES[dtype]
        flush = [f"{name}_s = {together};", f"{name}_v = {start};"] if has_parts else []
        start = f"{vector} {name}_v = {start}" + (f", {name}_s = {start}" if has_parts else "")
        return Pass(before, nested.lines, name, start, f"const {element} {name} = {number}", flush, full, rest)

    @property
    def passes(self) -> list[Pass]:
        return self._plan[0]

    @property
    def finish(self) -> list[str]:
        return self._plan[1]


def _reached(body: Expr, saved: Collection[Expr]) -> set[Expr]:
    """The parts of an expression, without those inside of values that are read from where they were saved."""
    found: set[Expr] = set()
    left = [body]
    while left:
        e = left.pop()
        if e not in found:
            found.add(e)
            left += () if e in saved else e.args
    return found


def _invariants(body: Expr, row: Expr) -> list[Expr]:
    """The largest sub-expressions, of a type that lanes have, that do not depend on the row and are worth a name."""
    computed = list(always_computed(body, row))
    inside = {a for e in computed for a in e.args if row in X.free_variables(e) and e.op != "load"} | {body}
    found = [
        e for e in computed if e in inside and e.op != "const" and e.dtype in LANES and row not in X.free_variables(e)
    ]
    choices = [e for e in computed if e.op == "select" and row not in X.free_variables(e.args[0])]
    return found + [
        e for c in choices for e in parts_beyond_choice(c) if e.dtype in LANES and row not in X.free_variables(e)
    ]
