"""A program and the network that it stands for, bounded together: how far are the answers of one from the other's?

Bounds of both apart say little, as both vary with the inputs. So both are one network on the same inputs. Rows of
linear bounds pass back through both, and where the two are nearly the same they cancel. A bend would end that, as it is
bounded by planes of its own on either side; so bends are paired (`edgec.certify.pairs`), and the value of the reference
is written as that of the program less a difference, which lies between planes of the difference of the operands:
f = scale * q + shift - d, and d = slope * e where e = scale * m + shift - v (m and v are the operands of q and f).

What the program computes carries its rounding, the reference is the function of real numbers.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from math import prod

import numpy as np

from edgec.certify.backward import Backward
from edgec.certify.bends_apart import Band, band, chord
from edgec.certify.bounds import Bounds, Passed
from edgec.certify.curves import scalar
from edgec.certify.local import Chain, Linked, apart
from edgec.certify.network import Network
from edgec.certify.pairs import Pair, bend, pairs, values
from edgec.certify.patches import Patch, cut, embedded
from edgec.certify.ranges import U64, Array, Range, met
from edgec.certify.rules import Leaky, dot, lost
from edgec.certify.softmax import operand_below_maximum
from edgec.check.float64 import in_double
from edgec.differentiate.composites import softmax_operand
from edgec.errors import ModelError
from edgec.fuse import Plan
from edgec.ir.functions import FUNCTIONS
from edgec.ir.graph import Graph, Node, intern, placeholder, rewrite
from edgec.schedule.order import Order
from edgec.text import listed, printable

#: Bytes of rows that pass back at a time.
_ROOM = 1 << 27


class Joint(Network):
    """A plan and a reference with the same inputs and outputs, and pairs of their bends found at ``samples``.

    Raises ModelError where inputs or outputs differ, or for operators without bounds.
    """

    def __init__(
        self,
        plan: Plan,
        reference: Graph,
        samples: Sequence[Mapping[str, Array]],
        orders: Mapping[Node, Order] | None = None,
    ) -> None:
        self.is_plain = False
        super().__init__(plan, orders)
        _refuse_others(plan.graph, reference)
        inputs = {str(n.attributes["name"]): n for n in plan.graph.inputs}
        # In double precision: constants that are computed from constants are then as good as those of real numbers.
        doubled = in_double(reference)
        named = {n: placeholder(_unlike(str(n.attributes["name"]), inputs), n.type) for n in doubled.inputs}
        #: The input of the program that an input of the reference is.
        self.twins = {twin: inputs[str(n.attributes["name"])] for n, twin in named.items()}
        other = rewrite(doubled, lambda n, args: named.get(n) or _again(n, args))
        self.reference = dict(other.outputs)
        others = other.nodes()
        computed = next((n for n in others if n in self.rules), None)
        if computed is not None:
            raise ModelError(f"the program computes '{computed.op}' of constants itself, which has no bound here")
        self._make(other, frozenset(others), folds=True)
        self.exactly = frozenset(others) - frozenset(self.order)
        names = {str(t.attributes["name"]): str(n.attributes["name"]) for t, n in self.twins.items()}
        given = [{twin: _wide(s[name]) for twin, name in names.items()} for s in samples]
        self.twin_of = {own: twin for twin, own in self.twins.items()}
        self.inputs |= {names[str(n.attributes["name"])]: self.twins[n] for n in others if n in self.twins}
        self.pairs = self._paired(others, samples, given)
        self.by_reference = {p.reference.node: p for p in self.pairs}
        self.by_program = {p.program.node: p for p in self.pairs}
        self.operands = {p.program.operand for p in self.pairs}
        self.order = _merged(self.order, others, self.pairs)

    def _paired(
        self, others: Sequence[Node], samples: Sequence[Mapping[str, Array]], given: Sequence[Mapping[str, Array]]
    ) -> list[Pair]:
        own = [b for n in self.order if (b := bend(n, self.rules, self.fixed)) is not None]
        theirs = [b for n in others if n in self.exactly and (b := bend(n, self.rules, self.fixed)) is not None]
        found = [values(self.order, s, {n for b in own for n in (b.node, b.operand)}) for s in samples]
        apart = [values(others, s, {n for b in theirs for n in (b.node, b.operand)}) for s in given]
        return pairs(own, theirs, found, apart)

    def _start(self) -> None:
        self.apart: dict[Node, tuple[Array, Array]] = {}

    def differences(self, found: Bounds) -> dict[str, tuple[Array, Array]]:
        """The least and the greatest difference of every element of every output in one box, program less reference."""
        answers = {}
        for name, n in self.outputs.items():
            other = self.reference[name]
            low, high = self._difference(n, other, found)
            own, real = operand_below_maximum(n), softmax_operand(other)
            if own is not None and real is not None and _is_same(own, real) and own[0] in self.stored:
                z, axes, lost = own
                with np.errstate(all="ignore"):
                    ends = self._difference(z, real[0], found)
                    away = np.maximum(np.abs(ends[0]), np.abs(ends[1])).max(axis=axes, keepdims=True)
                    # The derivatives of an element p by all operands are together 2 p (1 - p), at most 1/2.
                    far = np.where(away < np.inf, np.minimum(away / 2 * (1 + 8 * U64), 1.0) + lost, np.inf)
                low, high = np.maximum(low, -far), np.minimum(high, far)
            answers[name] = low, high
        return answers

    def _difference(self, n: Node, other: Node, found: Bounds) -> tuple[Array, Array]:
        """Bounds of what is computed for a node, less a value of the reference."""
        count, shape = int(n.type.elements), n.type.shape
        with np.errstate(all="ignore"):
            order = tuple(range(n.type.rank))
            low, high = self._between(n, other, np.ones(shape), np.zeros(shape), order, found)
            if n not in found.noise:  # what is stored of it has the error of its kernel
                low, high = low - found.exact[n].error, high + found.exact[n].error
        low, high = (np.broadcast_to(x, (1, *shape)).reshape(-1).copy() for x in (low, high))
        step = max(1, _ROOM // (32 * max(1, self._width(n))))
        for start in range(0, count, step):
            if self.is_late:
                break
            part = slice(start, min(count, start + step))
            rows = _units(np.arange(part.start, part.stop), shape)
            least, _ = self.back({n: rows, other: -rows}, found)
            half = least.shape[1] // 2
            low[part] = np.fmax(low[part], least[0, :half])
            high[part] = np.fmin(high[part], -least[0, half:])
        low, high = np.where(np.isnan(low), -np.inf, low), np.where(np.isnan(high), np.inf, high)
        return low.reshape(shape), high.reshape(shape)

    def input_of(self, n: Node) -> Node:
        return self.twins.get(n, n)

    def _keep(self, n: Node, own: Range, found: Bounds) -> None:
        if n in self.exactly:
            own = replace(own, error=0 * own.error)  # NaN where the function leaves its numbers
        super()._keep(n, own, found)

    def _before(self, n: Node, found: Bounds, tighten: bool) -> None:
        p = self.by_program.get(n)
        if p is not None:
            with np.errstate(all="ignore"):
                self.apart[n] = self._limits(p, found)
                if tighten and not self.is_late:
                    self._keep(p.program.operand, self._beside(p, found), found)

    def _limits(self, p: Pair, found: Bounds) -> tuple[Array, Array]:
        """The least and the greatest difference of the operands of a pair, without rows."""
        return self._between(p.program.operand, p.reference.operand, p.scale, p.shift, p.order, found)

    def _between(
        self, m: Node, v: Node, scale: Array, shift: Array, order: tuple[int, ...], found: Bounds
    ) -> tuple[Array, Array]:
        """Bounds of scale * m + shift - v: what their ranges leave, and what the bends before them leave (`local`)."""
        own, real = found.seen[m], _ordered(found.seen[v], order)
        low, high = scale * own.low + shift - real.high, scale * own.high + shift - real.low
        slack = 8 * U64 * (scale * own.magnitude + np.abs(shift) + real.magnitude)
        low, high = low - slack, high + slack
        if found.domain.boxes > 1:
            return low, high
        place = {n: k for k, n in enumerate(self.order)}
        program = Chain(m, self.by_program, self.rules, found.seen, found.noise, place)
        reference = Chain(v, self.by_reference, self.rules, found.seen, {}, place)
        linked = [link for n in program.leaves if (link := self._link(n, found)) and link.reference in reference.leaves]
        nearer = apart(program, reference, linked, found.seen, scale, shift, order, lambda: self.is_late)
        return (low, high) if nearer is None else (np.fmax(low, nearer[0]), np.fmin(high, nearer[1]))

    def _link(self, n: Node, found: Bounds) -> Linked | None:
        """A value of the program that one of the reference is near to, with the bounds of their difference."""
        twin = self.twin_of.get(n)
        if twin is not None:
            one, none = np.ones(n.type.shape), np.zeros(n.type.shape)
            return Linked(n, twin, one, none, tuple(range(n.type.rank)), none[None], none[None])
        p = self.by_program.get(n)
        if p is None or n not in self.apart:
            return None
        lines = self._band(p, found)
        own, real = found.exact[n], _ordered(found.seen[p.reference.node], p.order)
        slack = 8 * U64 * (p.scale * own.magnitude + np.abs(p.shift) + real.magnitude)
        low = np.fmax(lines.low, p.scale * own.low + p.shift - real.high)
        high = np.fmin(lines.high, p.scale * own.high + p.shift - real.low)
        slack = slack + p.scale * found.noise[n] if n in found.noise else slack
        return Linked(n, p.reference.node, p.scale, p.shift, p.order, low - slack, high + slack)

    def _tightened(self, n: Node, own: Range, found: Bounds) -> Range:
        return own if n in self.operands else super()._tightened(n, own, found)

    def _beside(self, p: Pair, found: Bounds) -> Range:
        """The range of the program's operand: that of the reference's and the difference, for which rows are passed."""
        m, own = p.program.operand, found.exact[p.program.operand]
        v = _ordered(found.seen[p.reference.operand], p.order)
        low, high = self.apart[p.program.node]
        limit = p.scale * p.program.limit + p.shift
        least, greatest = np.minimum(v.low, v.low + low), np.maximum(v.high, v.high + high)
        open = (least < np.maximum(limit, p.reference.limit)) & (greatest > np.minimum(limit, p.reference.limit))
        if p.program.kind not in ("max", "min", "leaky"):
            open[...] = True
        chosen = np.flatnonzero(open.any(axis=0).reshape(-1))
        boxes = own.low.shape[0]
        low, high = (np.broadcast_to(x, (boxes, *m.type.shape)).reshape(boxes, -1).copy() for x in (low, high))
        back = np.argsort(p.order)
        step = max(1, _ROOM // (32 * boxes * self._width(m)))
        for start in range(0, chosen.size, step):
            if self.is_late:
                break
            part = chosen[start : start + step]
            rows = np.broadcast_to(_units(part, m.type.shape), (boxes, 2 * part.size, *m.type.shape))
            turned = np.transpose(rows, (0, 1, *(2 + d for d in back)))
            value, _ = self.back({m: p.scale * rows, p.reference.operand: -turned}, found, noisy=m in self.stored)
            at = p.shift.reshape(-1)[part]
            slack = 4 * U64 * np.abs(at)
            low[:, part] = np.fmax(low[:, part], value[:, : part.size] + at - slack)
            high[:, part] = np.fmin(high[:, part], -value[:, part.size :] + at + slack)
        low, high = low.reshape(own.low.shape), high.reshape(own.high.shape)
        self.apart[p.program.node] = low, high
        lost = own.error if m in self.stored else 0.0
        slack = 8 * U64 * (v.magnitude + np.abs(low) + np.abs(high) + np.abs(p.shift)) / p.scale
        low, high = (v.low + low - p.shift) / p.scale, (v.high + high - p.shift) / p.scale
        return met(own, low - lost - slack, high + lost + slack)

    def _alive(self, n: Node, found: Bounds) -> Array | None:
        return None if n in self.by_reference or n in self.by_program else super()._alive(n, found)

    def _passed(self, n: Node, here: Patch, run: Backward) -> Passed:
        return self._of_reference(n, here, run) if n in self.exactly else super()._passed(n, here, run)

    def _of_reference(self, n: Node, here: Patch, run: Backward) -> Passed:
        """Nothing is said by a row of what may leave its numbers; of a pair, see `_across`."""
        p = self.by_reference.get(n)
        is_paired = p is not None and p.program.node in run.waiting
        passed = self._across(p, here, run) if p and is_paired else super()._passed(n, here, run)
        unknown = np.isnan(run.found.exact[n].low)
        if not unknown.any():
            return passed
        touched = ((here.rows != 0) & run.part(unknown, here)[:, None]).reshape(*here.rows.shape[:2], -1).any(axis=2)
        return replace(passed, constant=np.where(touched, np.nan, passed.constant))

    def _across(self, p: Pair, given: Patch, run: Backward) -> Passed:
        """A row of the reference's side of a pair becomes one of the program's side, and of the operands' difference.

        Where the program has no row nothing would cancel, and the reference has planes of its own.
        """
        q, m, v = p.program.node, p.program.operand, p.reference.operand
        whole, found = Patch(embedded(given, v.type.shape)), run.found
        here = np.transpose(whole.rows, (0, 1, *(2 + d for d in p.order)))
        lines = self._band(p, found)
        top, top_0 = run.part(lines.top, whole), run.part(lines.top_0, whole)
        bottom, bottom_0 = run.part(lines.bottom, whole), run.part(lines.bottom_0, whole)
        up, down = np.maximum(here, 0), np.minimum(here, 0)
        difference = -(up * top[:, None] + down * bottom[:, None])
        constant = -dot(up, top_0) - dot(down, bottom_0) + dot(here + difference, p.shift[None])
        sizes = p.scale * (found.seen[q].magnitude + found.seen[m].magnitude) + 2 * np.abs(p.shift)
        sizes = sizes + np.maximum(np.abs(lines.low), np.abs(lines.high))
        sizes = sizes + np.abs(lines.top_0) + np.abs(lines.bottom_0) + _ordered(found.seen[v], p.order).magnitude
        back = np.argsort(p.order)
        turned = np.transpose(-difference, (0, 1, *(2 + d for d in back)))
        sizes = np.transpose(lost(sizes, prod(q.type.shape)), (0, *(1 + d for d in back)))
        difference, here = p.scale * difference, p.scale * here
        sizes = cut(sizes, given.window, run.boxes)
        return Passed([(m, Patch(difference)), (v, Patch(turned))], constant, sizes, [(q, Patch(here))])

    def _band(self, p: Pair, found: Bounds) -> Band:
        """The difference of a pair as a function of that of its operands."""
        (low, high), (least, most, extra) = self.apart[p.program.node], self._slopes(p, found)
        # Where the slope of d in e is between least and most.
        top, top_0 = chord(low, high, least, most)
        bottom, bottom_0 = chord(-high, -low, least, most)
        size = np.maximum(np.abs(low), np.abs(high)) * np.maximum(np.abs(least), np.abs(most))
        ends = [slope * end for slope in (least, most) for end in (low, high)]
        found_low, found_high = np.minimum.reduce(ends), np.maximum.reduce(ends)
        top_0, bottom_0 = top_0 + 8 * U64 * size, -bottom_0 - 8 * U64 * size
        if p.program.kind in ("max", "min"):
            v, limit = _ordered(found.seen[p.reference.operand], p.order), float(p.reference.limit.reshape(()))
            slack = 2 * U64 * (v.magnitude + abs(limit))
            near = band(p.program.kind, low, high, v.low - limit - slack, v.high - limit + slack)
            is_open = (least != most) & ~np.isnan(near.top_0 + near.bottom_0)
            top, top_0 = np.where(is_open, near.top, top), np.where(is_open, near.top_0, top_0)
            bottom, bottom_0 = np.where(is_open, near.bottom, bottom), np.where(is_open, near.bottom_0, bottom_0)
            found_low, found_high = np.fmax(found_low, near.low), np.fmin(found_high, near.high)
        return Band(bottom, bottom_0 + extra[0], top, top_0 + extra[1], found_low + extra[0], found_high + extra[1])

    def _slopes(self, p: Pair, found: Bounds) -> tuple[Array, Array, tuple[Array, Array]]:
        """The least and the greatest slope of the difference of a pair, and what is added as their limits differ."""
        v = _ordered(found.seen[p.reference.operand], p.order)
        low, high = self.apart[p.program.node]
        m = found.seen[p.program.operand]
        least = np.minimum(v.low, p.scale * m.low + p.shift)
        most = np.maximum(v.high, p.scale * m.high + p.shift)
        slack = 8 * U64 * (v.magnitude + p.scale * m.magnitude + np.abs(p.shift))
        least, most, none = least - slack, most + slack, 0 * (low + high)
        kind = p.program.kind
        if kind == "leaky":
            rules = [self.rules[b.node] for b in (p.program, p.reference)]
            own_slopes, other_slopes = (r.slopes for r in rules if isinstance(r, Leaky))
            axes, shape = (0, *(1 + d for d in p.order)), (1, *p.reference.node.type.shape)
            turned = [np.transpose(np.broadcast_to(s, shape), axes) for s in other_slopes]
            sides = [np.stack([s + none for s in both]) for both in (own_slopes, turned)]
            taken = [np.where(least >= 0, s[0], np.where(most <= 0, s[1], np.nan)) for s in sides]
            own = [np.where(np.isnan(t), s.min(0), t) for t, s in zip(taken, sides)]
            top = [np.where(np.isnan(t), s.max(0), t) for t, s in zip(taken, sides)]
            far = np.abs(sides[0] - sides[1]).max(0) * np.maximum(np.abs(least), np.abs(most))
            return own[1], top[1], (-far, far)
        if kind in ("max", "min"):
            limit, other = p.scale * float(p.program.limit.reshape(())) + p.shift, float(p.reference.limit.reshape(()))
            above, below = (1.0, 0.0) if kind == "max" else (0.0, 1.0)
            is_above, is_below = least >= other, most <= other
            low_slope = np.where(is_above, above, np.where(is_below, below, 0.0)) + none
            high_slope = np.where(is_above, above, np.where(is_below, below, 1.0)) + none
            touched = least < np.maximum(limit, other) if kind == "max" else most > np.minimum(limit, other)
            gap = limit - other
            error = 8 * U64 * (np.abs(limit) + abs(other) + np.abs(p.shift))
            extra = touched * (np.minimum(gap, 0) - error), touched * (np.maximum(gap, 0) + error)
            return low_slope, high_slope, extra
        function, row = scalar(kind), FUNCTIONS[kind]
        assert function is not None and row.curve is not None
        steepest = function.steepest(least, most) + none
        # Monotone where there are no extremes: of the values at two places the order says which way.
        with np.errstate(all="ignore"):
            rising = not row.curve.extremes and bool(function.value(np.array(1.0)) < function.value(np.array(2.0)))
        return (0 * steepest if rising else -steepest), steepest, (none, none)


def _is_same(own: tuple[Node, tuple[int, ...], float], real: tuple[Node, tuple[int, ...]]) -> bool:
    """Have two softmaxes operands of one shape, and the same dimensions?"""
    return own[0].type.shape == real[0].type.shape and own[1] == tuple(real[1])


def _units(chosen: Array, shape: Sequence[int]) -> Array:
    """Rows [1, 2 * chosen, elements...] of single elements, and of the same negated."""
    rows = np.zeros((1, 2 * chosen.size, prod(shape)))
    rows[0, np.arange(chosen.size), chosen] = 1
    rows[0, chosen.size + np.arange(chosen.size), chosen] = -1
    return rows.reshape(1, 2 * chosen.size, *shape)


def _ordered(r: Range, order: Sequence[int]) -> Range:
    """A range with its dimensions in another order."""
    axes = (0, *(1 + d for d in order))
    return Range(np.transpose(r.low, axes), np.transpose(r.high, axes), np.transpose(r.error, axes))


def _again(n: Node, args: tuple[Node, ...]) -> Node:
    return n if n.is_const or n.op == "input" else intern(n.op, args, n.attributes, n.type)


def _wide(x: Array) -> Array:
    return x.astype(np.float64) if x.dtype.kind in "fV" else x


def _unlike(name: str, names: Collection[str]) -> str:
    """A name of the reference's own."""
    made = f"{name} of the reference"
    while made in names:
        made += "'"
    return made


def _merged(own: Sequence[Node], others: Sequence[Node], pairs: Sequence[Pair]) -> list[Node]:
    """Both lists as one: before the program's side of a pair stands all that the reference's side needs, behind it that
    side itself."""
    order: list[Node] = []
    done: set[Node] = set()

    def take(nodes: Sequence[Node], end: Node | None) -> None:
        for n in nodes:
            if n is end:
                break
            if n not in done:
                done.add(n)
                order.append(n)

    for p in pairs:
        take(others, p.reference.node)
        take(own, p.program.node)
        take([p.program.node, p.reference.node], None)
    take(others, None)
    take(own, None)
    return order


def _refuse_others(own: Graph, reference: Graph) -> None:
    """Raises ModelError where two networks have not the same inputs and outputs."""
    for what, mine, theirs in (
        ("inputs", {str(n.attributes["name"]): n.type for n in own.inputs},
         {str(n.attributes["name"]): n.type for n in reference.inputs}),
        ("outputs", {name: n.type for name, n in own.outputs}, {name: n.type for name, n in reference.outputs}),
    ):  # fmt: skip
        if mine != theirs:
            odd = sorted(k for k in {*mine, *theirs} if mine.get(k) != theirs.get(k))
            raise ModelError(f"the program and the network have other {what}: {listed(map(printable, odd[:3]))}",
                             hint="bounds of their difference need the same on both sides")  # fmt: skip
    if any(n.op == "input" for _, n in reference.outputs):
        raise ModelError("an output of the network is one of its inputs")
