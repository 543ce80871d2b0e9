"""Several rows at once as their template sees them: a function for each size of a tile."""

from __future__ import annotations

from functools import cached_property
from itertools import product

from edgec.emit import c_lanes
from edgec.emit.c_expression import Printer
from edgec.emit.c_literal import C_TYPES, literal
from edgec.emit.views.base import Loop, LoopedView
from edgec.ir import expr as X
from edgec.ir.dtypes import neutral
from edgec.ir.expr import Expr
from edgec.ir.nest import most
from edgec.ir.vector import HALF, LANES
from edgec.schedule.loops import reduced
from edgec.schedule.row import is_sum_of_floats
from edgec.schedule.rows import Rows


class RowsView(LoopedView):
    """Rows of one reduction; a task is a tile of results."""

    @property
    def params(self) -> Rows:
        schedule = self.kernel.schedule
        assert isinstance(schedule, Rows)
        return schedule

    @property
    def task_loops(self) -> list[Loop]:
        steps = dict(self.params.tile)
        found = []
        for v, loop in self.outer_loops.items():
            step = steps.get(v, 1)
            found.append(Loop(loop.name, -(-most(v) // step), step=step))
        return found

    @property
    def walk(self) -> list[Loop]:
        """The loops around a row."""
        return [Loop(f"w{k}", v.value.extent, k) for k, v in enumerate(self.params.walk)]

    @property
    def row_extent(self) -> int:
        return most(self.params.row)

    @property
    def full(self) -> int:
        """The elements of a row that fill vectors."""
        return self.row_extent // self.params.lanes * self.params.lanes

    @property
    def indent(self) -> str:
        return "  " * len(self.params.walk)

    @property
    def cut(self) -> int:
        """The loop that parts of long sums cut: its number in the walk, or the length of the walk for the row's."""
        return self.params.parts.split if self.has_parts and self.params.parts is not None else -1

    @property
    def rounds(self) -> int:
        """Iterations of that loop in a part."""
        return self.params.parts.rounds if self.params.parts is not None else 0

    @property
    def has_parts(self) -> bool:
        combine, body = self.params.reductions[0]
        return self.params.parts is not None and is_sum_of_floats(combine, body)

    @cached_property
    def tiles(self) -> list[RowsTile]:
        return [RowsTile(self, sizes) for sizes in self.params.tiles]

    @property
    def chosen(self) -> list[tuple[str, RowsTile]]:
        """C that says where a tile at the end of loops is the one to compute, whole tiles last."""
        found = []
        for tile in reversed(self.tiles):
            ends = [
                f"{self.outer_names[v]} == {most(v) - n}"
                for (v, count), n in zip(self.params.tile, tile.sizes)
                if n < count and most(v) > n
            ]
            found.append((" && ".join(ends), tile))
        return sorted(found, key=lambda pair: -pair[0].count("=="))


class RowsTile:
    """The body of one tile function: results of ``sizes`` neighbors along the loops of the tile."""

    def __init__(self, view: RowsView, sizes: tuple[int, ...]) -> None:
        self.view, self.sizes = view, sizes
        self.name = "_".join([view.name, "x".join(map(str, sizes)) or "1"])
        combine, body = view.params.reductions[0]
        self.combine, self.body, self.dtype = combine, body, body.dtype
        self.start = c_lanes.broadcast(literal(neutral(combine, body.dtype), body.dtype), body.dtype)

    @property
    def outputs(self) -> list[dict[Expr, Expr]]:
        """The positions of the results, relative to the first."""
        loops = [v for v, _ in self.view.params.tile]
        return [{v: v + by for v, by in zip(loops, place)} for place in product(*map(range, self.sizes))]

    @property
    def _in_turn(self) -> list[int]:
        """The order of updates: what the fewest results along a loop need stays in registers."""
        width = self.sizes[-1] if len(self.sizes) == 2 else 1
        by_column = [r for c in range(width) for r in range(c, len(self.outputs), width)]
        return by_column if width > len(self.outputs) // width else list(range(len(self.outputs)))

    @cached_property
    def interface(self) -> tuple[str, str]:
        indices = [d.name for d in self.view.outer]
        around = [*self.before, *(line for level in self.around for line in level), *self.updates, *self.rest]
        return self.view.tile_interface(indices, [*around, *self.ending])

    @property
    def parameters(self) -> str:
        return self.interface[0]

    @property
    def call(self) -> str:
        return f"{self.name}({self.interface[1]});"

    @property
    def accumulators(self) -> list[str]:
        """The declarations of accumulators; of a long sum, with those of the parts before."""
        kind = c_lanes.vector_type(self.dtype)
        names = [f"{n}{r}" for n in "cs"[: 1 + self.view.has_parts] for r in range(len(self.outputs))]
        return [f"{kind} {name} = {self.start};" for name in names]

    @property
    def flush(self) -> list[str]:
        """The end of a part: it is added to the parts before it."""
        pairs = (f"s{r} = {self._together(r)}; c{r} = {self.start};" for r in range(len(self.outputs)))
        return list(pairs) if self.view.has_parts else []

    def _together(self, r: int) -> str:
        return c_lanes.combined(self.combine, self.dtype, f"s{r}", f"c{r}")

    @cached_property
    def _printed(self) -> tuple[list[list[str]], list[str], list[str]]:
        """The lines of every level of loops around a row, those for whole vectors, and those for the last elements."""
        view, p = self.view, self.view.params
        levels: list[list[str]] = [[] for _ in range(1 + len(p.walk))]
        texts: list[list[str]] = []
        for count, at in ((None, "j"), (view.row_extent - view.full, str(view.full))):
            tail = None if count is None else str(count)
            printer = Printer(view.outer_names, view.pointers, p.row, tail, prefix="t" if count is None else "n")
            inside = [printer.lines]
            for v, loop in zip(p.walk, view.walk):
                inside.append(printer.enter(v, loop.name, 2 + loop.depth))
            deepest = len(p.walk) + (1 if count is not None else 2 + int(view.cut == len(p.walk)))
            lines = printer.enter(p.row, at, deepest)
            if (view.full if count is None else count) == 0:
                texts.append([])
                continue
            for r in self._in_turn:
                body = X.substitute(self.body, self.outputs[r])
                lines.append("  " * deepest + self._update(printer, f"c{r}", body, count))
            texts.append(lines)
            for level, own in zip(levels, inside):
                level.extend(own)
        return levels, texts[0], texts[1]

    def _update(self, printer: Printer, name: str, body: Expr, count: int | None) -> str:
        if count is None or self._adds_nothing(body):
            return printer.vector_update(self.combine, name, body)
        live = f"ec_lt(ec_iota(), ec_set1({count}.0f))"
        select = f"ec_select{'' if LANES[self.dtype] == 'float' else '_i'}"
        value = f"{select}({live}, {printer.vector(body)}, {self.start})"
        return f"{name} = {c_lanes.combined(self.combine, self.dtype, name, value)};"

    def _adds_nothing(self, body: Expr) -> bool:
        """Are the terms of a product zero beyond the last element: does a load of a part give zeros in both factors?"""
        factors = [a.args[0] if a.op == "cast" else a for a in body.args]
        is_read = all(a.op == "load" and self.view.params.row in X.free_variables(a) for a in factors)
        return self.combine == "add" and body.op == "mul" and is_read

    @property
    def before(self) -> list[str]:
        return self._printed[0][0]

    @property
    def around(self) -> list[list[str]]:
        """The lines at the beginning of each loop of the walk."""
        return self._printed[0][1:]

    @property
    def updates(self) -> list[str]:
        return self._printed[1]

    @property
    def rest(self) -> list[str]:
        return self._printed[2]

    @cached_property
    def ending(self) -> list[str]:
        """The lines behind the sums: lanes to numbers, what follows them, and the store."""
        view, p = self.view, self.view.params
        numbers = []
        for r in range(len(self.outputs)):
            text = c_lanes.across(self.combine, self.dtype, self._together(r) if view.has_parts else f"c{r}")
            if self.dtype in HALF:
                text = f"ec_from_{self.dtype}(ec_to_{self.dtype}({text}))"
            numbers.append(text if self.dtype in ("f32", "i32") else f"({C_TYPES[self.dtype]}){text}")
        return self._ended_on_lanes(numbers) if p.on_lanes else self._ended_one_by_one(numbers)

    def _ended_one_by_one(self, numbers: list[str]) -> list[str]:
        p, printer = self.view.params, Printer(self.view.outer_names, self.view.pointers, prefix="e")
        total = reduced(0, self.dtype)
        for r, (number, moved) in enumerate(zip(numbers, self.outputs)):
            printer.lines.append(f"  const {C_TYPES[self.dtype]} r{r} = {number};")
            own = X.load(("accumulator", f"r{r}"), (), self.dtype)
            printer.define(own, f"r{r}")
            value = printer.value(X.substitute(X.substitute(p.result, {total: own}), moved))
            printer.lines.append(
                "  " + self.view.store_line(printer, X.substitute(p.address, moved), value, None, None)
            )
        return printer.lines

    def _ended_on_lanes(self, numbers: list[str]) -> list[str]:
        p, view = self.view.params, self.view
        lane, width = p.tile[-1][0], self.sizes[-1]
        count = None if width == p.lanes else str(width)
        printer = Printer(view.outer_names, view.pointers, lane, count, prefix="e")
        total, wide = reduced(0, self.dtype), "f32" if LANES[self.dtype] == "float" else "i32"
        load = c_lanes.access("load", wide, count)
        for first in range(0, len(numbers), width):
            moved = {v: e for v, e in self.outputs[first].items() if v is not lane}
            row = f"r{first}"
            held = ", ".join(numbers[first : first + width])
            printer.lines.append(f"  const {C_TYPES[wide]} {row}[{width}] = {{{held}}};")
            own = X.load(("accumulator", row), (X.const(0) + lane,), self.dtype)
            text = f"{row}, {count}" if count else row
            printer.define(own, f"{load}({text})")
            value = printer.to_store(X.substitute(X.substitute(p.result, {total: own}), moved))
            address = X.substitute(p.address, moved)
            printer.lines.append("  " + view.store_line(printer, address, value, lane, count))
        return printer.lines
