"""Attention as its template sees it: tiles of scores, tiles of results, and the loops around them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from edgec.emit.c_expression import Printer, extent_text
from edgec.emit.views.base import Loop, LoopedView
from edgec.fuse.attention import DOT, MIXED
from edgec.ir import expr as X
from edgec.ir.expr import Expr, Extent
from edgec.ir.nest import coefficient, extent, most
from edgec.schedule.attention.attention import KEY_BLOCK, KEY_ROWS, Attention


class AttentionView(LoopedView):
    """A block of queries is a task; in C ``m`` is its first query, ``j`` a key, ``d`` a feature of the result."""

    @property
    def params(self) -> Attention:
        schedule = self.kernel.schedule
        assert isinstance(schedule, Attention)
        return schedule

    @cached_property
    def sums(self) -> list[Loop]:
        return [Loop(f"k{i}", extent(v), i) for i, v in enumerate(self.params.k)]

    @cached_property
    def names(self) -> dict[Expr, str]:
        p = self.params
        return {**self.outer_names, **dict(zip(p.k, (s.name for s in self.sums))), p.m: "m", p.n: "j", p.d: "d"}

    @property
    def task_loops(self) -> list[Loop]:
        return [*self.outer, Loop("m", self.params.blocks, step=self.queries)]

    # ---- facts the template writes down

    key_block = KEY_BLOCK

    @property
    def query_rows(self) -> int:
        return self.params.rows

    @property
    def queries(self) -> int:
        return self.params.queries

    @property
    def features(self) -> int:
        return self.params.features

    @property
    def width(self) -> int:
        return self.params.width

    @property
    def m_extent(self) -> Extent:
        return extent(self.params.m)

    @property
    def n_extent(self) -> Extent:
        return extent(self.params.n)

    @cached_property
    def seen(self) -> tuple[list[str], str, str]:
        """Of the block from query ``m`` on: (lines, the first key it sees, the one behind the last), in whole tiles."""
        n = extent_text(self.n_extent)
        if self.params.seen is None:
            return [], "0", n
        printer = Printer(self.names, self.pointers, depth=2)
        first, last = (printer.position(e) for e in self.params.seen)
        last = f"ec_min_int({n}, ({last} + {KEY_ROWS - 1}) / {KEY_ROWS} * {KEY_ROWS})"
        return printer.lines, first if first == "0" else f"{first} / {KEY_ROWS} * {KEY_ROWS}", last

    @property
    def d_extent(self) -> int:
        return most(self.params.d)

    @property
    def tail(self) -> int:
        return self.d_extent % self.params.lanes

    @property
    def sum_position(self) -> str:
        text, scale = "0", 1
        for loop in reversed(self.sums):
            text, scale = f"{loop.name} * {scale} + {text}", scale * most_of(loop)
        return f"({text})"

    # ---- queries, gathered into a block

    @cached_property
    def _gathered(self) -> tuple[list[str], str]:
        p = self.params
        printer = Printer({**self.names, p.m: "(m + i)"}, self.pointers, depth=len(self.sums) + 3)
        value = printer.value(p.query)
        return printer.lines, value

    @property
    def gather_lines(self) -> list[str]:
        return self._gathered[0]

    @property
    def gather(self) -> str:
        return self._gathered[1]

    # ---- tiles

    @property
    def key_heights(self) -> list[int]:
        """Keys of the tiles that a block of keys is taken in; no loop that never runs is written down."""
        n = self.n_extent
        return [r for r in (KEY_ROWS, 1) if not isinstance(n, int) or (n >= r if r > 1 else n % KEY_ROWS)]

    @property
    def _live(self) -> list[bool]:
        """Can all queries of a block exist, and can some not (True)?"""
        m = self.m_extent
        return [c for c in (False, True) if not isinstance(m, int) or (m % self.queries if c else m >= self.queries)]

    @cached_property
    def score_tiles(self) -> list[ScoreTile]:
        return [ScoreTile(self, rows, counted) for rows in self.key_heights for counted in self._live]

    def scores(self, rows: int, key: str, target: str) -> str:
        """Calls of the tile for ``rows`` keys from ``key`` on: whole where all queries of the block are live."""
        calls = [t.call({"j": key, "s": target}) for t in self.score_tiles if t.rows == rows]
        return calls[0] if len(calls) == 1 else f"if (live == {self.queries}) {calls[0]}; else {calls[1]}"

    @cached_property
    def value_tiles(self) -> list[ValueTile]:
        p = self.params
        vectors = -(-self.d_extent // p.lanes)
        step = -(-vectors // -(-vectors // p.value_vectors))  # all of about one size
        return [
            ValueTile(f"{self.name}_values_{start}", start, min(step, vectors - start), start * p.lanes)
            for start in range(0, vectors, step)
        ]

    @cached_property
    def values(self) -> list[str]:
        """The vectors of one value, key j + i: values side by side do not fight for the same places of the cache."""
        p = self.params
        names = {**self.names, p.n: "(j + i)"}
        texts = []
        for first in range(0, self.d_extent, p.lanes):
            live = self.d_extent - first
            printer = Printer({**names, p.d: str(first)}, self.pointers, p.d, str(live) if live < p.lanes else None)
            texts.append(printer.text(p.value))
        return texts

    # ---- what has no lanes

    @cached_property
    def scalar_score(self) -> tuple[list[str], str] | None:
        """(lines, value) of the score of query m + i and key j + r, where its formula has no vector form."""
        p = self.params
        if p.score_has_lanes:
            return None
        printer = Printer({**self.names, p.m: "(m + i)", p.n: "(j + r)"}, self.pointers, depth=5)
        printer.define(DOT, f"scores[r * {self.queries} + i]")
        value = printer.value(p.score)
        return printer.lines, value

    # ---- the result

    def _finished(self, count: str | None) -> list[str]:
        p = self.params
        lane = p.d if p.result_has_lanes else None
        printer = Printer({**self.names, p.m: "(m + r)"}, self.pointers, lane, count, depth=4)
        mixed = X.load("mixed", (p.d,), "f32") if lane is not None else MIXED
        printer.define(mixed, "total")
        body = X.substitute(p.result, {MIXED: mixed})
        value = printer.to_store(body) if lane is not None else printer.value(body)
        return [*printer.lines, f"        {self.store_line(printer, p.address, value, lane, count)}"]

    @cached_property
    def finish(self) -> list[str]:
        return self._finished(None)

    @cached_property
    def finish_tail(self) -> list[str]:
        return self._finished(str(self.tail))


def most_of(loop: Loop) -> int:
    assert isinstance(loop.extent, int)
    return loop.extent


class ScoreTile:
    """Scores of ``rows`` keys with every query of the block; ``counted`` when some of the queries do not exist."""

    def __init__(self, view: AttentionView, rows: int, counted: bool) -> None:
        self.view, self.rows, self.counted = view, rows, counted
        self.name = f"{view.name}_scores_{rows}{'_n' if counted else ''}"
        p = view.params
        address = p.key.args[0]
        self._steps = {v: coefficient(address, v) for v in (*p.k, p.n)}
        self._start = X.substitute(address, {v: X.const(0) for v in p.k})

    @property
    def vectors(self) -> int:
        return self.view.params.vectors

    @cached_property
    def hoisted(self) -> list[str]:
        """The pointer to the first key; steps from there are constants."""
        p = self.view.params
        if None in self._steps.values():
            return []
        place = Printer(self.view.names, self.view.pointers).position(self._start)
        return [f"const float *const key = {self.view.pointers[p.key.value]} + {place};"]

    def key(self, row: int) -> str:
        p, names = self.view.params, self.view.names
        if not self.hoisted:
            shifted = X.substitute(p.key, {p.n: p.n + row})
            return Printer(names, self.view.pointers).text(shifted)
        steps = [f"{names[v]} * {self._steps[v]}" if self._steps[v] != 1 else names[v] for v in p.k if self._steps[v]]
        offset = row * (self._steps[p.n] or 0)
        return f"key[{' + '.join([*steps, *([str(offset)] if offset or not steps else [])])}]"

    @cached_property
    def epilogue(self) -> list[str]:
        p, view = self.view.params, self.view
        lines: list[str] = []
        for v in range(self.vectors):
            count = f"count{v}" if self.counted else None
            printer = Printer(view.names, view.pointers, p.m, count, prefix=f"e{v}_")
            for r in range(self.rows):
                value = f"c{r}_{v}"
                if p.score_has_lanes:
                    dot = X.load(("dot", r, v), (X.const(0) + p.m,), "f32")
                    printer.define(dot, value)
                    moved = X.substitute(p.score, {p.m: p.m + v * p.lanes, p.n: p.n + r})
                    value = printer.vector(X.substitute(moved, {DOT: dot}))
                printer.lines.append(f"  ec_store(s + {r * view.queries + v * p.lanes}, {value});")
            lines += printer.lines
        return lines

    @cached_property
    def interface(self) -> tuple[str, str]:
        used = [*self.hoisted, *self.epilogue, *(self.key(r) for r in range(self.rows))]
        parameters, arguments = self.view.tile_interface([*self.view.outer_names.values(), "m", "j"], used)
        extra = [("const float *restrict ", "queries"), ("float *restrict ", "s")]
        extra += [("ec_int ", "live")] if self.counted else []
        parts = [parameters] if parameters else []
        names = [arguments] if arguments else []
        return ", ".join(parts + [k + n for k, n in extra]), ", ".join(names + [n for _, n in extra])

    @property
    def parameters(self) -> str:
        return self.interface[0]

    def call(self, change: dict[str, str]) -> str:
        arguments = (change.get(a, a) for a in self.interface[1].split(", "))
        return f"{self.name}({', '.join(arguments)})"


@dataclass(frozen=True)
class ValueTile:
    """Results of a few queries: ``vectors`` of features from vector ``start`` on."""

    name: str
    start: int
    vectors: int
    offset: int
