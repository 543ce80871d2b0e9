"""Rounding weights so that the results change least on calibration data, instead of each to its nearest integer.

GPTQ (Frantar et al. 2022, after the Optimal Brain Surgeon): columns are rounded one after the other, and the columns
that are not rounded yet compensate for the error of each. With H = X'X over the calibration data and U the upper
Cholesky factor of the inverse of H, -(w_i - q_i)/U_ii * U_ij is added to each column j after i. Zeros of a pruned
network stay zeros, which its kernels skip: rows with the same pattern of zeros are rounded together, without them.
"""

from __future__ import annotations

import numpy as np

from edgec.compress.layers import Layer

Array = np.ndarray
#: Most rows of calibration data that are used, evenly spaced, and most columns of a layer.
ROWS, COLUMNS = 2048, 2304
#: Fraction of zeros from which on a layer counts as pruned.
PRUNED = 0.3
#: Added to the diagonal of H, relative to its mean, as H is singular where rows are few or linearly dependent.
DAMPING = 0.01
#: Number of columns after which the remaining columns are updated.
_BLOCK = 64


def rounded(layer: Layer, operands: list[Array], scale: Array) -> Array | None:
    """Integers from -127 to 127 for the weights, with their ``scale``; None for a layer that GPTQ does not handle."""
    rows = _rows(layer, operands)
    if rows is None or rows.shape[2] > COLUMNS:
        return None
    groups = len(rows)
    w, s = _matrix(layer, layer.weights, groups), _matrix(layer, np.broadcast_to(scale, layer.weights.shape), groups)
    hessian = np.matmul(rows.transpose(0, 2, 1), rows).astype(np.float64)
    q = np.zeros_like(w)
    try:
        if groups > 1 or np.count_nonzero(w) > (1 - PRUNED) * w.size:
            q = _by_columns(w, s, hessian)
        else:
            patterns, which = np.unique(w[0] != 0, axis=0, return_inverse=True)
            for k, stays in enumerate(patterns):
                (mine,), (kept,) = np.nonzero(which.reshape(-1) == k), np.nonzero(stays)
                at = (slice(None), mine[:, None], kept)
                q[at] = _by_columns(w[at], s[at], hessian[:, kept[:, None], kept])
    except np.linalg.LinAlgError:
        return None
    return _back(layer, q)


def _by_columns(w: Array, s: Array, hessian: Array) -> Array:
    """Integers for weights [groups, results, columns] with scales ``s``; ``w`` is overwritten with the compensation."""
    columns = w.shape[2]
    if not columns:
        return np.zeros_like(w)
    diagonal = np.einsum("gkk->gk", hessian)
    diagonal += np.maximum(DAMPING * diagonal.mean(axis=1, keepdims=True), 1e-12)
    factor = np.linalg.cholesky(np.linalg.inv(hessian)).transpose(0, 2, 1)
    q = np.empty_like(w)
    for begin in range(0, columns, _BLOCK):
        end = min(begin + _BLOCK, columns)
        errors = np.empty((*w.shape[:2], end - begin))
        for i in range(begin, end):
            q[:, :, i] = np.clip(np.rint(w[:, :, i] / s[:, :, i]), -127, 127)
            errors[:, :, i - begin] = (w[:, :, i] - q[:, :, i] * s[:, :, i]) / factor[:, None, i, i]
            w[:, :, i + 1 : end] -= errors[:, :, i - begin, None] * factor[:, None, i, i + 1 : end]
        w[:, :, end:] -= np.matmul(errors, factor[:, begin:end, end:])
    return q


def _rows(layer: Layer, operands: list[Array]) -> Array | None:
    """[groups, rows, columns]: the operands of the dot products of each group, for a sample of the results."""
    if layer.node.op == "conv":
        found = np.concatenate([_patches(layer, x) for x in operands], axis=1)
    elif layer.side == 1 and layer.weights.ndim == 2:
        found = np.concatenate([x.reshape(-1, x.shape[-1]) for x in operands])[None]
    else:
        return None
    step = -(-found.shape[1] // ROWS)
    return found[:, ::step].astype(np.float32)


def _patches(layer: Layer, x: Array) -> Array:
    """[groups, positions, channels * kernel] of a convolution's operand."""
    attributes = layer.node.attributes
    kernel = layer.weights.shape[2:]
    spans = tuple((k - 1) * d + 1 for k, d in zip(kernel, attributes["dilations"]))
    spatial = tuple(range(2, x.ndim))
    windows = np.lib.stride_tricks.sliding_window_view(x, spans, axis=spatial)
    at = tuple(slice(None, None, s) for s in attributes["strides"])
    inside = tuple(slice(None, None, d) for d in attributes["dilations"])
    windows = windows[(slice(None), slice(None), *at, *inside)]
    groups, rank = attributes.get("groups", 1), len(kernel)
    n, c = windows.shape[:2]
    places = np.indices(windows.shape[2 : 2 + rank]).reshape(rank, -1)
    places = places[:, :: -(-n * places.shape[1] // ROWS)]
    picked = windows[(slice(None), slice(None), *places)]  # [n, c, places, kernel..]
    flat = picked.reshape(n, groups, c // groups, places.shape[1], -1)
    return flat.transpose(1, 0, 3, 2, 4).reshape(groups, n * places.shape[1], -1)


def _matrix(layer: Layer, w: Array, groups: int) -> Array:
    """[groups, results, columns] in double precision."""
    if layer.node.op == "conv":
        return w.reshape(groups, w.shape[0] // groups, -1).astype(np.float64)
    return w.T[None].astype(np.float64)


def _back(layer: Layer, q: Array) -> Array:
    return q.reshape(layer.weights.shape) if layer.node.op == "conv" else np.ascontiguousarray(q[0].T)
