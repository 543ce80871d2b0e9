"""MaskRange keys of a query: scores that a constant mask makes -inf are not computed.

A causal mask, or a window that slides along, is a table of zeros and of -inf (the least float, as some exporters write
it). Read at build time it says from which key to which one a block of queries has anything to see, and where it says
nothing else it becomes a comparison of positions, and the table goes.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from edgec.fuse.attention import DOT
from edgec.ir import expr as X
from edgec.ir.expr import Expr
from edgec.ir.loads import reduces
from edgec.ir.nest import is_fixed, most
from edgec.ir.types import FOLD_ELEMENTS
from edgec.schedule.flat import Weights, evaluate_over, is_constant

#: Of the tiles of keys between the first and the last that blocks see, the share above which none is left out.
MOST_TILES = 0.9
#: A score with this added has no weight beside one without: exp(-1e30) is 0, and no score of a network is near 1e30.
HIDDEN = -1e30


@dataclass(frozen=True)
class MaskRange:
    """Query ``m`` sees no key before ``first[m]``, and none from ``last[m]`` on; every query sees one."""

    first: np.ndarray
    last: np.ndarray
    m: Expr
    n: Expr
    sees: np.ndarray | None = None  # [m, n] of truth values

    @property
    def keys(self) -> int:
        return most(self.n)

    def of_tiles(self, queries: int, keys: int, weights: Weights) -> tuple[Expr, Expr, Expr, Expr] | None:
        """Tiles of ``keys`` that a block of ``queries`` sees anything of, as a list.

        The list's first place and its end, by the block's first query ``m``; a place, and the tile that is there. None
        where next to no tile between the first and the last key is left out (`MOST_TILES`).
        """
        if self.sees is None:
            return None
        rows, columns = self.sees.shape
        whole = np.pad(self.sees, ((0, -rows % queries), (0, -columns % keys)))
        tiles = np.asarray(whole.reshape(whole.shape[0] // queries, queries, -1, keys).any(axis=(1, 3)))
        between = np.maximum.accumulate(tiles, axis=1) & np.maximum.accumulate(tiles[:, ::-1], axis=1)[:, ::-1]
        if tiles.sum() > MOST_TILES * between.sum():
            return None
        block, place = X.call("floordiv", self.m, X.const(queries)), X.fresh(int(tiles.sum()))
        starts = weights.add(np.concatenate([[0], tiles.sum(axis=1).cumsum()]).astype(np.int32))
        first, end = (X.cast(X.load(starts, (block + k,), "i32"), "i64") for k in range(2))
        tile = X.cast(X.load(weights.add(np.nonzero(tiles)[1].astype(np.int32)), (place,), "i32"), "i64")
        return first, end, place, tile

    def of_blocks(self, queries: int, weights: Weights) -> tuple[Expr, Expr] | None:
        """From which key on, and up to which, a block of ``queries`` sees any, by its first query ``m``.

        None where every block sees the first key and the last one.
        """
        starts = np.arange(0, len(self.first), queries)
        first, last = np.minimum.reduceat(self.first, starts), np.maximum.reduceat(self.last, starts)
        if not first.any() and (last == self.keys).all():
            return None
        block = X.call("floordiv", self.m, X.const(queries))
        lines = self._line(self.first), self._line(self.last, queries - 1)
        from_key, to_key = (
            X.load(weights.add(table), (block,), "i64") if line is None else line
            for line, table in zip(lines, (first, last))
        )
        return from_key, to_key

    def condition(self, weights: Weights) -> Expr:
        """The truth value that query ``m`` sees key ``n``, if it sees all between its first and its last."""
        lines = ((self._line(v), v) for v in (self.first, self.last))
        first, last = (X.load(weights.add(v), (self.m,), "i64") if line is None else line for line, v in lines)
        return X.call("and", X.call("ge", self.n, first), X.call("lt", self.n, last))

    def _line(self, values: np.ndarray, further: int = 0) -> Expr | None:
        """One key for all queries, or m + c between the first key and the last: ``further`` queries on; else None."""
        if (values == values[0]).all():
            return X.const(int(values[0]))
        places = np.arange(len(values))
        inner = (values - places)[(values > 0) & (values < self.keys)]
        c = int(inner[0]) if inner.size else 0
        if not (values == np.clip(places + c, 0, self.keys)).all():
            return None
        return X.call("min", X.call("max", self.m + (c + further), X.const(0)), X.const(self.keys))


def visible(score: Expr, m: Expr, n: Expr) -> MaskRange | None:
    """MaskRange keys by ``score``, of query ``m`` and key ``n``; None if it hides nothing, or all keys of a query."""
    if not is_fixed(m, n):
        return None
    hidden = _hidden(score, m, n)
    if not hidden.any() or hidden.all(axis=1).any():
        return None
    sees = np.broadcast_to(~hidden, (most(m), most(n)))
    return MaskRange(sees.argmax(axis=1), most(n) - sees[:, ::-1].argmax(axis=1), m, n, sees)


def by_position(score: Expr, seen: MaskRange, weights: Weights) -> Expr:
    """``score`` with a comparison in place of a table that only hides keys, before the first and behind the last."""
    if score.op == "add":
        for table, rest in (score.args, score.args[::-1]):
            values = _values(table, seen.m, seen.n)
            if values is not None and _is_run(values <= HIDDEN, seen) and not values[values > HIDDEN].any():
                return X.select(seen.condition(weights), rest, -np.inf)
    if score.op == "select" and (score.args[2].op, score.args[1].op) != ("const", "const"):
        truth, otherwise = (_values(e, seen.m, seen.n) for e in (score.args[0], score.args[2]))
        hides = truth is not None and otherwise is not None and (otherwise <= HIDDEN).all()
        if hides and truth is not None and X.loads(score.args[0]) and _is_run(~truth, seen):
            return X.select(seen.condition(weights), score.args[1], -np.inf)
    return score


def as_range(score: Expr, m: Expr, n: Expr) -> tuple[Expr, Expr] | None:
    """(truth, rest) of a score that is ``rest`` where ``truth`` holds, and else -inf: for one run of keys a query.

    None of others, and where the first or the last key of a query lies before that of an earlier query.
    """
    if score.op != "select" or score.args[2].op != "const" or score.args[2].value != -np.inf:
        return None
    truth, rest, _ = score.args
    if not is_fixed(m) or not X.free_variables(truth) <= {m, n}:
        return None
    for bound in truth.args if truth.op == "and" else (truth,):
        if bound.op not in ("ge", "lt") or bound.args[0] is not n or n in X.free_variables(bound.args[1]):
            return None
        if X.loads(bound.args[1]) or (np.diff(evaluate_over(bound.args[1], (m,))) < 0).any():
            return None
    return truth, rest


def _is_run(hidden: np.ndarray, seen: MaskRange) -> bool:
    keys = np.arange(seen.keys)
    run = (keys >= seen.first[:, None]) & (keys < seen.last[:, None])
    return bool((hidden == ~run).all())


def _hidden(e: Expr, m: Expr, n: Expr) -> np.ndarray:
    """[m, n] of truth values, or either of length one: is the key hidden from the query, wherever other loops are?"""
    if e.op == "add" and e.dtype == "f32":
        (a, b), (left, right) = e.args, (_hidden(x, m, n) for x in e.args)
        either: np.ndarray = np.logical_or(left & (not _brings_back(b)), right & (not _brings_back(a)))
        return either
    if e.op == "select":
        truth = _values(e.args[0], m, n)
        if truth is not None:
            return np.where(truth, _hidden(e.args[1], m, n), _hidden(e.args[2], m, n))
    others = X.free_variables(e) - {m, n}
    values = _values(e, m, n, *others)
    if values is None:
        return np.zeros((1, 1), bool)
    everywhere: np.ndarray = np.less_equal(values, HIDDEN).reshape(*values.shape[:2], -1).all(axis=2)
    return everywhere


def _brings_back(e: Expr) -> bool:
    """Is this a constant so large that a score which was hidden is none any more with it?"""
    values = _values(e, *X.free_variables(e))
    return values is not None and bool((values > -HIDDEN / 10).any())


def _values(e: Expr, *axes: Expr) -> np.ndarray | None:
    """A constant over ``axes``, of length one along those it does not depend on; None for others, or if it is none."""
    free = X.free_variables(e)
    if DOT in X.loads(e) or not is_constant(e) or reduces(e) or not free <= set(axes):
        return None
    if not is_fixed(*free) or prod(map(most, free)) > FOLD_ELEMENTS:
        return None
    return evaluate_over(e, tuple(v if v in free else X.const(0) for v in axes))
