"""Attention of few queries over many keys: a token that is generated, beside a cache of all earlier ones.

Lanes run along keys for scores and along features for results, so that one query fills them. All queries that read the
same keys (the heads of a group, the tokens of a run) are rows of one task, and each key is loaded once for a tile of
them. The keys of a task are a part of all keys where there are few rows, so that threads share a head; every part
leaves its largest score, its sum and its weighted values, which a second pass merges (Flash-Decoding, Dao et al. 2023).
Parts depend on shapes alone, and so do results.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import ClassVar

from edgec.device.device import Device
from edgec.fuse.attention import DOT, MIXED, attention_of, has_few_queries
from edgec.ir import expr as X
from edgec.ir.expr import Expr, Extent
from edgec.ir.nest import coefficient, extent, is_fixed, most
from edgec.ir.vector import is_vectorizable
from edgec.schedule.flat import Flat, Weights, with_contiguous_weights
from edgec.schedule.program import BlockSchedule, Buffer

#: Keys whose scores are in memory at once, and keys of a part, at least.
KEY_BLOCK = 256
#: Most rows of a task.
ROWS = 48
#: Parts of keys times rows of a head, at most, where there are several parts.
PARTIAL_ROWS = 64


@dataclass(frozen=True)
class FewQueries(BlockSchedule):
    """Loops and parts; ``score`` is over ``DOT``, its lanes along ``n``; ``result`` over ``MIXED``, along ``d``."""

    template: ClassVar[str] = "few_queries"
    loops: tuple[Expr, ...]
    rows: tuple[Expr, ...]  # queries that read the same keys, outermost first
    n: Expr  # keys
    d: Expr  # features of values
    k: tuple[Expr, ...]  # features of queries and keys
    query: Expr
    key: Expr
    value: Expr
    weight: Expr
    score: Expr
    result: Expr
    store: Buffer
    address: Expr
    lanes: int  # of one vector
    vectors: int  # of keys in one tile of scores
    tile_rows: int  # rows of a tile of scores or results
    value_vectors: int  # of features of a tile of results, at most
    score_has_lanes: bool
    result_has_lanes: bool
    threads: int  # at most

    @property
    def task_loops(self) -> tuple[Expr, ...]:
        return self.loops

    @property
    def describe(self) -> str:
        return f"few queries M={self.row_count} N={extent(self.n)} K={self.features} D={extent(self.d)}"

    @property
    def row_count(self) -> Extent:
        return X.plain(prod(map(extent, self.rows)))

    @property
    def most_rows(self) -> int:
        return prod(map(most, self.rows))

    @property
    def task_rows(self) -> int:
        """Rows of a task, at most: whole tiles."""
        whole = -(-min(ROWS, self.most_rows) // self.tile_rows)
        return whole * self.tile_rows

    @property
    def features(self) -> int:
        return prod(map(most, self.k))

    @property
    def width(self) -> int:
        """Features of a result, rounded up to whole vectors."""
        return -(-most(self.d) // self.lanes) * self.lanes

    @property
    def partial_floats(self) -> int:
        """Numbers that a part leaves of a row: weighted values, largest score, sum."""
        return self.width + 2

    @property
    def shared_floats(self) -> int:
        """Numbers that all parts leave."""
        return prod(map(most, self.loops)) * max(self.most_rows, PARTIAL_ROWS) * self.partial_floats

    @property
    def private_floats(self) -> int:
        """Numbers that a thread needs for itself: queries, scores, and a factor a row; whole cache lines."""
        return -(-self.task_rows * (self.features + KEY_BLOCK + 1) // 16) * 16

    @property
    def scratch_bytes(self) -> int:
        return 4 * (-(-self.shared_floats // 16) * 16 + self.threads * self.private_floats)

    @property
    def shares_scratch(self) -> bool:
        return True

    @property
    def merges(self) -> bool:
        return True

    @property
    def bodies(self) -> list[Expr]:
        return [self.query, self.key, self.value, self.weight, self.score, self.result]


def few_queries(flat: Flat, device: Device, weights: Weights, threads: int) -> FewQueries | None:
    """Schedule ``flat`` as attention of few queries; None when it is not, or not for a processor."""
    found = attention_of(flat.body)
    if found is None or device.is_gpu or not is_fixed(*found.features):
        return None
    query, key, value = (X.free_variables(part) for part in (found.query, found.key, found.value))
    rows = tuple(v for v in flat.loops if v in query and v not in key | value)
    others = query | key | X.free_variables(found.weight)
    wide = [v for v in flat.loops if v in value - others and is_fixed(v)]
    if not wide or not has_few_queries(flat.loops, flat.body):
        return None
    n, lanes = found.keys, device.vector_lanes
    d = max(wide, key=lambda v: (coefficient(flat.address, v) == 1, coefficient(_place(found.value), v) == 1, most(v)))
    many = device.vectors_in_registers >= 32
    tile_rows, vectors, value_vectors = (6, 4, 4) if many else (4, 2, 2)
    score = with_contiguous_weights(found.score, (*flat.loops, n), n, weights)
    return FewQueries(
        tuple(v for v in flat.loops if v is not d and v not in rows), rows, n, d, found.features,
        found.query, found.key, found.value, found.weight, score,
        with_contiguous_weights(found.result, flat.loops, d, weights), flat.store, flat.address,
        lanes, vectors, _tile_rows(rows, tile_rows), value_vectors,
        all(is_vectorizable(X.substitute(e, {DOT: X.load("dot", (n,), "f32")}), n) for e in (score, found.weight)),
        is_vectorizable(X.substitute(found.result, {MIXED: X.load("mixed", (d,), "f32")}), d),
        threads,
    )  # fmt: skip


def _place(value: Expr) -> Expr:
    """The position that a key or value is loaded from."""
    load = value.args[0] if value.op == "cast" else value
    place: Expr = load.args[0]
    return place


def _tile_rows(rows: tuple[Expr, ...], most_rows: int) -> int:
    """Rows of a tile: whole groups, or an even part of one, where the queries of a token are a group of known size."""
    group = group_of(rows)
    fitting = max(r for r in range(1, most_rows + 1) if group % r == 0 or r % group == 0)
    return fitting if 2 * fitting > most_rows else most_rows


def group_of(rows: tuple[Expr, ...]) -> int:
    """Rows that come together: the product of the loops of known size."""
    return prod(most(v) for v in rows if is_fixed(v))
