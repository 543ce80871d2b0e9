"""Rules of operators: how ranges pass forward, and how rows of linear bounds pass back.

A row is a lower bound in terms of a value: row * value + constant. Behind an operator it becomes rows of its operands,
with a constant that is no greater than it may be: of a linear operator by its adjoint, of any other by the plane that
suits the sign of every element (CROWN: Zhang et al., 2018; DeepPoly: Singh et al., 2019).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

import numpy as np

from edgec.certify.elementwise import RANGES, Place, aligned, stretched
from edgec.certify.maps import Map, Move
from edgec.certify.patches import Flat, Region, Window
from edgec.certify.planes import PLANES, Planes, extreme_planes
from edgec.certify.ranges import TINY, U64, Array, Range, Sum, checked, gamma, whole
from edgec.certify.rounding import lost_in_order

Ranges = Sequence[Range]
#: The part of an array [boxes, elements...] that rows are about.
Cut = Callable[[Array], Array]


def all_of(x: Array) -> Array:
    """All of an array."""
    return x


@dataclass(frozen=True)
class Rows:
    """Rows of operands, [boxes, rows, elements...] by the number of the operand, and a constant [boxes, rows].

    The bound is less than that by the magnitudes of the rows that were given times ``sizes`` [boxes, elements...].
    """

    parts: dict[int, Array]
    constant: Array
    sizes: Array


@dataclass
class Rule(ABC):
    """The rule of one operator where it stands; ``operands`` are the numbers of those that vary."""

    place: Place
    operands: tuple[int, ...]
    #: Is the operator linear in its operands? Then tighter ranges of them gain nothing for its rows.
    is_linear: bool = field(default=False, init=False)
    #: Are the rows of negated rows those of the rows, negated?
    is_odd: bool = field(default=False, init=False)

    @property
    def picks(self) -> bool:
        """Can it leave out elements of the last dimension of its operand?"""
        return False

    @abstractmethod
    def range(self, args: Ranges) -> Range:
        """The range of the result, with the error of what is computed from exact operands and theirs."""

    def facts(self, args: Ranges, result: Range, share: Array | None = None) -> Any:
        """Facts of these ranges for all rows; ``share`` is the free slope of an operator that has one."""
        return args, result

    @abstractmethod
    def back(
        self, rows: Array, facts: Any, cut: Cut = all_of, window: Region = None, keep: Array | None = None
    ) -> Rows:
        """Rows of the operands.

        Rows may be those of a part of the result, a ``window``, which ``cut`` takes out of arrays [boxes, elements...].
        A rule that picks gives rows of the elements ``keep`` of its operand alone.
        """

    def windows(self, window: Region) -> list[Region] | None:
        """The parts of the operands that a part of the result is made of; None where it takes whole rows alone."""
        return None if window is not None else [None for _ in self.place.node.args]

    def loose(self, args: Ranges, k: int) -> Array:
        """The elements of operand ``k`` of which tighter ranges would help."""
        return np.full(args[k].low.shape, not self.is_linear)


def dot(rows: Array | Flat, values: Array) -> Array:
    """[groups, rows] of the products of rows with one value for each element, [groups, elements...]."""
    wide = rows if isinstance(rows, Flat) else Flat(rows)
    if values.ndim == 0:
        return np.asarray(wide.rows.sum(2) * values)
    full = wide.values(values)
    return np.asarray(wide.rows @ full[0] if len(full) == 1 else np.matmul(wide.rows, full[:, :, None])[..., 0])


def lost(sizes: Array, terms: float) -> Array:
    """The most that ``terms`` roundings of the analysis change values of these ``sizes``, for rows of ones."""
    return np.asarray(2 * (terms + 8) * U64 * sizes)


def _summed(rows: Array, shape: Sequence[int]) -> Array:
    """Rows of a result as those of an operand of ``shape``, which was broadcast."""
    lead = rows.ndim - 2 - len(shape)
    axes = [2 + d for d in range(rows.ndim - 2) if d < lead or (shape[d - lead] == 1 and rows.shape[2 + d] != 1)]
    if not axes and rows.shape[2:] == tuple(shape):
        return rows
    return (
        rows.sum(axis=tuple(axes)).reshape(*rows.shape[:2], *shape) if axes else rows.reshape(*rows.shape[:2], *shape)
    )


@dataclass(frozen=True)
class Lines:
    """A result between sums of slopes times operands and an offset, below and above.

    ``slopes`` are the number of an operand, its slopes below and above, and its value where that is known. Where the
    function is linear both are one.
    """

    slopes: Sequence[tuple[int, Array, Array, Array | None]]
    offset_low: Array
    offset_high: Array
    sizes: Array
    is_exact: bool


class _Bent:
    """Rows in front of a bend: its slope is ``low`` where they are above zero, and ``high`` where they are below it."""

    def __init__(self, rows: Array, is_exact: bool) -> None:
        self.all = Flat(rows)
        self.below, self.above, self.is_exact = copy(self.all), copy(self.all), is_exact
        if not is_exact:
            self.below.rows = np.minimum(self.all.rows, 0)

    def sloped(self, low: Array, high: Array, cut: Cut) -> Array:
        """The rows times the slopes."""
        if self.is_exact:
            return self.all.again(self.all.times(cut(low)))
        with np.errstate(all="ignore"):
            more = high - low
        if not np.isfinite(more).all():
            slopes = (self.all.values(cut(x)) for x in (low, high))
            first, second = (x[:, None] if x.ndim else x for x in slopes)
            return self.all.again(np.where(self.all.rows > 0, first, second) * self.all.rows)
        part = self.all.times(cut(low))
        if more.any():
            part += self.below.times(cut(more))
        return self.all.again(part)

    def offset(self, low: Array, high: Array, cut: Cut) -> Array:
        """The products with an offset ``low`` where rows are above zero, and ``high`` where they are below it."""
        if self.is_exact:
            return np.zeros(self.all.rows.shape[:2])
        found = dot(self.below, cut(high))
        if low.any():
            self.above.rows = self.all.rows - self.below.rows
            found = found + dot(self.above, cut(low))
        return found


class Elementwise(Rule):
    """An operator on single elements."""

    def range(self, args: Ranges) -> Range:
        rank = self.place.node.type.rank
        with np.errstate(all="ignore"):
            found = RANGES[self.place.node.op](self.place, [stretched(a, rank) for a in args])
        shape, parts = (found.low.shape[0], *self.place.node.type.shape), found.sum
        arrays = (found.low, found.high, found.error, *((parts.carried, parts.mass) if parts is not None else ()))
        if all(x.shape == shape for x in arrays):
            return found
        low, high, error, *rest = (np.broadcast_to(x, shape) for x in arrays)
        if parts is not None:
            parts = replace(parts, carried=rest[0], mass=rest[1])
        return replace(found, low=low, high=high, error=error, sum=parts)

    def planes(self, args: Ranges, share: Array | None = None) -> Planes:
        """The planes between which the result is; the free slope of a maximum is ``share``."""
        rank, op = self.place.node.type.rank, self.place.node.op
        wide = [stretched(a, rank) for a in args]
        with np.errstate(all="ignore"):
            if share is not None and op in ("max", "min"):
                return extreme_planes(op, wide[0], wide[1], share)
            return PLANES[op](self.place, wide)

    def windows(self, window: Region) -> list[Region]:
        found: list[Region] = []
        for a in self.place.node.args:
            if not isinstance(window, Window) or a.type.rank == 0:
                found.append(window if a.type.rank and a.type.shape[-1] > 1 else None)
                continue
            own, single = slice(len(window.extents) - a.type.rank, None), np.array(a.type.shape) == 1
            wide = tuple(1 if n == 1 else w for w, n in zip(window.extents[own], a.type.shape))
            found.append(Window(np.where(single, 0, window.begins[:, own]), wide))
        return found

    def facts(self, args: Ranges, result: Range, share: Array | None = None) -> Lines:
        planes, rank = self.planes(args, share), self.place.node.type.rank
        is_exact = planes.low is planes.high and planes.offset_low is planes.offset_high
        sizes = np.maximum(np.abs(planes.offset_low), np.abs(planes.offset_high))
        slopes = []
        for k, a in enumerate(args):
            low, high = planes.low[k], planes.high[k]
            sizes = sizes + np.maximum(np.abs(low), np.abs(high)) * aligned(a.magnitude, rank)
            if k in self.operands or a.low.any():
                slopes.append((k, low, high, None if k in self.operands else aligned(a.low, rank)))
        return Lines(slopes, planes.offset_low, planes.offset_high, 2 * lost(sizes, self._terms), is_exact)

    def back(
        self, rows: Array, facts: Lines, cut: Cut = all_of, window: Region = None, keep: Array | None = None
    ) -> Rows:
        bent, parts = _Bent(rows, facts.is_exact), {}
        constant = bent.offset(facts.offset_low, facts.offset_high, cut)
        for k, low, high, value in facts.slopes:
            is_one = facts.is_exact and low.ndim == 0 and low == 1
            part = rows if is_one else bent.sloped(low, high, cut)
            if value is None:
                parts[k] = self._operand(part, k)
            else:
                constant = constant + dot(part, cut(value))
        return Rows(parts, constant, cut(facts.sizes))

    def _operand(self, rows: Array, k: int) -> Array:
        """Rows of a result as those of an operand, which was broadcast."""
        shape = self.place.node.args[k].type.shape
        last = rows.shape[rows.ndim - len(shape) :]
        return _summed(rows, tuple(1 if n == 1 else w for w, n in zip(last, shape)))

    @property
    def _terms(self) -> int:
        """Elements that one sum of `dot` or of a broadcast operand adds at most."""
        return int(self.place.node.type.elements)

    def loose(self, args: Ranges, k: int) -> Array:
        op = self.place.node.op
        if op in ("max", "min"):
            a, b = (stretched(x, self.place.node.type.rank) for x in args)
            open = (a.low < b.high) & (a.high > b.low)
            return _operand(open, args[k])
        only = len(self.operands) == 1
        if op in ("add", "sub", "neg") or (op in ("mul", "div") and only and not self.place.is_of_one):
            return np.zeros(args[k].low.shape, bool)
        if (op == "div" and k not in self.operands) or self.place.steps:
            return np.zeros(args[k].low.shape, bool)
        return np.ones(args[k].low.shape, bool)


def _operand(mask: Array, of: Range) -> Array:
    """A mask of a result as one of an operand that was broadcast."""
    lead = mask.ndim - of.low.ndim
    if lead:
        mask = np.asarray(mask.any(axis=tuple(range(1, 1 + lead))))
    axes = tuple(d for d in range(1, mask.ndim) if of.low.shape[d] == 1 and mask.shape[d] != 1)
    return np.asarray(mask.any(axis=axes, keepdims=True)) if axes else mask


class Leaky(Elementwise):
    """x where it is positive, and x * slope where it is not: a choice whose sides meet at zero.

    ``slopes`` are those behind and before zero, as constants that broadcast to x; ``x`` is the operand's number.
    """

    slopes: tuple[Array, Array]

    def range(self, args: Ranges) -> Range:
        a, (up, down) = args[self.operands[0]], self.slopes
        found = [np.where(x > 0, x * up, x * down) for x in (a.low, a.high)]
        inside = np.where((a.low < 0) & (a.high > 0), 0.0, found[0])
        low, high = np.minimum(np.minimum(*found), inside), np.maximum(np.maximum(*found), inside)
        steepest = np.maximum(np.abs(up), np.abs(down))
        carried = steepest * a.error
        error = carried + self.place.unit * (steepest * a.magnitude + carried) * (1 + 1e-6) + TINY
        return checked(low + 0 * a.low, high + 0 * a.low, error)

    def facts(self, args: Ranges, result: Range, share: Array | None = None) -> Lines:
        a, (up, down) = args[self.operands[0]], self.slopes
        with np.errstate(all="ignore"):
            secant = (a.high * up - a.low * down) / (a.high - a.low)
        open = (a.low < 0) & (a.high > 0)
        fixed = np.where(a.low >= 0, up, down) + 0 * a.low
        free = np.where(a.high > -a.low, up, down) if share is None else share * up + (1 - share) * down
        slope = np.where(open, secant, fixed)
        convex = up >= down
        # The secant moved to where it is on one side at both ends, whatever its slope was rounded to.
        ends = (a.high * up - slope * a.high, a.low * down - slope * a.low)
        offset = np.where(open, np.where(convex, np.maximum(*ends), np.minimum(*ends)), 0.0)
        offset = offset + np.where(convex, 1, -1) * 8 * U64 * np.abs(slope) * a.magnitude * open
        touching = np.where(open, free, fixed)
        low, high = np.where(convex, touching, slope), np.where(convex, slope, touching)
        sizes = np.maximum(np.abs(low), np.abs(high)) * a.magnitude + np.abs(offset)
        offsets, none = (np.where(convex, 0.0, offset), np.where(convex, offset, 0.0)), None
        return Lines([(self.operands[0], low, high, none)], *offsets, 2 * lost(sizes, self._terms), False)

    def loose(self, args: Ranges, k: int) -> Array:
        return np.asarray((args[k].low < 0) & (args[k].high > 0)) & (k == self.operands[0])


class Weighted(Rule):
    """A sum of products with constants: a matrix product, a convolution, a sum over dimensions or windows."""

    terms: int
    map: Map
    magnitudes: Map
    constants: Mapping[int, Array]

    @property
    def picks(self) -> bool:
        return self.map.is_matrix

    def range(self, args: Ranges) -> Range:
        a = args[self.operands[0]]
        middle = (a.low + a.high) / 2
        radius = np.maximum(a.high - middle, middle - a.low) + 2 * (self.terms + 8) * U64 * a.magnitude
        boxes = a.low.shape[0]
        carries = bool(a.error.any())
        stacked = np.concatenate([radius, a.magnitude, *([np.broadcast_to(a.error, radius.shape)] if carries else [])])
        found = self.magnitudes(stacked) * (1 + 4 * U64 * (self.terms + 8))
        center, reach, size = self.map(middle), found[:boxes], found[boxes : 2 * boxes]
        carried = found[2 * boxes :] if carries else np.zeros_like(reach)
        mass = size + carried
        parts = Sum(carried, mass, self.terms)
        low, high = center - reach, center + reach
        if not self.place.is_float:
            return whole(np.ceil(low - 1e-6), np.floor(high + 1e-6), carried, self.place.ends, parts)
        k, order, unit = self.operands[0], self.place.order, self.place.unit
        if order is None:
            error = carried + gamma(self.terms, unit) * mass * (1 + 1e-6) + self.terms * TINY
            return checked(low, high, error, parts)
        lost = lost_in_order(self.place.node, k, self.constants, order, middle, radius, mass, unit)
        error = (1 + gamma(order.depth, unit)) * (carried + lost) * (1 + 1e-6) + self.terms * TINY
        return checked(low, high, error, replace(parts, is_closed=True))

    def windows(self, window: Region) -> list[Region] | None:
        return self.map.windows(window)

    def facts(self, args: Ranges, result: Range, share: Array | None = None) -> Array:
        assert result.sum is not None
        return lost(result.sum.mass, max(self.terms, prod(self.place.node.type.shape)))

    def back(
        self, rows: Array, facts: Array, cut: Cut = all_of, window: Region = None, keep: Array | None = None
    ) -> Rows:
        part = self.map.transposed_rows(rows, window, keep)
        return Rows({self.operands[0]: part}, np.zeros(rows.shape[:2]), cut(facts))


class Moved(Rule):
    """An operator that only moves elements, and puts constants beside them."""

    move: Move

    def range(self, args: Ranges) -> Range:
        varying = [args[k] for k in self.operands]
        low, high = self.move([a.low for a in varying]), self.move([a.high for a in varying])
        if any(a.error.any() for a in varying):
            boxes = low.shape[0]
            error = self.move.plain([np.broadcast_to(a.error, (boxes, *a.low.shape[1:])) for a in varying])
        else:
            error = np.zeros((1,) * low.ndim)
        return Range(low, high, error)

    def windows(self, window: Region) -> list[Region] | None:
        if len(self.operands) != 1:
            return None if window is not None else [None for _ in self.place.node.args]
        return self.move.maps[self.operands[0]].windows(window)

    def facts(self, args: Ranges, result: Range, share: Array | None = None) -> Array:
        offset = self.move.offset
        sizes = result.magnitude if offset is None else result.magnitude + np.abs(offset)
        return lost(sizes, prod(self.place.node.type.shape))

    def back(
        self, rows: Array, facts: Array, cut: Cut = all_of, window: Region = None, keep: Array | None = None
    ) -> Rows:
        parts = {k: self.move.maps[k].transposed_rows(rows, window) for k in self.operands}
        constant = np.zeros(rows.shape[:2])
        if self.move.offset is not None:
            constant = dot(rows, cut(self.move.offset[None]))
        return Rows(parts, constant, cut(facts))
