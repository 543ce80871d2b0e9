"""Matrix products as their GPU templates see them: three functions (load S, load L, finish) and a tile.

The functions are what differs between a product, a convolution and whatever else is a sum of products; the templates
hold the loops around them and know none of that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from edgec.emit.gpu.base import GpuView, numbered
from edgec.ir import expr as X
from edgec.ir.expr import Expr
from edgec.ir.nest import coefficient, most
from edgec.schedule.gpu.contract import GpuContract, plain_load
from edgec.schedule.gpu.kernel import LANES
from edgec.schedule.gpu.tiles import AnyTile, TensorTile

_NUMBERS = ("batch", "m", "n", "k")


@dataclass(frozen=True)
class Slot:
    """A device function: ``lanes`` elements at once, the lines of its body, and what a call passes."""

    name: str
    lanes: int
    parameters: str
    arguments: str
    lines: list[str]
    value: str = ""
    pointer: str = ""  # the type of a place in memory, for slots that say where elements lie (``lanes`` is 0)

    @property
    def ctype(self) -> str:
        return self.pointer or ("ec_vf" if self.lanes > 1 else "float")

    def call(self, *more: str, **change: str) -> str:
        names = [change.get(a, a) for a in self.arguments.split(", ") if a]
        return f"{self.name}({', '.join([*names, *more])})"


class ContractView(GpuView):
    """A matrix product; in the template ``batch``, ``m``, ``n`` and ``k`` number its loops."""

    @property
    def params(self) -> GpuContract:
        params: GpuContract = self.kernel.params
        return params

    @property
    def tile(self) -> AnyTile:
        return self.params.tile

    @property
    def tensor(self) -> bool:
        """Is it computed on tensor cores?"""
        return isinstance(self.tile, TensorTile)

    @property
    def threads(self) -> int:
        return self.tile.threads

    @property
    def groups(self) -> int:
        return self.params.tiles * self.tile.split

    @property
    def rows(self) -> int:
        return self.params.rows

    @property
    def columns(self) -> int:
        return self.params.columns

    @property
    def depth(self) -> int:
        return self.params.depth

    @property
    def row_tiles(self) -> int:
        return -(-self.rows // self.tile.m)

    @property
    def column_tiles(self) -> int:
        return -(-self.columns // self.tile.n)

    @property
    def batches(self) -> int:
        return self.params.batches

    @property
    def split(self) -> int:
        return self.tile.split

    @property
    def part(self) -> int:
        """Steps of k that one group takes: whole rounds."""
        rounds = -(-self.depth // self.tile.k)
        return -(-rounds // self.split) * self.tile.k

    @property
    def element(self) -> str:
        """The type of an element in shared memory, for tensor cores."""
        return "ec_f16" if isinstance(self.tile, TensorTile) and self.tile.element == "f16" else "float"

    @property
    def s_along_k(self) -> bool:
        """Do neighboring threads load neighbors of S along k (or along m)?"""
        return self.params.s_lanes or _step(self.params.s, self.params.k) == 1

    @property
    def l_along_n(self) -> bool:
        return self.params.l_lanes or _step(self.params.l, self.params.l_k) != 1

    # ---- slots

    def _slot(self, what: str, loops: Mapping[str, Sequence[Expr]], value: Expr, lane: Expr | None) -> Slot:
        names, lines = _numbered(loops)
        printer = self.printer(names, lane)
        text = printer.vector(value) if lane is not None else printer.value(value)
        parameters, arguments = self.tile_interface(_NUMBERS, [*lines, *printer.lines, text])
        body = [*lines, *printer.lines]
        return Slot(f"{self.name}_{what}", LANES if lane is not None else 1, parameters, arguments, body, text)

    def _place(self, what: str, loops: Mapping[str, Sequence[Expr]], value: Expr) -> Slot:
        """Where a factor lies, or a null pointer where it is zero by choice."""
        names, lines = _numbered(loops)
        printer = self.printer(names)
        load = plain_load(value)
        assert load is not None
        where = f"{self.pointers[load.value]} + {printer.position(load.args[0])}"
        text = f"{printer.value(value.args[0])} ? {where} : 0" if value.op == "select" else where
        parameters, arguments = self.tile_interface(_NUMBERS, [*lines, *printer.lines, text])
        body = [*lines, *printer.lines]
        return Slot(
            f"{self.name}_{what}", 0, parameters, arguments, body, text, f"{self.qualifier}const {self.element} *"
        )

    @cached_property
    def s(self) -> Slot:
        p = self.params
        if p.s_copied:
            return self._place("s", {"batch": p.batch, "m": p.m, "k": p.k}, p.s)
        lane = p.k[-1] if p.s_lanes else None
        return self._slot("s", {"batch": p.batch, "m": p.m, "k": p.k}, p.s, lane)

    @cached_property
    def l(self) -> Slot:  # noqa: E743
        p = self.params
        if p.l_copied:
            return self._place("l", {"batch": p.batch, "k": p.l_k, "n": p.l_n}, p.l)
        lane = (p.l_k if self.tensor else p.l_n)[-1] if p.l_lanes else None
        return self._slot("l", {"batch": p.batch, "k": p.l_k, "n": p.l_n}, p.l, lane)

    @cached_property
    def finish(self) -> Slot:
        """Stores f(sum) at (m, n), where ``sum`` is one element or LANES neighbors along n."""
        p = self.params
        lane = p.n[-1] if p.store_lanes else None
        names, lines = _numbered({"batch": p.batch, "m": p.m, "n": p.n})
        printer = self.printer(names, lane)
        accumulated = X.load("sum", (X.const(0) + lane,), "f32") if lane is not None else p.accumulator
        printer.define(accumulated, "sum")
        body = X.substitute(p.epilogue, {p.accumulator: accumulated})
        value = printer.vector(body) if lane is not None else printer.value(body)
        store = self.store_line(printer, p.address, value, lane, None)
        text = [*lines, *printer.lines, f"  {store}"]
        parameters, arguments = self.tile_interface(_NUMBERS, text)
        return Slot(f"{self.name}_finish", LANES if lane is not None else 1, parameters, arguments, text)


def _numbered(loops: Mapping[str, Sequence[Expr]]) -> tuple[dict[Expr, str], list[str]]:
    """Names of loops, and the lines that take the numbers they are given by apart."""
    names: dict[Expr, str] = {}
    lines: list[str] = []
    for number, variables in loops.items():
        mine, apart = numbered(variables, number, f"{number[0]}_")
        names |= mine
        lines += (f"  {line}" for line in apart)
    return names, lines


def _step(e: Expr, loops: Sequence[Expr]) -> int | None:
    """How far the first load of ``e`` moves along the innermost loop that is one."""
    inner = next((v for v in reversed(loops) if v.op == "var" and most(v) > 1), None)
    places = [load.args[0] for load in X.loads(e) if load.args]
    return coefficient(places[0], inner) if places and inner is not None else None
