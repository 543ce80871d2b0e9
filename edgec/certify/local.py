"""The distance of a value of a program from that of its reference, one layer at a time.

Between one bend and the next, program and reference are linear but for rounding. Both start at what the pair of bends
before gives: f = scale * q + shift - d, where the difference d is within known bounds. So
scale' * m + shift' - v = D q + R d + constants + rounding, where D = scale' * P - R * scale is nearly nothing, as the
program's linear map P is the reference's R in other numbers. Each of the two terms is bounded by itself, the first one
by the magnitudes of D: impulses are sent through both maps, many at a time where no result is reached by two of them
(Curtis, Powell, Reid: "On the estimation of sparse Jacobian matrices", 1974). It needs no rows, so convolutions of any
size have such bounds; a chain of layers multiplies magnitudes, which rows of linear bounds do not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import prod

import numpy as np

from edgec.certify.elementwise import aligned
from edgec.certify.maps import Map
from edgec.certify.planes import Planes, following_planes
from edgec.certify.ranges import U64, Array, Range
from edgec.certify.rules import Elementwise, Moved, Rule, Weighted
from edgec.ir.graph import Node

#: Distances between impulses that are sent together, and the most numbers that all of them are.
_PERIODS, _MOST = (1, 2, 3, 4, 5, 7, 9), 1 << 33
#: The least name of an impulse.
_NAMES = 1 << 40
Turn = Callable[[Array], Array]
#: Bytes of impulses at a time.
_ROOM = 1 << 26


@dataclass
class Way:
    """One linear step from its operands to a node: slopes and offsets for the elements of a box.

    ``slopes`` are those of an element-wise operator by the number of the operand; None for other operators.
    """

    rule: Rule
    slopes: Mapping[int, Array] | None
    offset: Array
    spread: Array

    @cached_property
    def reaches(self) -> Map | None:
        """The map with ones for all weights: where a sum has terms."""
        if not isinstance(self.rule, Weighted):
            return None
        ones = {k: (w != 0).astype(np.float64) for k, w in self.rule.constants.items()}
        return Map(self.rule.place.node, self.rule.operands[0], ones)


def way(rule: Rule | None, args: Sequence[Range]) -> Way | None:
    """The step of a node whose operands are in these ranges; None where it is not linear there."""
    if isinstance(rule, Weighted):
        return Way(rule, None, np.zeros(()), np.zeros(()))
    if isinstance(rule, Moved):
        return Way(rule, None, np.zeros(()), np.zeros(()))
    if not isinstance(rule, Elementwise):
        return None
    with np.errstate(all="ignore"):
        planes = _planes(rule, args)
    if planes is None or any(x is not y and not np.array_equal(x, y) for x, y in zip(planes.low, planes.high)):
        return None
    rank, middle = rule.place.node.type.rank, (planes.offset_low + planes.offset_high) / 2
    spread = np.maximum(planes.offset_high - middle, middle - planes.offset_low)
    for k, a in enumerate(args):
        if k not in rule.operands:
            middle = middle + np.asarray(planes.low[k] * aligned(a.low, rank))
    slopes = {k: np.asarray(planes.low[k]) for k in rule.operands}
    if not all(np.isfinite(x).all() for x in (middle, spread, *slopes.values())):
        return None
    return Way(rule, slopes, middle, spread)


def _planes(rule: Elementwise, args: Sequence[Range]) -> Planes | None:
    if rule.place.node.op in ("max", "min"):
        return _clipped(rule, args)
    return following_planes(rule.place, args) if rule.place.steps else rule.planes(args)


def _clipped(rule: Elementwise, args: Sequence[Range]) -> Planes | None:
    """A limit as the operand and how far the limit moves it, or as its range, whichever is narrower for an element.

    Integers of a program are clipped where its reference is not: most of them stay as they are.
    """
    if len(rule.operands) != 1:
        return None
    (k,), node = rule.operands, rule.place.node
    x, limit = (aligned(a.low, node.type.rank) for a in (args[k], args[1 - k]))
    top, found = aligned(args[k].high, node.type.rank), rule.range(args)
    if node.op == "max":
        low, high = 0 * (x + limit), np.maximum(0, limit - x)
    else:
        low, high = np.minimum(0, limit - top), 0 * (x + limit)
    stays = high - low < found.high - found.low
    slope = np.where(stays, 1.0, 0.0)
    slopes = tuple(slope if j == k else np.zeros(()) for j in range(2))
    return Planes(slopes, np.where(stays, low, found.low), slopes, np.where(stays, high, found.high))


class Chain:
    """The linear steps that lead to a node, from ``leaves``: values that are no linear function of others.

    ``noise`` are the errors of what is stored on the way.
    """

    def __init__(
        self, end: Node, stops: Mapping[Node, object], rules: Mapping[Node, Rule], seen: Mapping[Node, Range],
        noise: Mapping[Node, Array], order: Mapping[Node, int],
    ) -> None:  # fmt: skip
        self.end, self.noise = end, noise
        self.ways: dict[Node, Way] = {}
        self.leaves: list[Node] = []
        stack, done = [end], {end}
        while stack:
            n = stack.pop()
            made = None if n in stops else way(rules.get(n), [seen[a] for a in n.args])
            if made is None:
                self.leaves.append(n)
                continue
            self.ways[n] = made
            for k in made.rule.operands:
                if n.args[k] not in done:
                    done.add(n.args[k])
                    stack.append(n.args[k])
        self.order = sorted(self.ways, key=order.__getitem__)
        #: Does nothing on the way leave its numbers?
        self.is_known = all(np.isfinite(seen[n].low).all() and np.isfinite(seen[n].high).all()
                            for n in (*self.ways, *self.leaves))  # fmt: skip

    @property
    def terms(self) -> int:
        """Roundings of the analysis on the way, at most."""
        return sum(8 + getattr(w.rule, "terms", 2) for w in self.ways.values())

    @property
    def work(self) -> int:
        """Multiply-adds of one pass."""
        return sum(prod(n.type.shape) * getattr(w.rule, "terms", 1) for n, w in self.ways.items())

    def value(self, leaves: Mapping[Node, Array]) -> Array:
        """The value at the end for values [1, ...] of the leaves, with the middle of what steps add."""
        return self._through(leaves, "value")

    def linear(self, leaves: Mapping[Node, Array]) -> Array:
        """The linear part of it for values [n, ...] of some leaves, and zero for the others."""
        return self._through(leaves, "linear")

    def size(self, leaves: Mapping[Node, Array], noisy: bool) -> Array:
        """The same with magnitudes of weights; if ``noisy``, with how far steps and rounding go from their middle."""
        return self._through(leaves, "noisy" if noisy else "size")

    def reached(self, leaves: Mapping[Node, Array]) -> Array:
        """The same with ones for all weights."""
        return self._through(leaves, "ones")

    def offsets(self, leaves: Mapping[Node, Array]) -> Array:
        """Magnitudes of everything that is added up on the way, from magnitudes of the leaves."""
        return self._through(leaves, "offsets")

    def _through(self, leaves: Mapping[Node, Array], how: str) -> Array:
        values: dict[Node, Array] = dict(leaves)
        if self.end in values:
            return values[self.end]
        count = max((x.shape[0] for x in leaves.values()), default=1)
        for n in self.order:
            w = self.ways[n]
            zeros = np.zeros((count, *n.type.shape))
            found = self._step(w, n, {k: values[n.args[k]] for k in w.rule.operands if n.args[k] in values}, how, zeros)
            if how == "noisy" and n in self.noise:
                found = found + self.noise[n]
            if found is not None:
                values[n] = found
        return values.get(self.end, np.zeros((count, *self.end.type.shape)))

    @staticmethod
    def _step(w: Way, n: Node, given: Mapping[int, Array], how: str, zeros: Array) -> Array:
        if isinstance(w.rule, Weighted):
            (k,) = w.rule.operands
            if k not in given:
                return zeros
            if how == "ones":
                assert w.reaches is not None
                return w.reaches(given[k])
            return w.rule.map(given[k]) if how in ("value", "linear") else w.rule.magnitudes(given[k])
        if isinstance(w.rule, Moved):
            count = zeros.shape[0]
            blank = [given.get(k, np.zeros((count, *n.args[k].type.shape))) for k in w.rule.operands]
            found = w.rule.move(blank) if how == "value" else w.rule.move.plain(blank)
            return found + np.abs(w.rule.move.offset) if how == "offsets" and w.rule.move.offset is not None else found
        assert w.slopes is not None
        found = zeros
        for k, x in given.items():
            slope = w.slopes[k] if how in ("value", "linear") else 1.0 if how == "ones" else np.abs(w.slopes[k])
            found = found + slope * aligned(x, n.type.rank)
        if how == "value":
            found = found + w.offset
        if how == "offsets":
            found = found + np.abs(w.offset)
        return found + w.spread if how in ("noisy", "offsets") else found


@dataclass(frozen=True)
class Linked:
    """A leaf of both chains: in the reference it is scale * (that of the program) + shift - d.

    The dimensions of the program's value are those of the reference's in this ``order``; d is from ``low`` to ``high``.
    """

    program: Node
    reference: Node
    scale: Array
    shift: Array
    order: tuple[int, ...]
    low: Array
    high: Array

    def turned(self, x: Array) -> Array:
        """Values of the program [n, ...] with the dimensions of the reference."""
        return np.transpose(x, (0, *(1 + int(d) for d in np.argsort(self.order))))


def apart(
    program: Chain, reference: Chain, linked: Sequence[Linked], seen: Mapping[Node, Range],
    scale: Array, shift: Array, order: Sequence[int], is_late: Callable[[], bool],
) -> tuple[Array, Array] | None:  # fmt: skip
    """Bounds [1, ...] of scale * (end of the program) + shift - (end of the reference, its dimensions in ``order``).

    None where a value may leave its numbers. Once ``is_late``, magnitudes of both maps stand for impulses.
    """
    if not (program.is_known and reference.is_known):
        return None
    own = {n: seen[n] for n in program.leaves}
    real = {n: seen[n] for n in reference.leaves}
    both = {link.program: link for link in linked}
    theirs = {link.reference: link for link in linked}
    middle = {n: (r.low + r.high) / 2 for n, r in own.items()}
    radius = {n: np.maximum(r.high - middle[n], middle[n] - r.low) for n, r in own.items()}
    middle_r, radius_r, sizes_r = {}, {}, {}
    for n, r in real.items():
        link = theirs.get(n)
        if link is None:
            middle_r[n] = (r.low + r.high) / 2
            radius_r[n] = np.maximum(r.high - middle_r[n], middle_r[n] - r.low)
            sizes_r[n] = r.magnitude
            continue
        d = (link.low + link.high) / 2
        middle_r[n] = link.turned(link.scale * middle[link.program] + link.shift - d)
        radius_r[n] = link.turned(np.maximum(link.high - d, d - link.low))
        reach = link.scale * (np.abs(middle[link.program]) + radius[link.program]) + np.abs(link.shift)
        sizes_r[n] = link.turned(reach + np.maximum(np.abs(link.low), np.abs(link.high)))

    def turned(x: Array) -> Array:
        return np.transpose(x, (0, *(1 + d for d in order)))

    center = scale * program.value(middle) + shift - turned(reference.value(middle_r))
    loose = {n: x for n, x in radius.items() if n not in both}
    reach = scale * program.size(loose, True) + turned(reference.size(radius_r, True))
    sizes = {n: np.abs(middle[n]) + radius[n] for n in own}
    mass = scale * program.offsets(sizes) + np.abs(shift) + turned(reference.offsets(sizes_r))
    for link in linked:
        found = _of_impulses(program, reference, link, radius[link.program], scale, turned, is_late)
        if found is None:
            found = scale * program.size({link.program: radius[link.program]}, False)
            found = found + turned(
                reference.size({link.reference: link.turned(link.scale * radius[link.program])}, False)
            )
        reach = reach + found
    slack = 8 * U64 * (program.terms + reference.terms + 64) * (mass + reach + np.abs(center))
    return center - reach - slack, center + reach + slack


def _of_impulses(
    program: Chain, reference: Chain, link: Linked, radius: Array, scale: Array, turned: Turn,
    is_late: Callable[[], bool],
) -> Array | None:  # fmt: skip
    """The sum of magnitudes of the difference of both maps, times a radius; None where impulses take too long."""
    if not radius.any():
        return np.zeros((1, *program.end.type.shape))
    if is_late():
        return None
    periods = _periods(program, reference, link, turned)
    shape = radius.shape[1:]
    colors = prod(min(p, n) for p, n in zip(periods, shape))
    cost = colors * sum(
        prod(n.type.shape) * getattr(w.rule, "terms", 1) for c in (program, reference) for n, w in c.ways.items()
    )
    if cost > _MOST:
        return None
    total = np.zeros((1, *program.end.type.shape))
    width = max(prod(n.type.shape) for c in (program, reference) for n in (c.end, *c.ways))
    for masks in _batches(periods, shape, max(1, _ROOM // (8 * max(width, prod(shape))))):
        if is_late() or not _alone(program, reference, link, masks, turned):
            return None
        x = masks * radius
        if not x.any():
            continue
        given = {link.reference: link.turned(link.scale * x)}
        total += np.abs(scale * program.linear({link.program: x}) - turned(reference.linear(given))).sum(
            0, keepdims=True
        )
    return total


def _alone(program: Chain, reference: Chain, link: Linked, masks: Array, turned: Turn) -> bool:
    """Is every result reached by one impulse of each mask at most, the same one in both chains?

    Impulses are names between _NAMES and twice that: a sum of two is more than any of them.
    """
    names = np.arange(_NAMES, _NAMES + prod(masks.shape[1:])).reshape(masks.shape[1:])
    own = program.reached({link.program: masks * names})
    others = turned(reference.reached({link.reference: link.turned(masks * names)}))
    most = max(float(own.max(initial=0)), float(others.max(initial=0)))
    return bool(most < 2 * _NAMES and ((own == others) | (own == 0) | (others == 0)).all())


def _periods(program: Chain, reference: Chain, link: Linked, turned: Turn) -> tuple[int, ...]:
    """Distances along each dimension between impulses that reach different results, tried in the middle of others."""
    shape = link.program.type.shape
    periods = list(shape)
    for d in sorted(range(len(shape)), key=lambda d: -shape[d]):
        for period in _PERIODS:
            if period >= shape[d]:
                break
            tried = (*periods[:d], period, *periods[d + 1 :])
            middle = [n // 2 % p for n, p in zip(shape, tried)]
            places = [(*middle[:d], k, *middle[d + 1 :]) for k in range(period)]
            if _alone(program, reference, link, np.stack([_mask(tried, shape, x) for x in places]), turned):
                periods[d] = period
                break
    return tuple(periods)


def _mask(periods: Sequence[int], shape: Sequence[int], place: Sequence[int]) -> Array:
    mask = np.ones(())
    for period, extent, first in zip(periods, shape, place):
        mask = mask[..., None] * (np.arange(extent) % period == first)
    return np.asarray(mask, np.float64)


def _batches(periods: Sequence[int], shape: Sequence[int], count: int) -> Iterator[Array]:
    """Masks [n, ...] of impulses that are sent together, of all places."""
    batch: list[Array] = []
    for place in product(*(range(min(p, n)) for p, n in zip(periods, shape))):
        batch.append(_mask(periods, shape, place))
        if len(batch) == count:
            yield np.stack(batch)
            batch = []
    if batch:
        yield np.stack(batch)
