"""View of a product of one vector: the passes that compute it, the layout of its weights, and the result."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cached_property

from edgec.emit.c_expression import extent_text
from edgec.emit.gpu.base import GpuView, numbered
from edgec.emit.gpu.loops import Pass, ReduceView
from edgec.ir import expr as X
from edgec.ir.expr import Expr
from edgec.ir.extent import sizes
from edgec.ir.nest import extent
from edgec.schedule.gpu.kernel import LANES
from edgec.schedule.gpu.vector import BLOCKS, WARPS, Factor, GpuVector, VectorTile, total
from edgec.schedule.loops import reduced


class VectorView(GpuView):
    """In the template ``j`` numbers elements of S, ``v`` results."""

    @property
    def params(self) -> GpuVector:
        schedule = self.kernel.schedule
        assert isinstance(schedule, GpuVector)
        return schedule

    @property
    def tile(self) -> VectorTile:
        return self.params.tile

    @property
    def groups(self) -> int:
        return self.tile.groups

    @property
    def threads(self) -> int:
        return 32 * WARPS

    @property
    def resident(self) -> int:
        return BLOCKS

    @property
    def results(self) -> int:
        return self.params.results

    @property
    def depth(self) -> int:
        return self.params.depth

    @property
    def piece(self) -> int:
        """Elements of the weights that a lane loads at once."""
        return self.params.piece

    @property
    def pieces(self) -> int:
        """Pieces of a row of weights."""
        return -(-self.depth // self.piece)

    @property
    def is_even(self) -> bool:
        """Do all lanes of all steps have pieces?"""
        return self.pieces % (32 * self.tile.ways) == 0

    @property
    def shared_bytes(self) -> int:
        """S in whole pieces; none where it is in registers."""
        return 0 if self.tile.in_registers else 4 * self.pieces * self.piece

    @property
    def kind(self) -> str:
        return self.params.kind

    @property
    def factors(self) -> tuple[Factor, ...]:
        return self.params.factors

    @property
    def words(self) -> list[str]:
        """The pointers to the weights of each sum."""
        return [self.pointers[f.words] for f in self.factors]

    @property
    def numbers(self) -> list[str]:
        """The pointers to scales and offsets of each sum; none where weights are floats."""
        return [self.pointers[f.numbers] for f in self.factors if f.numbers is not None]

    @property
    def number(self) -> str:
        """The type of a scale in memory."""
        numbers = self.factors[0].numbers
        return numbers.dtype if numbers is not None else ""

    @property
    def group(self) -> int:
        """Elements that share a scale."""
        return self.factors[0].group

    @property
    def prefetch(self) -> list[tuple[str, int]]:
        return self.prefetched(self.params.prefetch)

    # ---- S

    @cached_property
    def stage(self) -> ReduceView:
        return ReduceView(replace(self.kernel, schedule=self.params.stage), self.name, self.aliases)

    @property
    def team(self) -> int:
        return self.threads

    @property
    def neighbors(self) -> int:
        return 1

    @property
    def passes(self) -> list[Pass]:
        return self.stage.passes

    @property
    def step(self) -> int:
        """Elements of S that a thread computes at once."""
        return LANES if self.params.stage.lanes else 1

    @cached_property
    def element(self) -> tuple[list[str], list[str], str]:
        """(lines before the loop over S, lines inside it, value) of element ``j``, or of LANES from there on."""
        return self.stage.row_value

    @cached_property
    def scale(self) -> tuple[list[str], str]:
        """(lines, value) of the factor of all sums, over the reductions ``r0``, ``r1``, ...; no value without one."""
        if self.params.scale is None:
            return [], ""
        printer = self.printer({})
        printer.prefix = "f"
        for k in range(len(self.params.stage.reductions)):
            printer.define(reduced(k, "f32"), f"r{k}")
        value = printer.value(self.params.scale)
        return printer.lines, value

    # ---- the result

    @cached_property
    def kept(self) -> tuple[Expr, ...]:
        """Loads of the result at places that are known before its sums: requested early, one a thread."""
        p = self.params
        loops = frozenset(p.loops)
        return tuple(
            load for load in _certain(p.body) if load.dtype == "f32" and load.args and X.free_variables(load) <= loops
        )

    @property
    def kept_names(self) -> list[str]:
        return [f"kept{k}" for k in range(len(self.kept))]

    def requested(self, is_early: bool) -> list[str]:
        """Statements that load what is kept for the result ``v``, before or after the kernels before this one end."""
        names, lines = numbered(self.params.loops, "v", "i")
        printer = self.printer(names)
        printer.prefix = "o"
        stores = [(f"kept{k}", load) for k, load in enumerate(self.kept) if self._is_constant(load) == is_early]
        values = [f"{name} = {printer.value(load)};" for name, load in stores]
        text = " ".join([*printer.lines, *values])
        used = [line for line, name in zip(lines, names.values()) if re.search(rf"\b{name}\b", text)]
        return [*used, *printer.lines, *values] if values else []

    def _is_constant(self, load: Expr) -> bool:
        """Do both the buffer and the place depend on no kernel?"""
        read = self.kernel.read_sizes
        known = all(read[s].space == "input" for s in sizes(load.args[0]) if s in read)
        return load.value.space == "weights" and known

    @cached_property
    def finish(self) -> list[str]:
        """Statements that store the result ``v`` of sums ``sum0``, ``sum1``, ..."""
        p = self.params
        names, lines = numbered(p.loops, "v", "i")
        printer = self.printer(names)
        for j in range(len(p.factors)):
            printer.define(total(j), f"sum{j}")
        ready = {load: X.load(("kept", k), (), "f32") for k, load in enumerate(self.kept)}
        for k, value in enumerate(ready.values()):
            printer.define(value, f"kept{k}")
        heads = []
        for k, v in enumerate(p.inside):
            printer.enter(v, f"e{k}", k + 2)
            heads.append(f"{'  ' * k}for (ec_int e{k} = 0; e{k} < {extent_text(extent(v))}; ++e{k}) {{")
        store = self.store_line(printer, p.address, printer.value(X.substitute(p.body, ready)), None, None)
        printer.scopes[-1].lines.append("  " * len(p.inside) + store)
        nested = [line for head, scope in zip(heads, printer.scopes[1:]) for line in (head, *scope.lines)]
        ends = ["  " * k + "}" for k in reversed(range(len(heads)))]
        return [*lines, *printer.lines, *nested, *ends]


def _certain(e: Expr) -> dict[Expr, None]:
    """The loads that every evaluation makes, in order: those of both sides of a select, not those of one."""
    if e.op == "load":
        return {e: None} if not any(X.loads(a) for a in e.args) else {}
    if e.op == "select":
        condition, then, otherwise = map(_certain, e.args)
        return condition | {load: None for load in then if load in otherwise}
    found: dict[Expr, None] = {}
    for a in e.args:
        found |= _certain(a)
    return found
