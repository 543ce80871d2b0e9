"""Rows of linear bounds that pass back through a network in one call of compiled code.

Between a node and the input every operator has one operand that varies, and is element-wise, a product with a constant
matrix, a convolution in two dimensions, a pad of zeros, or a reshape; or it is a sum of two values whose ways meet
again (`routes`). What `Backward` does node by node with all rows, the code does for a few rows at a time, which stay in
the cache; elements that are zero in all of them are left out. Constants, sizes and roundoffs are those of the rules,
and products are added up in any order there too.
"""

from __future__ import annotations

import ctypes
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import Any

import numpy as np

from edgec.certify.bounds import Bounds
from edgec.certify.compiled import library
from edgec.certify.patches import cut
from edgec.certify.ranges import U64, Array
from edgec.certify.routes import Route, route
from edgec.certify.rules import Elementwise, Lines, Moved, Rule, Weighted
from edgec.ir.graph import Node

_NUMBERS = (
    "kind", "is_part", "bends", "splits", "channels", "height", "width", "value_height", "value_width",
    "into_channels", "into_height", "into_width", "into_value_height", "into_value_width",
    "kernel_y", "kernel_x", "stride_y", "stride_x", "dilation_y", "dilation_x", "before_y", "before_x",
    "slot",
)  # fmt: skip
_ARRAYS = ("before_bias", "before_sizes", "low", "high", "offset_low", "offset_high", "bias", "sizes")
_POINT, _DENSE, _CONV, _PAD, _PLACE, _KEEP, _TURN, _MEET = range(8)
_KINDS = {"keep": _KEEP, "turn": _TURN, "meet": _MEET}


class _Facts(ctypes.Structure):
    """Facts of a step: where their arrays are."""

    _fields_ = [(n, ctypes.c_void_p) for n in _ARRAYS]


class _Step(ctypes.Structure):
    """The struct `step` of backward.c."""

    _fields_ = [*((n, ctypes.c_int64) for n in _NUMBERS), ("facts", _Facts), ("weights", ctypes.c_void_p)]


@dataclass
class Point:
    """A step of rows over the elements of a value: constants and sizes of the rows, slopes by their signs, and
    constants and sizes of what they become. ``facts`` are [boxes, elements] by their names in the struct, biases
    [1, elements]. ``bends``: the slopes of rows above and below zero are not the same.
    """

    facts: dict[str, Array] = field(default_factory=dict)
    bends: bool = False

    def add(self, name: str, x: Array) -> None:
        """Constants ("bias") or "sizes" of the rows as they are now."""
        key = name if "low" in self.facts else f"before_{name}"
        self.facts[key] = self.facts[key] + x if key in self.facts else x

    @cached_property
    def packed(self) -> _Facts:
        """Addresses of the facts, once there are no more of them."""
        return _Facts(**{name: x.__array_interface__["data"][0] for name, x in self.facts.items()})

    @property
    def is_sizes(self) -> bool:
        """Does it take sizes of the rows alone?"""
        return self.facts.keys() <= {"before_sizes"}


Extents = tuple[int, int, int]


def _spatial(n: Node) -> Extents:
    """The channels, height and width of a value."""
    shape = n.type.shape
    return (shape[0] * shape[1], shape[2], shape[3]) if len(shape) == 4 else (prod(shape), 1, 1)


@dataclass
class _Steps:
    """Steps for the compiled code, without facts: those of the steps with numbers ``places`` are still to be put in.

    Rows are of a ``value``, and of a ``part`` of it if that is not None; ``most`` is the most elements on the way.
    """

    value: Extents
    part: tuple[int, int] | None
    made: list[_Step] = field(default_factory=list)
    places: list[int] = field(default_factory=list)
    most: int = 1

    def add(self, kind: int, **numbers: int) -> _Step:
        """One more step, which begins with the rows as they are."""
        extents = self.value if self.part is None else (self.value[0], *self.part)
        own = zip(_NUMBERS[4:9], (*extents, *self.value[1:]))
        step = _Step(kind=kind, is_part=int(self.part is not None), **dict(own), **numbers)
        self.made.append(step)
        self.most = max(self.most, prod(extents))
        return step

    def become(self, step: _Step, value: Extents, part: tuple[int, int] | None) -> None:
        """The rows that a step makes."""
        extents = value if part is None else (value[0], *part)
        for name, number in zip(_NUMBERS[9:14], (*extents, *value[1:])):
            setattr(step, name, number)
        self.value, self.part = value, part

    def place(self) -> None:
        """Rows of all of the value."""
        if self.part is not None:
            self.become(self.add(_PLACE), self.value, None)


@dataclass(frozen=True)
class _Made:
    """Steps with their facts, which are kept as long."""

    steps: ctypes.Array[_Step]
    most: int
    depth: int
    kept: list[Point]


class Descent:
    """The way from a node back to the input."""

    def __init__(self, route: Route, rules: Mapping[Node, Rule], roundings: int) -> None:
        self.route, self.rules, self.roundings = route, rules, roundings
        self.nodes = nodes = route.nodes
        self.input = nodes[-1]
        self.spans = self._spans()
        self.packed: dict[Node, Array] = {}
        self.made: dict[object, _Steps] = {}
        #: Multiply-adds of a row, at most.
        self.work = 2 * sum(prod(n.type.shape) * getattr(rules.get(n), "terms", 1) for n in nodes)
        self.widest = max(prod(n.type.shape) for n in nodes)

    def ends(self, found: Bounds, boxes: Array, units: Array) -> tuple[Array, Array]:
        """The least and the greatest that single elements are before they are rounded; each is of one of the boxes,
        which are sorted."""
        steps, sizes = self._steps(found, noisy=False, is_unit=True)
        middle, radius = found.domain.middle(self.input)
        radius = radius if sizes is None else radius + sizes
        total = self._total(_run(steps, boxes, units, None, (middle, radius), None))
        return total[: len(boxes)], -total[len(boxes) :]

    def back(self, rows: Array, found: Bounds, boxes: Array | None = None) -> tuple[Array, Array]:
        """Lower bounds [boxes, rows] of rows [boxes, rows, elements...] of what is computed, and rows of the inputs;
        those of the given ``boxes`` alone, which are sorted."""
        steps, sizes = self._steps(found, noisy=True, is_unit=False)
        shape, own = rows.shape[:2], self.input.type.shape
        given, reached = rows.reshape(prod(shape), -1), np.empty((prod(shape), prod(own)))
        own_boxes = np.arange(shape[0]) if boxes is None else boxes
        results = _run(steps, np.repeat(own_boxes, shape[1]), None, given, None, reached)
        reached, results = reached.reshape(*shape, -1), results.reshape(4, *shape)
        domain = found.domain if boxes is None else found.domain.within({self.input: None}, boxes)
        results[3] = domain.least({self.input: reached}, shape)
        if sizes is not None:
            results[1] += (np.abs(reached) @ cut(sizes, None, boxes)[:, :, None])[..., 0]
        return self._total(results), reached.reshape(*shape, *own)

    def _total(self, results: Array) -> Array:
        constant, slack, mass, least = results
        slack = slack * (1 + (4 * self.widest + 8) * U64)
        with np.errstate(all="ignore"):
            total = constant + least - slack
            return np.asarray(total - 8 * U64 * self.roundings * (mass + slack + np.abs(least)))

    def _steps(self, found: Bounds, noisy: bool, is_unit: bool) -> tuple[_Made, Array | None]:
        """Steps with their facts, and the sizes that the rows of the inputs are still to be multiplied with."""
        parts, sizes = [], None
        for place, count in self.spans:
            points, is_flat = self._points(found, place, count, noisy)
            parts.append((points, place + count - 1, is_flat))
        if len(points) == 1 and points[0].is_sizes:
            parts[-1], sizes = ([], *parts[-1][1:]), points[0].facts.get("before_sizes")
        key = is_unit, tuple(p.bends for points, _, _ in parts for p in points), tuple(len(p) for p, _, _ in parts)
        if key not in self.made:
            self.made[key] = self._made(parts, is_unit)
        steps, every = self.made[key], [p for points, _, _ in parts for p in points]
        made = (_Step * len(steps.made))(*steps.made)
        for k, p in zip(steps.places, every):
            made[k].facts = p.packed
        return _Made(made, steps.most, self.route.depth, every), sizes

    def _made(self, parts: Sequence[tuple[list[Point], int, bool]], is_unit: bool) -> _Steps:
        start, split = self.nodes[0], not is_unit
        steps = _Steps(_spatial(start), (1, 1) if is_unit and start.type.rank == 4 else None)
        for points, place, is_flat in parts:
            end = self.nodes[place]
            rule = self.rules.get(end)
            if is_flat or (isinstance(rule, Weighted) and rule.map.is_matrix):
                steps.place()
            steps.value = _spatial(end)
            for p in points:
                steps.places.append(len(steps.made))
                steps.add(_POINT, bends=int(p.bends), splits=int(p.bends and not split))
                split = split or p.bends
            if end.op != "input" and end not in self.route.sums:
                into = _spatial(end.args[self.rules[end].operands[0]])
                if isinstance(rule, Elementwise) or end.op == "reshape":
                    steps.value = into
                else:
                    self._through(steps, end, into)
            for turn in self.route.turns.get(place, ()):
                steps.place()
                steps.value = _spatial(turn.value)
                steps.add(_KINDS[turn.kind], slot=turn.slot, splits=int(not split))
                split = True
        if not steps.made:
            steps.add(_POINT)
        steps.made[0].splits |= int(not split)
        steps.add(_POINT)
        return steps

    def _spans(self) -> list[tuple[int, int]]:
        """The number of the first node and how many they are, of nodes whose rows pass element by element: each span
        ends with one that is not element-wise, or where ways part or meet."""
        spans, start = [], 0
        for k, n in enumerate(self.nodes):
            rule = self.rules.get(n)
            goes_on = isinstance(rule, Elementwise) or n.op == "reshape"
            if not goes_on or k in self.route.turns:
                spans.append((start, k + 1 - start))
                start = k + 1
        return spans

    def _points(self, found: Bounds, place: int, count: int, noisy: bool) -> tuple[list[Point], bool]:
        """Steps of the rows of a span, and whether one of its nodes is a reshape."""
        nodes = tuple(self.nodes[place : place + count])
        key = nodes, place in self.route.met
        if place and key in found.points:
            kept: tuple[list[Point], bool] = found.points[key]
            return kept
        points, boxes, is_flat = [Point()], found.domain.boxes, False
        if place in self.route.met:
            points[-1].add("sizes", _flat(18 * U64 * found.seen[nodes[0]].magnitude, nodes[0], boxes))
        for k, n in enumerate(nodes, place):
            error = found.noise.get(n) if noisy or k else None
            if error is None and noisy and not k and n in self.rules:
                error = found.exact[n].error
            if error is not None and error.any():
                points[-1].add("sizes", _flat(error, n, boxes))
            rule = self.rules.get(n)
            if rule is None:
                break
            facts = facts_of(rule, n, found)
            if n in self.route.sums:
                points[-1].add("sizes", _flat(facts.sizes, n, boxes))
            elif isinstance(rule, Elementwise):
                self._bent(points, facts, n, boxes)
            else:
                points[-1].add("sizes", _flat(facts, n, boxes))
                is_flat |= n.op == "reshape"
        if place:
            found.points[key] = points, is_flat
        return points, is_flat

    @staticmethod
    def _bent(points: list[Point], lines: Lines, n: Node, boxes: int) -> None:
        points[-1].add("sizes", _flat(lines.sizes, n, boxes))
        ends = [lines.offset_low, lines.offset_high]
        low = high = np.zeros(())
        for _, a, b, value in lines.slopes:
            if value is None:
                low, high = a, b
            elif lines.is_exact:
                points[-1].add("bias", _flat(a * value, n, 1))
            else:
                ends = [ends[0] + a * value, ends[1] + b * value]
        if lines.is_exact and low.ndim == 0 and low == 1:
            return
        if "low" in points[-1].facts:
            points.append(Point())
        facts, points[-1].bends = points[-1].facts, not lines.is_exact
        facts["low"], facts["high"] = (_flat(x, n, boxes) for x in (low, high))
        if any(x.any() for x in ends):
            facts["offset_low"], facts["offset_high"] = (_flat(x, n, boxes) for x in ends)

    def _through(self, steps: _Steps, n: Node, into: Extents) -> None:
        """Rows of a sum or a padded value become those of its operand."""
        rule, part = self.rules[n], steps.part
        if isinstance(rule, Weighted) and rule.map.is_matrix:
            steps.become(steps.add(_DENSE, weights=self._panels(n, rule)), into, None)
        elif isinstance(rule, Weighted):
            numbers = {
                f"{name}_{axis}": int(n.attributes[f"{name}s"][d]) for name in ("stride", "dilation")
                for d, axis in enumerate("yx")
            }  # fmt: skip
            kernel = n.args[1].type.shape[2:]
            if part is not None:
                steps_of = zip(part, n.attributes["strides"], n.attributes["dilations"], kernel)
                part = tuple((w - 1) * s + (k - 1) * d + 1 for w, s, d, k in steps_of)
            numbers |= {"kernel_y": kernel[0], "kernel_x": kernel[1], "weights": self._panels(n, rule)}
            steps.become(steps.add(_CONV, **numbers), into, part)
        else:
            before = n.attributes["before"]
            steps.become(steps.add(_PAD, before_y=before[2], before_x=before[3]), into, part)
        if steps.part is not None:
            steps.most = max(steps.most, prod((into[0], *steps.part)))
            if prod(steps.part) >= prod(into[1:]):
                steps.place()

    def _panels(self, n: Node, rule: Weighted) -> int:
        """The address of weights as the code reads them: in panels of results, [panel][tap][output][result]."""
        if n not in self.packed:
            code = library()
            assert code is not None
            w, tall = rule.map.node.args[1].value, code.edgec_backward_tall()
            w = w.T[:, :, None] if rule.map.is_matrix else w.reshape(*w.shape[:2], -1)
            outputs, inputs, taps = w.shape
            wide = np.zeros((taps, outputs, -(-inputs // tall) * tall))
            wide[:, :, :inputs] = w.transpose(2, 0, 1)
            self.packed[n] = np.ascontiguousarray(wide.reshape(taps, outputs, -1, tall).transpose(2, 0, 1, 3))
        return int(self.packed[n].ctypes.data)


def facts_of(rule: Rule, n: Node, found: Bounds) -> Any:
    """Facts of the ranges at a node that rows need, made once."""
    if n not in found.facts:
        found.facts[n] = rule.facts([found.seen[a] for a in n.args], found.exact[n])
    return found.facts[n]


def _flat(x: Array, n: Node, boxes: int) -> Array:
    """Facts of all boxes, [boxes, elements]."""
    if x.shape == (boxes, *n.type.shape) and x.flags.c_contiguous and x.dtype == np.float64:
        return x.reshape(boxes, -1)
    x = x if x.ndim == 0 else x.reshape(x.shape[0], *(1,) * (n.type.rank + 1 - x.ndim), *x.shape[1:])
    wide = np.broadcast_to(x, (boxes, *n.type.shape))
    return np.ascontiguousarray(wide, np.float64).reshape(boxes, -1)


def _pointer(x: Array | None) -> ctypes.c_void_p | None:
    return None if x is None else ctypes.c_void_p(x.ctypes.data)


def _run(
    made: _Made, boxes: Array, units: Array | None, given: Array | None, ends: tuple[Array, Array] | None,
    reached: Array | None,
) -> Array:  # fmt: skip
    """Constants, slacks, masses and the least of the inputs, [4, rows]."""
    code = library()
    assert code is not None
    results = np.empty((4, len(boxes) * (1 if units is None else 2)))
    whole = (None if x is None else np.ascontiguousarray(x, np.int64) for x in (boxes, units))
    real = (None if x is None else np.ascontiguousarray(x, np.float64) for x in (given, *(ends or (None, None))))
    given_arrays = [*whole, *real]
    done = code.edgec_backward(
        made.steps, ctypes.c_int64(len(made.steps)), ctypes.c_int64(len(boxes)),
        *map(_pointer, given_arrays), *map(ctypes.c_int64, (made.most, made.depth)),
        _pointer(results), _pointer(reached),
    )  # fmt: skip
    if not done:
        raise MemoryError
    return results


def descent(start: Node, rules: Mapping[Node, Rule], fixed: Collection[Node], roundings: int) -> Descent | None:
    """The way back from a node; None where an operator on it has no step in the code, or there is no compiler."""
    found = route(start, fixed, lambda n, k: n in rules and _has_step(n, rules[n], k))
    if found is None or len(found.nodes) < 2:
        return None
    code = library()
    is_deep = code is not None and found.depth > code.edgec_backward_slots()
    return None if code is None or is_deep else Descent(found, rules, roundings)


def _has_step(n: Node, rule: Rule, k: int) -> bool:
    if isinstance(rule, Elementwise):
        return rule.operands == (k,) and n.args[k].type.shape == n.type.shape
    if isinstance(rule, Weighted):
        is_plain = n.op == "conv" and n.type.rank == 4 and n.type.shape[0] == 1 and n.attributes["groups"] == 1
        return k == 0 and ((rule.map.is_matrix and prod(n.type.shape[:-1]) == 1) or is_plain)
    if not isinstance(rule, Moved) or rule.move.offset is not None:
        return False
    if n.op == "pad":
        pads = (*n.attributes["before"], *n.attributes["after"])
        return n.type.rank == 4 and not any(pads[d] for d in (0, 1, 4, 5)) and min(pads) >= 0
    return n.op == "reshape"
