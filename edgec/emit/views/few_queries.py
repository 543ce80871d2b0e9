"""Attention of few queries as its template sees it: tiles of scores and of results, and the row between them."""

from __future__ import annotations

import re
from functools import cached_property
from math import gcd

from edgec.emit.c_expression import Printer, extent_text
from edgec.emit.views.base import Loop, LoopedView, decoded
from edgec.fuse.attention import DOT, MIXED
from edgec.ir import expr as X
from edgec.ir.expr import Expr
from edgec.ir.nest import coefficient, extent, most
from edgec.ir.types import DTYPES
from edgec.schedule.attention.few_queries import KEY_BLOCK, PARTIAL_ROWS, FewQueries, group_of
from edgec.schedule.storage import memory_type

#: Bytes of a cache line.
LINE = 64
#: Bytes of values between the one that is multiplied and the one that is prefetched.
PREFETCHED = 4096


class FewQueriesView(LoopedView):
    """A task is a block of rows with a part of the keys; in C ``r`` is a row, ``j`` a key, ``d`` a feature."""

    key_block, partial_rows = KEY_BLOCK, PARTIAL_ROWS

    @property
    def params(self) -> FewQueries:
        schedule = self.kernel.schedule
        assert isinstance(schedule, FewQueries)
        return schedule

    @property
    def merge(self) -> str:
        """The function that merges parts, when all threads have left theirs."""
        return f"{self.name}_merge"

    def declared(self, name: str) -> str:
        return "\n".join(super(FewQueriesView, self).declared(f) for f in (name, f"{name}_merge"))

    @property
    def unmerged(self) -> list[str]:
        """The parameters that the merging function does not use."""
        used = [*self.decoded_outer, *self.decoded_row, *self.finished(None), self.row_extent, self.n_extent]
        used += self.finished(str(self.tail)) if self.tail else []
        names = set(re.findall(r"[A-Za-z_]\w*", " ".join(used)))
        return [name for name in (*self.declarations, *self.sizes) if name not in names]

    # ---- loops

    @cached_property
    def sums(self) -> list[Loop]:
        return [Loop(f"k{i}", extent(v), i) for i, v in enumerate(self.params.k)]

    @cached_property
    def row_loops(self) -> list[Loop]:
        return [Loop(f"r{i}", extent(v)) for i, v in enumerate(self.params.rows)]

    @property
    def decoded_row(self) -> list[str]:
        """The variables of the row loops from the row ``r``."""
        return _used(decoded(self.row_loops, "r"), self.row_loops)

    @property
    def decoded_outer(self) -> list[str]:
        """The variables of the loops around from the number ``outer`` of one of their iterations."""
        return _used(decoded(self.outer, "outer"), self.outer)

    @cached_property
    def names(self) -> dict[Expr, str]:
        p = self.params
        rows = dict(zip(p.rows, (loop.name for loop in self.row_loops)))
        return {**self.outer_names, **rows, **dict(zip(p.k, (s.name for s in self.sums))), p.n: "j", p.d: "d"}

    @property
    def row_extent(self) -> str:
        return extent_text(self.params.row_count)

    @property
    def n_extent(self) -> str:
        return extent_text(extent(self.params.n))

    @property
    def d_extent(self) -> int:
        return most(self.params.d)

    @property
    def tail(self) -> int:
        return self.d_extent % self.params.lanes

    @property
    def feature(self) -> str:
        """The number of a feature from the loops of the inner product."""
        text = "0"
        for loop, v in zip(self.sums, self.params.k):
            text = loop.name if text == "0" else f"({text} * {most(v)} + {loop.name})"
        return text

    @cached_property
    def heights(self) -> list[int]:
        """Rows of tiles, the largest first: every number of rows is a sum of them."""
        p = self.params
        unit = gcd(group_of(p.rows), p.tile_rows)
        found = [p.tile_rows]
        while found[-1] > unit:
            found.append(max(found[-1] // 2 // unit * unit, unit))
        return [h for h in found if h <= p.most_rows or h == unit]

    # ---- queries and rows of scores

    @cached_property
    def gathered(self) -> tuple[list[str], str]:
        """(lines, value) of feature ``feature`` of row ``r``."""
        printer = Printer(self.names, self.pointers, depth=len(self.sums) + 4)
        value = printer.value(self.params.query)
        return printer.lines, value

    def scored(self, count: str | None) -> tuple[list[str], str]:
        """(lines, value) of the scores of row ``r`` from key ``j + i`` on, whose products are in ``s``."""
        p = self.params
        printer = Printer({**self.names, p.n: "(j + i)"}, self.pointers, p.n, count, depth=5)
        dot = X.load("dot", (p.n,), "f32")
        printer.define(dot, "dot")
        value = printer.vector(X.substitute(p.score, {DOT: dot}))
        return printer.lines, value

    @cached_property
    def scalar_score(self) -> tuple[list[str], str]:
        """The same of one key, where the formula has no vector form."""
        printer = Printer({**self.names, self.params.n: "(j + i)"}, self.pointers, depth=5)
        printer.define(DOT, "dot")
        value = printer.value(self.params.score)
        return printer.lines, value

    @property
    def is_weighted(self) -> bool:
        return self.params.weight.op != "const"

    def weighted(self, count: str | None) -> tuple[list[str], str]:
        """(lines, value) of the factors of values from key ``j + i`` on."""
        p = self.params
        lane = p.n if p.score_has_lanes else None
        printer = Printer({**self.names, p.n: "(j + i)"}, self.pointers, lane, count, depth=5)
        value = printer.vector(p.weight) if lane is not None else printer.value(p.weight)
        return printer.lines, value

    # ---- tiles

    @cached_property
    def score_tiles(self) -> list[ScoreTile]:
        p = self.params
        return [ScoreTile(self, h, v, counted) for h in self.heights
                for v, counted in ((p.vectors, False), (1, True))]  # fmt: skip

    @cached_property
    def value_tiles(self) -> list[ValueTile]:
        p = self.params
        vectors = p.width // p.lanes
        step = -(-vectors // -(-vectors // p.value_vectors))  # all of about one size
        starts = range(0, vectors, step)
        return [ValueTile(self, h, start, min(step, vectors - start)) for h in self.heights for start in starts]

    # ---- the result

    def finished(self, count: str | None) -> list[str]:
        """Lines that store the features ``d`` of row ``r``, whose weighted values are ``total``."""
        p = self.params
        lane = p.d if p.result_has_lanes else None
        printer = Printer(self.names, self.pointers, lane, count, depth=3)
        mixed = X.load("mixed", (p.d,), "f32") if lane is not None else MIXED
        printer.define(mixed, "total")
        body = X.substitute(p.result, {MIXED: mixed})
        value = printer.to_store(body) if lane is not None else printer.value(body)
        return [*printer.lines, f"      {self.store_line(printer, p.address, value, lane, count)}"]


def _used(lines: list[str], loops: list[Loop]) -> list[str]:
    """Definitions of variables, not all of which every formula has."""
    return [*lines, *(f"(void){loop.name};" for loop in loops)]


class _Tile:
    """A function of its own: the rows of a tile, and the operands and indices that its text uses."""

    def __init__(self, view: FewQueriesView, rows: int, name: str) -> None:
        self.view, self.rows, self.name = view, rows, f"{view.name}_{name}"
        self.p = view.params

    def _interface(self, indices: list[str], lines: list[str], own: list[tuple[str, str]]) -> tuple[str, str]:
        parameters, arguments = self.view.tile_interface([*self.view.outer_names.values(), *indices], lines)
        kinds, names = ([parameters] if parameters else []), ([arguments] if arguments else [])
        return ", ".join(kinds + [k + n for k, n in own]), ", ".join(names + [n for _, n in own])

    def _called(self, arguments: str, change: dict[str, str]) -> str:
        return f"{self.name}({', '.join(change.get(a, a) for a in arguments.split(', '))})"


class ScoreTile(_Tile):
    """Products of ``rows`` queries with ``vectors`` of keys; ``counted`` where a vector is not full."""

    def __init__(self, view: FewQueriesView, rows: int, vectors: int, counted: bool) -> None:
        super().__init__(view, rows, f"scores_{rows}{'_n' if counted else ''}")
        self.vectors, self.counted = vectors, counted

    @cached_property
    def keys(self) -> tuple[list[str], list[str]]:
        """(lines, vectors) of keys, from key ``j`` on."""
        p = self.p
        count = "count" if self.counted else None
        printer = Printer(self.view.names, self.view.pointers, p.n, count, depth=2)
        moved = [X.substitute(p.key, {p.n: p.n + v * p.lanes}) for v in range(self.vectors)]
        texts = [printer.vector(key) for key in moved]
        return printer.lines, texts

    @cached_property
    def prefetched(self) -> list[str]:
        """Lines in the loop over features that ask for keys of the block from ``ahead`` on.

        A tile is one of the ``tiles`` of its block: each asks for its part of the features, a line at a time, so that
        the loads of a block are spread over the arithmetic of the block before.
        """
        p, load = self.p, _load(self.p.key)
        address, size = load.args[0], DTYPES[memory_type(load)].itemsize
        step = coefficient(address, p.k[-1])
        below = 1
        for v in reversed(p.k):  # features in order: one loop, whose step is that of the last
            if step is None or coefficient(address, v) != step * below:
                return []
            below *= most(v)
        if self.counted or coefficient(address, p.n) != 1:
            return []
        keys = self.vectors * p.lanes
        tiles = KEY_BLOCK // keys
        names = {**self.view.names, p.n: "ahead", **dict.fromkeys(p.k, "0"), p.k[-1]: "feature"}
        place = Printer(names, self.view.pointers).position(address)
        pointer = self.view.pointers[load.value]
        text = [f"const ec_int feature = (tile * {p.features} + {self.view.feature}) / {tiles};",
                f"const ec_int part = {self.view.feature} % {tiles} * {keys};"]  # fmt: skip
        for line in range(0, keys * size, LINE):
            text.append(f"ec_prefetch({pointer} + {place} + part{f' + {line // size}' if line else ''});")
        return text

    @cached_property
    def interface(self) -> tuple[str, str]:
        used = [*self.keys[0], *self.keys[1], *self.prefetched]
        own = [("const float *restrict ", "queries"), ("float *restrict ", "s")]
        return self._interface(["j", "ahead", "tile"], used, own)

    @property
    def parameters(self) -> str:
        return self.interface[0]

    def call(self, change: dict[str, str]) -> str:
        return self._called(self.interface[1], change)


def _load(stored: Expr) -> Expr:
    """The load of a key or value, which may be widened."""
    return stored.args[0] if stored.op == "cast" else stored


class ValueTile(_Tile):
    """Results of ``rows`` queries: ``vectors`` of features from vector ``start`` on."""

    def __init__(self, view: FewQueriesView, rows: int, start: int, vectors: int) -> None:
        super().__init__(view, rows, f"values_{rows}_{start}")
        self.start, self.vectors = start, vectors

    @cached_property
    def values(self) -> tuple[list[str], list[str]]:
        """(lines, vectors) of the value of key ``j``."""
        p, view = self.p, self.view
        lines: list[str] = []
        texts: list[str] = []
        for v in range(self.start, self.start + self.vectors):
            live = view.d_extent - v * p.lanes
            count = str(live) if live < p.lanes else None
            names = {**view.names, p.d: str(v * p.lanes)}
            printer = Printer(names, view.pointers, p.d, count, depth=2, prefix=f"t{v}_")
            texts.append(printer.vector(p.value))
            lines += printer.lines
        return lines, texts

    @cached_property
    def prefetched(self) -> list[str]:
        """Lines that ask for a value that is needed later."""
        p, view, load = self.p, self.view, _load(self.p.value)
        address, size = load.args[0], DTYPES[memory_type(load)].itemsize
        if coefficient(address, p.d) != 1:
            return []
        ahead = max(PREFETCHED // (view.d_extent * size), 1)
        first, last = self.start * p.lanes, min((self.start + self.vectors) * p.lanes, view.d_extent)
        names = {**view.names, p.n: f"(j + {ahead})", p.d: str(first)}
        place = Printer(names, view.pointers).position(address)
        steps = range(0, last - first, max(LINE // size, 1))
        return [f"ec_prefetch({view.pointers[load.value]} + {place}{f' + {s}' if s else ''});" for s in steps]

    @cached_property
    def interface(self) -> tuple[str, str]:
        own = [("const float *restrict ", "p"), ("const float *restrict ", "shrink"), ("float *restrict ", "mixed"),
               ("ec_int ", "last")]  # fmt: skip
        return self._interface(["j"], [*self.values[0], *self.values[1], *self.prefetched], own)

    @property
    def parameters(self) -> str:
        return self.interface[0]

    def call(self, change: dict[str, str]) -> str:
        return self._called(self.interface[1], change)
