"""Attention in one pass over the keys: no matrix of scores is ever in memory, only a block of them.

A task takes a block of queries, which lie along the lanes: scores [key, query] of a block of keys, their exponentials,
and the weighted values [query, feature], corrected whenever the largest score of a query changes (online softmax).
What a thread needs for itself is linear in nothing: blocks have fixed sizes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import ClassVar

from edgec.device.device import Device
from edgec.fuse.attention import DOT, MIXED, as_one, attention_of, query_loops
from edgec.ir import expr as X
from edgec.ir.expr import Expr, Extent
from edgec.ir.nest import coefficient, extent, is_fixed, most
from edgec.ir.vector import is_vectorizable
from edgec.schedule.attention.mask import MaskRange, by_position, visible
from edgec.schedule.attention.relative_bias import as_toeplitz
from edgec.schedule.flat import Flat, Weights, with_contiguous_weights
from edgec.schedule.program import BlockSchedule, Buffer

#: Keys whose scores are in memory at once.
KEY_BLOCK = 48
#: Keys of one tile of scores.
KEY_ROWS = 6


@dataclass(frozen=True)
class Attention(BlockSchedule):
    """Loops and parts; ``score`` is over ``DOT``, its lanes along ``m``; ``result`` over ``MIXED``, along ``d``."""

    template: ClassVar[str] = "attention"
    loops: tuple[Expr, ...]
    m: Expr  # queries
    n: Expr  # keys
    d: Expr  # features of values
    k: tuple[Expr, ...]  # features of queries and keys
    query: Expr
    key: Expr
    value: Expr
    score: Expr
    result: Expr
    store: Buffer
    address: Expr
    lanes: int  # of one vector
    vectors: int  # of queries in a block
    rows: int  # queries of one tile of results
    value_vectors: int  # of features of one such tile, at most
    score_has_lanes: bool
    result_has_lanes: bool
    seen: tuple[Expr, Expr] | None  # from which key on, up to which one, by ``m`` of a block's first query
    is_guarded: bool  # the result is 0 where no key is seen

    @property
    def task_loops(self) -> tuple[Expr, ...]:
        return self.loops

    @property
    def describe(self) -> str:
        return f"attention M={extent(self.m)} N={extent(self.n)} K={self.features} D={extent(self.d)}"

    @property
    def queries(self) -> int:
        """Queries in a block."""
        return self.vectors * self.lanes

    @property
    def features(self) -> int:
        return prod(map(most, self.k))

    @property
    def width(self) -> int:
        """Features of a result, rounded up to whole vectors."""
        return -(-most(self.d) // self.lanes) * self.lanes

    @property
    def blocks(self) -> Extent:
        return X.plain(-(-extent(self.m) // self.queries))

    @property
    def scratch_bytes(self) -> int:
        """Bytes each thread needs: queries, scores, results, three numbers a query, and a block of values."""
        return 4 * (self.queries * (self.features + KEY_BLOCK + self.width + 3) + KEY_BLOCK * self.width)

    @property
    def bodies(self) -> list[Expr]:
        return [self.query, self.key, self.value, self.score, self.result, *(self.seen or ())]


@dataclass(frozen=True)
class Parts:
    """Attention as any kernel of it sees it: ``m`` numbers queries, ``n`` keys, ``k`` features of both, ``d`` those of
    values; each of ``loops`` has an attention of its own. ``seen`` is of scores that a constant hides."""

    loops: tuple[Expr, ...]
    m: Expr
    n: Expr
    d: Expr
    k: tuple[Expr, ...]
    query: Expr
    key: Expr
    value: Expr
    weight: Expr
    score: Expr
    result: Expr
    seen: MaskRange | None
    is_guarded: bool = False

    @property
    def is_plain(self) -> bool:
        """Are keys and values floats in memory, without factors of their own?"""
        return self.key.op == self.value.op == "load" and self.weight.op == "const"


def with_one_query_loop(flat: Flat) -> Flat:
    """``flat``, if it is attention, with its queries in one loop."""
    if attention_of(flat.body) is None:
        return flat
    found = query_loops(flat.loops, flat.body)
    if len(found) < 2:
        return flat
    one, places = as_one(found)
    loops = [one if v is found[0] else v for v in flat.loops if v not in found[1:]]
    body, address = (X.substitute(e, places) for e in (flat.body, flat.address))
    return replace(flat, loops=tuple(loops), body=body, address=address)


def parts_of(flat: Flat, weights: Weights) -> Parts | None:
    """``flat``, with one loop of queries, taken apart, results contiguous along features; None: it is no attention."""
    found = attention_of(flat.body)
    if found is None or not is_fixed(*found.features):
        return None
    mine = {part: X.free_variables(part) for part in (found.query, found.key, found.value)}
    ours = [v for v in flat.loops if v in mine[found.query] and v not in mine[found.key] | mine[found.value]]
    theirs = [v for v in flat.loops if v in mine[found.value] and v not in mine[found.query] | mine[found.key]]
    theirs = [v for v in theirs if is_fixed(v)]
    if not ours or not theirs:
        return None
    m = max(ours, key=most)
    d = max(theirs, key=lambda v: (coefficient(flat.address, v) == 1, most(v)))
    return Parts(
        tuple(v for v in flat.loops if v is not m and v is not d), m, found.keys, d, found.features,
        found.query, found.key, found.value, found.weight, found.score,
        with_contiguous_weights(found.result, flat.loops, d, weights), visible(found.score, m, found.keys),
        found.is_guarded,
    )  # fmt: skip


def attention(flat: Flat, device: Device, weights: Weights) -> Attention | None:
    """Schedule ``flat`` as attention; None when it is not."""
    flat = with_one_query_loop(flat)
    p = parts_of(flat, weights)
    if p is None or not p.is_plain:
        return None
    lanes = device.vector_lanes
    vectors, rows = (4, 8) if device.vectors_in_registers >= 32 else (2, 4)
    value_vectors = (device.vectors_in_registers - 1) // (
        rows + 1
    )  # sums, a row of values and a broadcast in registers
    score = by_position(p.score, p.seen, weights) if p.seen is not None else p.score
    if not is_vectorizable(X.substitute(score, {DOT: X.load("dot", (p.m,), "f32")}), p.m):
        score = p.score
    score = as_toeplitz(score, p.m, p.n, weights)
    score = with_contiguous_weights(score, (*flat.loops, p.n), p.m, weights)
    return Attention(
        p.loops, p.m, p.n, p.d, p.k, p.query, p.key, p.value, score, p.result, flat.store, flat.address,
        lanes, vectors, rows, value_vectors,
        is_vectorizable(X.substitute(score, {DOT: X.load("dot", (p.m,), "f32")}), p.m),
        is_vectorizable(X.substitute(p.result, {MIXED: X.load("mixed", (p.d,), "f32")}), p.d),
        p.seen.of_blocks(vectors * lanes, weights) if p.seen is not None else None, p.is_guarded,
    )  # fmt: skip
