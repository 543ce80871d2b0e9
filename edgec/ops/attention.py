"""The backward pass of attention without its scores in memory: a block of them at a time, computed again.

Dao: FlashAttention-2 (2023): with the largest score and the sum of exponentials of each query, the share of a key in a
query follows from the two vectors alone, so that blocks of shares are made where gradients are summed up.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from math import prod

import numpy as np

from edgec.errors import ModelError
from edgec.ir.expr import Extent
from edgec.ir.graph import RESULT, Procedure
from edgec.ir.registry import Tensor, procedure
from edgec.ir.types import Type

#: Most queries of a block of scores, and keys; queries, these or half as many, lie along the lanes: whole vectors on
#: every device.
QUERIES, KEYS = 64, 48
#: Tasks from which on heads are not taken apart, and the queries that parts of them are multiples of.
LEAST_TASKS, ALIGNED = 6, 16
#: Keys up to which all scores of a block of queries are kept, within a near cache, rather than computed twice.
KEPT = 256


@procedure
def attention_statistics(query: Tensor, key: Tensor, *mask: Tensor, scale: float = 1.0) -> Procedure:
    """The largest score of each row of scale * query @ key' + mask, then the logarithms of the sums of exponentials of
    scores less it, as one vector of 2 * .. * M; 0 and infinite for a query that sees no key.

    Their sum would lose the logarithm beside a large score, as that of a row that a finite number masks. Operands are
    as in `attention_gradients`. Raises ModelError for operands that do not fit.
    """
    *outer, m, k = query.shape
    n = key.shape[-2] if key.rank > 1 else 0
    operands = (query, key, *mask)
    if key.shape != (*outer, n, k) or not _are_masks(mask, (*outer, m, n)) or not _are_alike(operands, m, n, k):
        raise ModelError(f"operands {[str(t.type) for t in operands]} of the statistics of attention")
    return Procedure(
        Type(query.dtype, (2 * prod(outer) * m,)),
        partial(_statistics, scale),
        tasks=prod(outer),
        steps=prod(outer) * m * n * (2 * k + 8),
        on_lanes=True,
        sizes={"m": m, "n": n, "k": k, **_places(outer, mask)},
        narrow=frozenset({0, 1}),
    )


@procedure
def attention_gradients(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    seed: Tensor,
    pull: Tensor,
    *more: Tensor,
    scale: float = 1.0,
    of_query: float = 1.0,
    of_key: float = 1.0,
    parts: int = 1,
) -> Procedure:
    """Gradients of softmax(scale * query @ key' + mask) @ value: those of queries, keys and values, one after the
    other, as one vector. Those of queries and keys are by what ``of_query`` and ``of_key`` times give these operands.
    Those of keys and of values are in ``parts``, one after the other, each by some of the queries: their sums are left
    to the reader.

    ``query`` is [.., M, K], ``key`` [.., N, K], ``value`` [.., N, D], ``seed`` [.., M, D] the gradient of the result,
    ``pull`` [.., M] the sum of its products with the result. Behind them come the result of `attention_statistics`
    where it is known, and the mask, if there is one. It is added to scores: of their rank, each dimension
    whole or 1; a query that sees no key, all being -inf, has no share in any. No dimension of a head is 0.

    Raises ModelError for operands that do not fit. Algorithm 2 of Dao (2023), arXiv 2307.08691, queries outermost.
    """
    *outer, m, k = query.shape
    n, d = value.shape[-2:] if value.rank > 1 else (0, 0)
    statistics = more[:1] if more and more[0].rank == 1 else ()
    mask = more[len(statistics) :]
    expected = [
        (*outer, n, k),
        (*outer, n, d),
        (*outer, m, d),
        (*outer, m),
        *[(2 * prod(outer) * m,)] * len(statistics),
    ]
    found = [t.shape for t in (key, value, seed, pull, *statistics)]
    operands = (query, key, value, seed, pull, *more)
    if found != expected or not _are_masks(mask, (*outer, m, n)) or not _are_alike(operands, m, n, k, d):
        raise ModelError(f"operands {[str(t.type) for t in operands]} of the gradients of attention")
    heads, queries = prod(outer), QUERIES if m > QUERIES // 2 else QUERIES // 2
    sizes = (heads * m * k, parts * heads * n * k, parts * heads * n * d)
    return Procedure(
        Type(query.dtype, (sum(sizes),)),
        partial(_computed, scale, of_query, of_key, bool(statistics), parts),
        tasks=heads * parts,
        steps=heads * m * n * (4 * k + 3 * d + 16),
        on_lanes=True,
        scratch=4 * queries * (k + d + (n if n <= KEPT else KEYS) + KEYS + 4),
        sizes={
            "queries": queries,
            "keys": KEYS,
            "keeps": n <= KEPT,
            "m": m,
            "n": n,
            "k": k,
            "d": d,
            "starts": (0, sizes[0], sizes[0] + sizes[1]),
            "heads": heads,
            "bounds": bounds_of_parts(m, parts),
            "has_statistics": bool(statistics),
            **_places(outer, mask),
        },
        narrow=frozenset({0, 1, 2, 3, RESULT}),
    )


def parts_of_queries(heads: int, queries: int) -> int:
    """Parts of the queries that a processor takes apart, where heads are few: tasks enough for a few threads, in each
    of which a block of queries is whole."""
    parts = 1
    while heads * parts < LEAST_TASKS and queries >= 2 * parts * QUERIES:
        parts *= 2
    return parts


def bounds_of_parts(queries: int, parts: int) -> tuple[int, ...]:
    """The first query of every part, and the number of all: parts are even, and begin where vectors do."""
    vectors = -(-queries // ALIGNED)
    return tuple(min(queries, ALIGNED * (vectors * p // parts)) for p in range(parts + 1))


def _are_masks(mask: Sequence[Tensor], scores: Sequence[Extent]) -> bool:
    fits = all(t.rank == len(scores) and all(a in (1, b) for a, b in zip(t.shape, scores)) for t in mask)
    return len(mask) <= 1 and fits


def _are_alike(operands: Sequence[Tensor], *extents: int) -> bool:
    """Are operands of one type, and no extent 0?"""
    return len({t.dtype for t in operands}) == 1 and 0 not in extents


def _places(outer: Sequence[int], mask: Sequence[Tensor]) -> dict[str, object]:
    """(extent, step in the mask) of what is before the queries, then the steps of queries and of keys."""
    steps = _steps(mask[0].shape) if mask else ()
    return {"outer": tuple(zip(outer, steps[:-2])), "mask_steps": steps[-2:]}


def _steps(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The step of each dimension in row-major order, 0 along one of extent 1."""
    return tuple(0 if s == 1 else prod(shape[d + 1 :]) for d, s in enumerate(shape))


def _scores(scale: float, query: np.ndarray, key: np.ndarray, mask: Sequence[np.ndarray]) -> np.ndarray:
    scores: np.ndarray = query @ np.swapaxes(key, -1, -2)
    if scale != 1.0:
        scores = scores * scores.dtype.type(scale)
    for added in mask:
        scores = scores + added
    return scores


def _statistics(scale: float, query: np.ndarray, key: np.ndarray, *mask: np.ndarray) -> np.ndarray:
    scores = _scores(scale, query, key, mask)
    with np.errstate(all="ignore"):
        top = scores.max(-1, keepdims=True, initial=-np.inf)
        sums = np.log(np.exp(scores - top).sum(-1, keepdims=True))
    sees = top != -np.inf
    return np.concatenate([np.where(sees, top, 0).reshape(-1), np.where(sees, sums, np.inf).reshape(-1)]).astype(
        query.dtype
    )


def _computed(
    scale: float,
    of_query: float,
    of_key: float,
    has_statistics: bool,
    parts: int,
    query: np.ndarray,
    key: np.ndarray,
    value: np.ndarray,
    seed: np.ndarray,
    pull: np.ndarray,
    *more: np.ndarray,
) -> np.ndarray:
    scores = _scores(scale, query, key, more[has_statistics:])
    with np.errstate(all="ignore"):
        if has_statistics:
            top, sums = more[0].reshape(2, *pull.shape, 1)
            shares = np.exp(scores - top - sums)
        else:
            top = scores.max(-1, keepdims=True, initial=-np.inf)
            powers = np.exp(scores - np.where(top == -np.inf, 0, top))
            total = powers.sum(-1, keepdims=True)
            shares = powers * np.where(total == 0, 0, 1 / total)
    slopes = shares * (seed @ np.swapaxes(value, -1, -2) - pull[..., None])
    found = [slopes @ key * (scale * of_query)]
    bounds = bounds_of_parts(query.shape[-2], parts)
    for weights, rows, factor in ((slopes, query, scale * of_key), (shares, seed, 1.0)):
        for begin, end in pairwise(bounds):
            found.append(np.swapaxes(weights[..., begin:end, :], -1, -2) @ rows[..., begin:end, :] * factor)
    return np.concatenate([p.reshape(-1) for p in found]).astype(query.dtype)
