"""The backward pass of attention without its scores in memory: a block of them at a time, computed again.

Dao: FlashAttention-2 (2023): with the largest score and the sum of exponentials of each query, the share of a key in a
query follows from the two vectors alone, so that blocks of shares are made where gradients are summed up.
"""

from __future__ import annotations

from math import prod

import numpy as np

from edgec.errors import ModelError
from edgec.ir.graph import Procedure
from edgec.ir.registry import Tensor, procedure
from edgec.ir.types import Type

#: Most queries of a block of scores, and keys; queries, these or half as many, lie along the lanes: whole vectors on
#: every device.
QUERIES, KEYS = 64, 48


@procedure
def attention_gradients(
    query: Tensor, key: Tensor, value: Tensor, seed: Tensor, pull: Tensor, *mask: Tensor
) -> Procedure:
    """Gradients of softmax(query @ key' + mask) @ value: those of queries, keys and values, one after the other, as one
    vector.

    ``query`` is [.., M, K], ``key`` [.., N, K], ``value`` [.., N, D], ``seed`` [.., M, D] the gradient of the result,
    ``pull`` [.., M] the sum of its products with the result. The mask is added to scores: of their rank, each dimension
    whole or 1; a query that sees no key, all being -inf, has no share in any. No dimension of a head is 0.

    Raises ModelError for operands that do not fit. Algorithm 2 of Dao (2023), arXiv 2307.08691, queries outermost.
    """
    *outer, m, k = query.shape
    n, d = value.shape[-2:] if value.rank > 1 else (0, 0)
    expected = [(*outer, n, k), (*outer, n, d), (*outer, m, d), (*outer, m)]
    found = [t.shape for t in (key, value, seed, pull)]
    fits = all(t.rank == query.rank and all(a in (1, b) for a, b in zip(t.shape, (*outer, m, n))) for t in mask)
    operands = (query, key, value, seed, pull, *mask)
    is_one_type = len(mask) <= 1 and len({t.dtype for t in operands}) == 1
    if found != expected or not fits or not is_one_type or 0 in (m, n, k, d):
        raise ModelError(f"operands {[str(t.type) for t in operands]} of the gradients of attention")
    heads, queries = prod(outer), QUERIES if m > QUERIES // 2 else QUERIES // 2
    sizes = (heads * m * k, heads * n * k, heads * n * d)
    return Procedure(
        Type(query.dtype, (sum(sizes),)),
        _computed,
        tasks=heads,
        steps=heads * m * n * (4 * k + 3 * d + 16),
        scratch=4 * queries * (k + d + 2 * KEYS + 4),
        sizes={
            "queries": queries,
            "keys": KEYS,
            "m": m,
            "n": n,
            "k": k,
            "d": d,
            "starts": (0, sizes[0], sizes[0] + sizes[1]),
            # (extent, step in the mask) of what is before the queries, then the steps of queries and of keys.
            "outer": tuple(zip(outer, _steps(mask[0].shape)[:-2])) if mask else (),
            "mask_steps": _steps(mask[0].shape)[-2:] if mask else (),
        },
    )


def _steps(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The step of each dimension in row-major order, 0 along one of extent 1."""
    return tuple(0 if s == 1 else prod(shape[d + 1 :]) for d, s in enumerate(shape))


def _computed(
    query: np.ndarray, key: np.ndarray, value: np.ndarray, seed: np.ndarray, pull: np.ndarray, *mask: np.ndarray
) -> np.ndarray:
    scores = query @ np.swapaxes(key, -1, -2)
    for added in mask:
        scores = scores + added
    with np.errstate(all="ignore"):
        top = scores.max(-1, keepdims=True, initial=-np.inf)
        powers = np.exp(scores - np.where(top == -np.inf, 0, top))
        total = powers.sum(-1, keepdims=True)
        shares = powers * np.where(total == 0, 0, 1 / total)
    slopes = shares * (seed @ np.swapaxes(value, -1, -2) - pull[..., None])
    parts = (slopes @ key, np.swapaxes(slopes, -1, -2) @ query, np.swapaxes(shares, -1, -2) @ seed)
    return np.concatenate([p.reshape(-1) for p in parts]).astype(query.dtype)
