"""Winograd's method as its template sees it: the transforms as formulas, and the products between them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from itertools import product

from edgec.emit.c_expression import Printer
from edgec.emit.views.base import Loop, View, decoded, numbered
from edgec.emit.views.epilogue import on_vectors
from edgec.emit.views.winograd_transforms import along, of_inputs, of_products
from edgec.emit.views.winograd_weights import RunTimeWeightsView
from edgec.ir import expr as X
from edgec.ir.expr import Expr
from edgec.schedule.contract.parts import parts_of_long
from edgec.schedule.contract.winograd import Winograd
from edgec.schedule.program import Buffer, Kernel


@dataclass(frozen=True)
class Product:
    """One register tile of the matrix products."""

    name: str
    rows: int
    vectors: int


@dataclass(frozen=True)
class Pixel:
    """An output of a tile: when it is stored ("" always), and how."""

    condition: str
    lines: tuple[str, ...]


class WinogradView(View):
    """Transforms of a tile, register tiles of the products, and the tasks: blocks of tiles times panels."""

    def __init__(self, kernel: Kernel, name: str, aliases: frozenset[Buffer]) -> None:
        super().__init__(kernel, name, aliases)
        p = self.params
        self.outer = numbered(p.outer)
        self.names = {v: d.name for v, d in self.outer.items()}
        for side, place in zip(p.sides, self.places):
            self.names[side.loop] = place
            if side.pooled is not None:
                self.names[side.pooled.loop] = f"({place} / {side.step})"
        self.sums = {v: Loop(f"k{d}", v.value.extent, d) for d, v in enumerate(p.k)}

    @property
    def params(self) -> Winograd:
        schedule = self.kernel.schedule
        assert isinstance(schedule, Winograd)
        return schedule

    # ---- sizes

    @property
    def places(self) -> list[str]:
        """The first output of a tile along every side."""
        return ["row", "column"][-len(self.params.sides) :]

    @property
    def points(self) -> int:
        return self.params.points

    @property
    def k_extent(self) -> int:
        return self.params.k_extent

    @cached_property
    def at_run(self) -> RunTimeWeightsView | None:
        """The transform of weights that are no constants."""
        p = self.params
        return RunTimeWeightsView(self, p, self.names, self.sums) if p.at_run is not None else None

    @property
    def part(self) -> int:
        """Terms of a sum that are added up on their own; 0 where it is short, or where weights come in parts."""
        if self.params.at_run is not None:
            return 0
        parts = parts_of_long([self.k_extent])
        return parts.rounds if parts is not None else 0

    @property
    def k_stride(self) -> int:
        return self.params.k_stride

    @property
    def width(self) -> int:
        return self.params.width

    @property
    def block(self) -> int:
        return self.params.block

    @property
    def panels(self) -> int:
        return self.params.panels

    @property
    def tasks(self) -> int:
        return self.params.blocks * self.params.panels

    @property
    def tile_count(self) -> int:
        return self.params.tiles

    @property
    def input_stride(self) -> int:
        return self.params.input_stride

    @property
    def product_stride(self) -> int:
        return self.params.product_stride

    @property
    def packed_parameter(self) -> str:
        assert self.params.packed is not None
        return self.pointers[self.params.packed]

    @property
    def panel_size(self) -> int:
        return self.points * self.k_extent * self.width

    # ---- the walk over tiles

    @property
    def tile_loops(self) -> list[Loop]:
        """The loops that number a tile, outermost first: the outer loops, and tiles along every side."""
        sides = [Loop(f"{name}_tile", side.tiles) for name, side in zip(self.places, self.params.sides)]
        return [*self.outer.values(), *sides]

    @property
    def starts(self) -> list[str]:
        """The loops of a tile, and its first output along each side; the last tile is moved back to the end."""
        lines = decoded(self.tile_loops, "tile")
        for name, side in zip(self.places, self.params.sides):
            m = side.toom.outputs
            start = f"{name}_tile * {m}"
            if side.is_ragged:
                start = f"ec_min_int({start}, {side.extent - m})"
            lines.append(f"const ec_int {name} = {start};")
        return lines

    @property
    def skips(self) -> list[str]:
        """Outputs of a tile that the tile before it has stored already."""
        ragged = [(n, s) for n, s in zip(self.places, self.params.sides) if s.is_ragged]
        return [f"const ec_int {n}_skip = {n}_tile * {s.toom.outputs} - {n};" for n, s in ragged]

    # ---- the input's transform

    @property
    def sum_loops(self) -> list[Loop]:
        """The loops of the sum outside its vectors."""
        return list(self.sums.values())[:-1]

    @property
    def sum_indent(self) -> str:
        return "  " * len(self.sum_loops)

    @property
    def lane_loop(self) -> Loop:
        return list(self.sums.values())[-1]

    @property
    def lane_tail(self) -> int:
        return int(self.lane_loop.extent) % self.params.lanes

    def forward(self, counted: bool) -> list[str]:
        """Load the inputs of a tile, transform them, store them where the products read them."""
        p = self.params
        lane = p.k[-1]
        names = self.names | {v: d.name for v, d in self.sums.items()}
        count = str(self.lane_tail) if counted else None
        printer = Printer(names, self.pointers, lane, count, depth=len(self.sums) + 1)
        tooms = [side.toom for side in p.sides]
        values: dict[tuple[int, ...], Expr] = {}
        for at in product(*(range(t.inputs) for t in tooms)):
            values[at] = X.substitute(p.s, {side.tap: X.const(i) for side, i in zip(p.sides, at)})
        for d, toom in enumerate(tooms):
            values = along(values, d, toom.inputs, partial(of_inputs, toom), printer)
        suffix, tail = ("_n", f", {count}") if counted else ("", "")
        pad = "  " * (len(self.sums) + 1)
        for k, at in enumerate(product(*(range(t.inputs) for t in tooms))):
            place = f"v + {k * p.input_stride}" if k else "v"
            printer.lines.append(f"{pad}ec_store{suffix}({place}, {printer.vector(values[at])}{tail});")
        return printer.lines

    @cached_property
    def forward_interface(self) -> tuple[str, str]:
        lines = [*self.forward(False), *(self.forward(True) if self.lane_tail else [])]
        return self.tile_interface([*(d.name for d in self.outer.values()), *self.places], lines)

    # ---- the products

    @property
    def _heights(self) -> list[int]:
        """Of register tiles: whole ones, what is left of a block, and what is left of the last block."""
        p = self.params
        last = p.tiles - (p.blocks - 1) * p.block
        return list(dict.fromkeys(h for h in (p.rows, p.block % p.rows, last % p.rows) if h))

    @property
    def _widths(self) -> list[int]:
        p = self.params
        last = -(-(p.n_extent - (p.panels - 1) * p.width) // p.lanes)
        return list(dict.fromkeys(([p.vectors] if p.panels > 1 else []) + [last]))

    @property
    def products(self) -> list[Product]:
        return [Product(f"{self.name}_{h}x{v}", h, v) for h in self._heights for v in self._widths]

    @property
    def rows(self) -> int:
        return self.params.rows

    def accumulators(self, tile: Product, row: int) -> str:
        return ", ".join(f"c{row}_{v} = ec_set1(0.0f)" for v in range(tile.vectors))

    @property
    def rests(self) -> list[int]:
        """Heights of the register tiles that end a block."""
        return [h for h in self._heights if h != self.params.rows]

    def call(self, rows: int) -> str:
        """The call of a register tile at hand, by the width of the panel."""
        given = ", part, end" if self.params.at_run is not None else ""
        calls = [f"{self.name}_{rows}x{v}(a, u, c{given})" for v in self._widths]
        return calls[0] if len(calls) == 1 else f"(panel < {self.panels - 1} ? {calls[0]} : {calls[1]})"

    # ---- the result's transform

    @property
    def lanes(self) -> int:
        return self.params.lanes

    @property
    def n_extent(self) -> int:
        return self.params.n_extent

    @property
    def tail(self) -> int:
        return self.n_extent % self.lanes

    @property
    def has_full(self) -> bool:
        return self.n_extent >= self.lanes

    def _backward(self) -> tuple[list[str], dict[tuple[int, ...], str]]:
        p = self.params
        lane = X.var("lane", p.lanes)
        printer = Printer({lane: "0"}, {}, lane, prefix="b")
        values: dict[tuple[int, ...], Expr] = {}
        for k, at in enumerate(product(*(range(side.toom.inputs) for side in p.sides))):
            values[at] = X.load(("product", at), (lane,), "f32")
            printer.lines.append(f"  const ec_vf m{k} = ec_load(c + {k * p.product_stride});")
            printer.define(values[at], f"m{k}")
        for d, side in enumerate(p.sides):
            values = along(values, d, side.toom.inputs, partial(of_products, side.toom), printer)
        return printer.lines, {at: printer.vector(e) for at, e in values.items()}

    @cached_property
    def backward(self) -> list[str]:
        """From the products of a tile to its outputs."""
        return self._backward()[0]

    def pixels(self, counted: bool) -> list[Pixel]:
        """The epilogue of every output of a tile."""
        p = self.params
        count = str(self.tail) if counted else None
        found = []
        values = self._backward()[1]
        for at in product(*(range(0, side.toom.outputs, side.step) for side in p.sides)):
            printer = Printer(self.names | {p.n: "n"}, self.pointers, p.n, count, depth=2, prefix="e")
            results = [side.pooled.loop if side.pooled is not None else side.loop for side in p.sides]
            change = {v: v + i // side.step for v, side, i in zip(results, p.sides, at)}
            names = self._window(at, values)
            body = on_vectors(printer, X.substitute(p.epilogue, change), p.n, names.__getitem__)
            line = self.store_line(printer, X.substitute(p.address, change), printer.vector(body), p.n, count)
            tests = [
                f"{name}_skip <= {i}"
                for name, side, i in zip(self.places, p.sides, at)
                if side.is_ragged and i < side.toom.outputs - side.extent % side.toom.outputs
            ]
            found.append(Pixel(" && ".join(tests), (*printer.lines, f"    {line}")))
        return found

    def _window(self, at: tuple[int, ...], values: dict[tuple[int, ...], str]) -> dict[tuple[int, ...], str]:
        """The names of the sums that are one result, whose first is ``at`` a place of the tile."""
        p = self.params
        found = {}
        for far in product(*(range(side.step) for side in p.sides)):
            place = [0] * sum(side.pooled is not None for side in p.sides)
            for side, i in zip(p.sides, far):
                if side.pooled is not None:
                    place[side.pooled.place] = i
            found[tuple(place)] = values[tuple(a + i for a, i in zip(at, far))]
        return found

    @cached_property
    def backward_interface(self) -> tuple[str, str]:
        tails = ([False] if self.has_full else []) + ([True] if self.tail else [])
        pixels = [pixel for counted in tails for pixel in self.pixels(counted)]
        lines = [text for pixel in pixels for text in (pixel.condition, *pixel.lines)]
        skips = [f"{n}_skip" for n in self.places]
        return self.tile_interface([*(d.name for d in self.outer.values()), *self.places, *skips, "n"], lines)

    def back_call(self, suffix: str) -> str:
        """The call of a result's transform, for the vector at ``j`` of a panel."""
        change = {"n": f"panel * {self.width} + j"}
        arguments = ", ".join(change.get(a, a) for a in self.backward_interface[1].split(", "))
        return f"{self.name}{suffix}(c + j, {arguments})"
