"""Rows that are zero outside a part of a value, of which that part alone is stored.

A row of an element behind convolutions reads no more than their windows. Rows come in groups, each of one box and one
part of the value; all groups have parts of one size, so that they pass back together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Union

import numpy as np

from edgec.certify.ranges import Array


@dataclass(frozen=True)
class Window:
    """A part of a value for every group of rows: where it begins, [groups, dimensions], and how far it reaches.

    It may reach beyond the value, where rows are zero.
    """

    begins: Array
    extents: tuple[int, ...]


@dataclass(frozen=True)
class Picked:
    """The elements of the last dimension that matter, for all groups: those of the others are read by nothing."""

    elements: Array


#: A part of a value; without one it is all of it.
Region = Union[Window, Picked, None]


@dataclass(frozen=True)
class Patch:
    """Rows [groups, rows, extents...] of a part of a value."""

    rows: Array
    window: Region = None


def cut(x: Array, window: Region, boxes: Array | None) -> Array:
    """The part [groups, extents...] of an array [boxes, ...] for every group, which is of one of the ``boxes``.

    Dimensions of extent 1 stay, as they are the same everywhere. Beyond the value it is zero.
    """
    if x.ndim == 0:
        return x
    if not isinstance(window, Window):
        x = x if boxes is None or x.shape[0] == 1 else x[boxes]
        return x if window is None or x.shape[-1] == 1 else x[..., window.elements]
    groups, own = len(window.begins), slice(len(window.extents) - x.ndim + 1, None)
    begins, wide, shape = window.begins[:, own], window.extents[own], x.shape[1:]
    moving = [d for d, n in enumerate(shape) if n > 1 and (wide[d] != n or begins[:, d].any())]
    if not moving:
        return x if boxes is None or x.shape[0] == 1 else x[boxes]
    kept = [d for d in range(len(shape)) if d not in moving]
    table = x.transpose(0, *(1 + d for d in moving + kept)).reshape(-1, prod(shape[d] for d in kept))
    place = np.zeros((groups, *(1 for _ in moving)), np.int64)
    if x.shape[0] > 1:
        own_box = boxes if boxes is not None else np.arange(groups)
        place = place + own_box.reshape(-1, *(1 for _ in moving))
    inside = np.ones(place.shape, bool)
    for k, d in enumerate(moving):
        along = (begins[:, d, None] + np.arange(wide[d])).reshape(
            groups, *(wide[d] if j == k else 1 for j in range(len(moving)))
        )
        place, inside = place * shape[d] + np.clip(along, 0, shape[d] - 1), inside & (along >= 0) & (along < shape[d])
    found = table[place.reshape(-1)]
    if not inside.all():
        found[~inside.reshape(-1)] = 0
    found = found.reshape(groups, *(wide[d] for d in moving), *(shape[d] for d in kept))
    order = moving + kept
    return found.transpose(0, *(1 + order.index(d) for d in range(len(shape))))


def inside(window: Window, shape: Sequence[int]) -> Array | None:
    """Numbers 1 [groups, 1, extents...] inside a value, and 0 beyond it; None where no window reaches beyond it."""
    ends = window.begins + np.array(window.extents)
    if (window.begins >= 0).all() and (ends <= np.array(shape)).all():
        return None
    found = np.ones((len(window.begins), 1, *(1 for _ in shape)))
    for d, n in enumerate(shape):
        along = window.begins[:, d, None] + np.arange(window.extents[d])
        here = (along >= 0) & (along < n)
        found = found * here.reshape(len(here), 1, *(here.shape[1] if j == d else 1 for j in range(len(shape))))
    return found


def embedded(p: Patch, shape: Sequence[int]) -> Array:
    """The rows of all of the value."""
    if p.window is None:
        return p.rows
    found = np.zeros((*p.rows.shape[:2], *shape))
    if isinstance(p.window, Picked):
        found[..., p.window.elements] = p.rows
        return found
    for group, begins in enumerate(p.window.begins.tolist()):
        places = list(zip(begins, p.window.extents, shape))
        here = tuple(slice(max(-b, 0), max(min(e, n - b), 0)) for b, e, n in places)
        into = tuple(slice(max(b, 0), max(min(b + e, n), 0)) for b, e, n in places)
        found[group][(slice(None), *into)] = p.rows[group][(slice(None), *here)]
    return found


def united(a: Patch, b: Patch, shape: Sequence[int]) -> tuple[Patch, Patch]:
    """Both rows with one window: the least one that has both in it, or none where they are not the same way apart."""
    if a.window is None and b.window is None:
        return a, b
    if isinstance(a.window, Window) and isinstance(b.window, Window):
        ends = [w.begins + np.array(w.extents) for w in (a.window, b.window)]
        begins = np.minimum(a.window.begins, b.window.begins)
        wide = np.maximum(*ends) - begins
        if all((x == x[:1]).all() for x in (wide, a.window.begins - begins, b.window.begins - begins)):
            window = Window(begins, tuple(int(n) for n in wide[0]))
            if prod(window.extents) < prod(shape):
                return _widened(a, window), _widened(b, window)
    return Patch(embedded(a, shape)), Patch(embedded(b, shape))


def _widened(p: Patch, window: Window) -> Patch:
    assert isinstance(p.window, Window)
    if p.window.extents == window.extents:
        return p
    found = np.zeros((*p.rows.shape[:2], *window.extents))
    first = (p.window.begins - window.begins)[0].tolist()
    found[(slice(None), slice(None), *(slice(b, b + e) for b, e in zip(first, p.window.extents)))] = p.rows
    return Patch(found, window)


class Flat:
    """Rows as [groups, rows, elements], in the order in which their elements are stored."""

    def __init__(self, rows: Array) -> None:
        axes = list(range(2, rows.ndim))
        if not rows.flags.c_contiguous and rows.ndim > 3:
            axes.sort(key=lambda d: -rows.strides[d])
        self.axes, self.shape = axes, tuple(rows.shape[d] for d in (0, 1, *axes))
        self.rows = rows.transpose(0, 1, *axes).reshape(*rows.shape[:2], -1)

    def values(self, x: Array) -> Array:
        """Values [groups or 1, elements...] in the same order, [groups or 1, elements]; a number stays one."""
        if x.ndim == 0:
            return x
        shape = [1] * len(self.axes)
        for d, n in zip(self.axes, self.shape[2:]):
            shape[d - 2] = n
        full = np.broadcast_to(x, (x.shape[0], *shape))
        return full.transpose(0, *(d - 1 for d in self.axes)).reshape(x.shape[0], -1)

    def times(self, x: Array) -> Array:
        """The rows times values, in the same order."""
        return np.asarray(self.rows * (x if x.ndim == 0 else self.values(x)[:, None]))

    def again(self, flat: Array) -> Array:
        """Rows in this order as they were given."""
        back = [0, 1, *(2 + self.axes.index(d) for d in range(2, len(self.axes) + 2))]
        return flat.reshape(self.shape).transpose(back)


def times(rows: Array, values: Array) -> Array:
    """Rows times values [groups, elements...], stored as the rows are."""
    wide = Flat(rows)
    return wide.again(wide.times(values))
