"""Weights of Winograd's method that a run transforms, as the template sees them: packed taps, and their transform."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import product

from edgec.emit.c_expression import Printer
from edgec.emit.c_text import advanced
from edgec.emit.views.base import Loop, View, decoded
from edgec.emit.views.winograd_transforms import along, of_taps
from edgec.ir import expr as X
from edgec.ir.expr import Expr
from edgec.ir.nest import most
from edgec.schedule.contract.winograd import Winograd
from edgec.schedule.contract.winograd_weights import PACKED, RunTimeWeights


@dataclass(frozen=True)
class RunTimeWeightsView:
    """A function that packs and transforms a part of a panel; ``i`` is a term of the sum, ``n`` the first column."""

    view: View
    params: Winograd
    names: Mapping[Expr, str]  # of the loops around a task
    sums: Mapping[Expr, Loop]

    packed = PACKED

    @property
    def weights(self) -> RunTimeWeights:
        found = self.params.at_run
        assert found is not None
        return found

    @property
    def part(self) -> int:
        return self.weights.part

    @property
    def is_whole(self) -> bool:
        """Is a panel transformed as a whole?"""
        return self.part >= self.params.k_extent

    @property
    def is_kept(self) -> bool:
        """Do all tasks multiply by the same transformed weights?"""
        return self.is_whole and self.params.panels == 1

    @property
    def stride(self) -> int:
        return self.params.panel_stride

    @property
    def term(self) -> int:
        """Floats of the packed taps of a term."""
        return self.weights.count * self.params.width

    @property
    def live(self) -> str:
        """Columns of a panel that there are, in C."""
        p = self.params
        return str(p.width) if p.n_extent % p.width == 0 else "(int)width"

    # ---- packing

    @property
    def joined(self) -> bool:
        return self.weights.joined

    @property
    def decoded(self) -> list[str]:
        """The loops of the sum, from the number of a term."""
        return [] if self.joined else decoded(list(self.sums.values()), "i")

    @property
    def tap_loops(self) -> list[Loop]:
        """The loops around a call that packs taps of a term."""
        apart = self.weights.taps if self.joined else self.weights.taps[: -len(self.weights.blocks.inner)]
        return [] if self.joined else [Loop(f"tap{d}", v.value.extent, d) for d, v in enumerate(apart)]

    @property
    def pack(self) -> str:
        """C that packs all taps of some terms, or taps of a term."""
        p, w, blocks = self.params, self.weights, self.weights.blocks
        names = {**self.names, p.n: "n"} | {v: d.name for v, d in self.sums.items()}
        names |= {v: loop.name for v, loop in zip(w.taps, self.tap_loops)}
        zero = {v: X.const(0) for v in (w.taps if self.joined else blocks.inner)}
        if self.joined:
            names[p.k[0]] = "from"
        place = Printer(names, self.view.pointers).position(X.substitute(blocks.load.args[0], zero))
        below = 1
        for v in blocks.inner[self.joined :]:
            below *= most(v)
        terms = f"(until - from) * {below}" if self.joined else str(below)
        to = "packed"
        if not self.joined:
            at, scale = [], below
            for loop in reversed(self.tap_loops):
                at.append(f"{loop.name} * {scale * p.width}")
                scale *= int(loop.extent)
            to = " + ".join(["packed", f"(i - from) * {self.term}", *at])
        first = advanced(self.view.pointers[blocks.load.value], place)
        return f"ec_pack_floats({to}, {first}, {blocks.step}, {blocks.stride}, {terms}, {p.width}, {self.live});"

    # ---- the transform

    @cached_property
    def transform(self) -> list[str]:
        """From the packed taps of a term to its points, for the vector at ``j``."""
        p, w = self.params, self.weights
        lane = X.var("lane", p.lanes)
        printer = Printer({lane: "0"}, {}, lane, depth=3, prefix="w")
        values: dict[tuple[int, ...], Expr] = {}
        extents = [most(v) for v in w.taps]
        for place in product(*map(range, extents)):
            at = tuple(n - 1 - i if turned else i for i, n, turned in zip(place, extents, w.turned))
            number = 0
            for i, n in zip(at, extents):
                number = number * n + i
            values[place] = X.load(("tap", place), (lane,), "f32")
            offset = number * p.width
            printer.lines.append(f"      const ec_vf g{number} = ec_load(g{f' + {offset}' if offset else ''});")
            printer.define(values[place], f"g{number}")
        for d, side in enumerate(p.sides):
            values = along(values, d, side.toom.taps, partial(of_taps, side.toom), printer)
        for k, point in enumerate(product(*(range(side.toom.inputs) for side in p.sides))):
            to = f"u + j + {k * self.stride}" if k else "u + j"
            printer.lines.append(f"      ec_store({to}, {printer.vector(values[point])});")
        return printer.lines

    @cached_property
    def interface(self) -> tuple[str, str]:
        lines = [self.pack, *self.decoded]
        return self.view.tile_interface(["n", "width"], lines)
