"""Sparse weights written out.

The format describes a tree of levels: the dimensions of the tensor in some order, then those inside its blocks. A
level is dense (every index) or compressed (CSR: the indices that are there); the values are the leaves.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from edgec.errors import ModelError
from edgec.frontend.tflite.cursor import Cursor
from edgec.ir.types import DTYPES, FOLD_ELEMENTS, is_worth_computing

_DENSE = 0
_VECTORS = {1: "Int32Vector", 2: "Uint16Vector", 3: "Uint8Vector"}


def densified(
    reader: Cursor, shown: str, table: Any, raw: np.ndarray, dtype: str, shape: tuple[int, ...]
) -> np.ndarray:
    """The whole tensor; raises ModelError where the description does not fit the shape or the values."""
    if dtype not in DTYPES:
        raise ModelError(f"{shown} is sparse and of type {dtype}, which is not supported")
    if prod(shape) > FOLD_ELEMENTS:
        raise ModelError(f"{shown} is sparse and of {prod(shape)} elements, which is too large to write out")
    values = np.frombuffer(raw.tobytes(), DTYPES[dtype].newbyteorder("<")).astype(DTYPES[dtype])
    order, blocks = reader.integers(table, "TraversalOrder"), reader.integers(table, "BlockMap")
    levels = list(reader.each(table, "DimMetadata"))
    rank = len(shape)
    if sorted(order) != list(range(rank + len(blocks))) or len(levels) != len(order):
        raise ModelError(f"{shown} is sparse in a way that does not fit its shape {list(shape)}")
    indices: list[np.ndarray] = []
    leaf = np.zeros(1, np.int64)
    extents = [0] * len(order)
    for dimension, level in zip(order, levels):
        if level.Format() == _DENSE:
            size = extents[dimension] = int(level.DenseSize())
            if not 0 < size * leaf.size <= FOLD_ELEMENTS:
                raise ModelError(f"{shown} is sparse with a level of {size} elements")
            parent = np.repeat(np.arange(leaf.size), size)
            index = np.tile(np.arange(size), leaf.size)
            leaf = leaf[parent] * size + index
        else:
            starts = _vector(reader, level.ArraySegments(), level.ArraySegmentsType())
            found = _vector(reader, level.ArrayIndices(), level.ArrayIndicesType())
            begin, end = starts[leaf], starts[leaf + 1]
            if (begin > end).any() or (leaf.size and (begin.min() < 0 or end.max() > found.size)):
                raise ModelError(f"{shown} is sparse with segments outside its indices")
            parent = np.repeat(np.arange(leaf.size), end - begin)
            leaf = np.concatenate([np.arange(b, e) for b, e in zip(begin, end)] or [np.zeros(0, np.int64)])
            index = found[leaf]
        indices = [i[parent] for i in indices] + [index]
    place = _places(order, blocks, indices, extents, rank)
    if leaf.size and (any((p < 0).any() or (p >= n).any() for p, n in zip(place, shape)) or leaf.max() >= values.size):
        raise ModelError(f"{shown} is sparse with elements outside its shape {list(shape)}")
    if not is_worth_computing(max(prod(shape), *shape), values.size):
        raise ModelError(f"{shown} is sparse with far more zeros than are worth storing: shape {list(shape)}")
    result = np.zeros(shape, values.dtype)
    result[tuple(place)] = values[leaf]
    return result


def _places(
    order: tuple[int, ...], blocks: tuple[int, ...], indices: list[np.ndarray], extents: list[int], rank: int
) -> list[np.ndarray]:
    """The index of every leaf in every dimension of the tensor; block ``b`` lies in dimension ``blocks[b]``."""
    by_dimension = dict(zip(order, indices))
    place = [by_dimension[d] for d in range(rank)]
    for b, d in enumerate(blocks):
        place[d] = place[d] * extents[rank + b] + by_dimension[rank + b]
    return place


def _vector(reader: Cursor, table: Any, kind: int) -> np.ndarray:
    vector = getattr(reader.package, _VECTORS[kind])()
    vector.Init(table.Bytes, table.Pos)
    return reader.numbers(vector, "Values").astype(np.int64)
