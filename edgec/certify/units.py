"""Rows of the single elements of a value, in groups that pass back together.

A group has elements of one box, and in values with channels and space of one tile, as elements near each other read
nearly the same parts of the values before them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from edgec.certify.backward import Passing, size_of, windows
from edgec.certify.patches import Patch, Window
from edgec.certify.ranges import Array
from edgec.ir.graph import Node

#: Bytes of the greatest rows of what passes back together.
_ROOM = 1 << 24
#: The cost of facts about a value for a group, in rows of it.
_FACTS = 6
#: Extents of tiles that are tried.
_TILES = (1, 2, 4, 8)


@dataclass(frozen=True)
class Unit:
    """Rows of elements [groups, rows], which are numbers within their value, of a box each; some are no row."""

    patch: Patch
    elements: Array
    is_row: Array
    boxes: Array


def units(network: Passing, n: Node, open: Array) -> Iterator[Unit]:
    """Rows of the elements of a node that are open, [boxes, elements]."""
    shape = n.type.shape
    box, element = np.nonzero(open)
    places = np.stack(np.unravel_index(element, shape), 1)
    tile = _tile(network, n, box, places)
    wide = shape if tile is None else (*shape[:2], *(min(tile, s) for s in shape[2:]))
    keys = _groups(box, places, tile)
    _, first, group, counts = np.unique(keys, return_index=True, return_inverse=True, return_counts=True)
    order = np.argsort(-counts, kind="stable")
    members = np.split(np.argsort(group, kind="stable"), np.cumsum(counts)[:-1])
    sample = _window(np.zeros((1, len(shape)), np.int64), wide, tile)
    width = max(size_of(m, w) for m, w in windows(network, n, sample).items())
    start = 0
    while start < len(order):
        rows = int(counts[order[start]])
        taken = order[start : start + max(1, _ROOM // (16 * rows * width))]
        start += len(taken)
        elements = np.zeros((len(taken), rows), np.int64)
        is_row = np.arange(rows) < counts[taken][:, None]
        elements[is_row] = np.concatenate([element[members[g]] for g in taken])
        begins = np.zeros((len(taken), len(shape)), np.int64)
        if tile is not None:
            begins[:, 2:] = places[first[taken], 2:] // tile * tile
        step = max(1, _ROOM // (16 * width * len(taken)))
        for k in range(0, rows, step):
            part = elements[:, k : k + step], is_row[:, k : k + step]
            yield _unit(*part, box[first[taken]], shape, begins, wide, tile)


def _groups(box: Array, places: Array, tile: int | None) -> Array:
    """A number for each element, the same for all of one group."""
    found = box
    for along in places[:, 2:].T if tile is not None else ():
        steps = along // (tile or 1)
        found = found * (steps.max() + 1) + steps
    return np.asarray(found)


def _window(begins: Array, wide: tuple[int, ...], tile: int | None) -> Window | None:
    return None if tile is None else Window(begins, wide)


def _unit(
    elements: Array, is_row: Array, boxes: Array, shape: tuple[int, ...], begins: Array, wide: tuple[int, ...],
    tile: int | None,
) -> Unit:  # fmt: skip
    rows = np.zeros((*elements.shape, *wide))
    group, row = np.nonzero(is_row)
    inside = [p - begins[group, d] for d, p in enumerate(np.unravel_index(elements[group, row], shape))]
    rows[(group, row, *inside)] = 1
    return Unit(Patch(rows, _window(begins, wide, tile)), elements, is_row, boxes)


def _tile(network: Passing, n: Node, box: Array, places: Array) -> int | None:
    """The extent of the tiles of a value with channels and space for which there is least to compute; None without."""
    shape, best = n.type.shape, None
    if len(shape) < 3:
        return None
    least = np.inf
    for tile in (*_TILES, None):
        wide = shape if tile is None else (*shape[:2], *(min(tile, s) for s in shape[2:]))
        read = windows(network, n, _window(np.zeros((1, len(shape)), np.int64), wide, tile))
        size = sum(min(size_of(m, w), size_of(m, None)) for m, w in read.items())
        groups = len(np.unique(_groups(box, places, tile)))
        cost = size * (len(box) + _FACTS * groups)
        if cost < least:
            least, best = cost, tile
    return best
