"""Sweeps as their template sees them: a function that adds up a part, and one that ends a sum."""

from __future__ import annotations

from functools import cached_property
from itertools import product

from edgec.emit.c_expression import Printer
from edgec.emit.views.base import Loop, LoopedView
from edgec.ir import expr as X
from edgec.ir.expr import Expr
from edgec.ir.nest import most
from edgec.schedule.sweep import Sweep


class SweepView(LoopedView):
    """A sum of several results at once; a task is a tile of them, and a few vectors of lanes."""

    @property
    def params(self) -> Sweep:
        schedule = self.kernel.schedule
        assert isinstance(schedule, Sweep)
        return schedule

    @property
    def task_loops(self) -> list[Loop]:
        steps = dict(self.params.tile)
        found = []
        for v, loop in self.outer_loops.items():
            step = steps.get(v, 1)
            if most(v) > step:
                found.append(Loop(loop.name, most(v) // step, step=step))
        blocks = -(-self.n_extent // self.block)
        return [*found, *([Loop("n", blocks, step=self.block)] if blocks > 1 else [])]

    @property
    def first(self) -> str:
        """The first lane of a task."""
        return "n" if self.n_extent > self.block else "0"

    @property
    def n_extent(self) -> int:
        return most(self.params.n)

    @property
    def vectors(self) -> int:
        return self.params.vectors

    @property
    def block(self) -> int:
        """Lanes of a task."""
        return self.vectors * self.params.lanes

    @property
    def whole_vectors(self) -> int:
        """Vectors of the first task that lanes fill."""
        return min(self.vectors, self.n_extent // self.params.lanes)

    @property
    def at_once(self) -> int:
        return self.params.at_once

    @property
    def tail(self) -> int:
        """Lanes of the last vector, where they do not fill it."""
        return self.n_extent % self.params.lanes

    @property
    def has_full(self) -> bool:
        return self.n_extent >= self.params.lanes

    @property
    def walk(self) -> list[Loop]:
        return [Loop(f"w{k}", v.value.extent, k) for k, v in enumerate(self.params.walk)]

    @property
    def outside(self) -> list[Loop]:
        """The loops of the sum around its parts."""
        return self.walk[: self.params.parts.split]

    @property
    def split(self) -> Loop:
        """The loop that parts cut."""
        return self.walk[self.params.parts.split]

    @property
    def rounds(self) -> int:
        """Iterations of that loop in a part."""
        return self.params.parts.rounds

    @property
    def has_parts(self) -> bool:
        return self.rounds < int(self.split.extent)

    @property
    def inside(self) -> list[Loop]:
        return [Loop(w.name, w.extent, k) for k, w in enumerate(self.walk[self.params.parts.split + 1 :])]

    @cached_property
    def tiles(self) -> list[SweepTile]:
        return [
            SweepTile(self, tail) for tail in (*([None] if self.has_full else []), *([self.tail] if self.tail else []))
        ]


class SweepTile:
    """The functions of one vector of lanes, or of the ``tail`` of them that is left."""

    def __init__(self, view: SweepView, tail: int | None) -> None:
        self.view, self.tail = view, tail
        end = "_tail" if tail is not None else ""
        self.part, self.ending = f"{view.name}_part{end}", f"{view.name}_end{end}"

    @property
    def _count(self) -> str | None:
        return None if self.tail is None else str(self.tail)

    @property
    def _outputs(self) -> list[dict[Expr, Expr]]:
        """The positions of the results, relative to the first."""
        tile = self.view.params.tile
        return [{v: v + by for (v, _), by in zip(tile, place)} for place in product(*(range(c) for _, c in tile))]

    @property
    def _names(self) -> dict[Expr, str]:
        steps, names = dict(self.view.params.tile), self.view.outer_names
        return {v: "0" if most(v) == steps.get(v, 1) else name for v, name in names.items()} | {self.view.params.n: "n"}

    @cached_property
    def _printed(self) -> tuple[list[str], list[list[str]]]:
        """The lines before the loops of a part, and those in each loop."""
        view, p = self.view, self.view.params
        printer = Printer(self._names, view.pointers, p.n, self._count)
        levels = []
        for k, (v, loop) in enumerate(zip(p.walk, view.walk)):
            depth = 1 + max(0, k - len(view.outside) + 1)
            levels.append(printer.enter(v, loop.name, depth))
        for r, moved in enumerate(self._outputs):
            update = printer.vector_update("add", f"c{r}", X.substitute(p.term, moved))
            levels[-1].append("  " * depth + update)
        before = [*printer.lines, *(line for level in levels[: len(view.outside)] for line in level)]
        return before, levels[len(view.outside) :]

    @property
    def before(self) -> list[str]:
        return self._printed[0]

    @property
    def loops(self) -> list[list[str]]:
        """The lines of the loop that parts cut, and of those inside it."""
        return self._printed[1]

    @cached_property
    def stored(self) -> list[str]:
        """The lines behind a sum: what follows it, and the store."""
        view, p = self.view, self.view.params
        printer = Printer(self._names, view.pointers, p.n, self._count, prefix="e")
        for r, moved in enumerate(self._outputs):
            own = X.load(("accumulator", r), (X.const(0) + p.n,), "f32")
            printer.define(own, f"ec_load(total + {r} * EC_VL)")
            value = printer.to_store(X.substitute(X.substitute(p.body, {p.total: own}), moved))
            printer.lines.append(
                "  " + view.store_line(printer, X.substitute(p.address, moved), value, p.n, self._count)
            )
        return printer.lines

    def _interface(self, lines: list[str]) -> tuple[str, str]:
        view = self.view
        indices = [*(d.name for d in view.outer), "n", *(w.name for w in view.outside)]
        return view.tile_interface(indices, lines)

    @property
    def part_interface(self) -> tuple[str, str]:
        return self._interface([*self.before, *(line for level in self.loops for line in level)])

    @property
    def end_interface(self) -> tuple[str, str]:
        return self._interface(self.stored)

    def calls(self, name: str, n: object) -> str:
        """The arguments of a call at the lane ``n``."""
        _, arguments = self.part_interface if name == "part" else self.end_interface
        return ", ".join(str(n) if a == "n" else a for a in arguments.split(", "))
