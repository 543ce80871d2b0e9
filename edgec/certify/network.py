"""Bounds of a planned network: ranges forward, linear bounds back.

What a kernel stores is the exact function of what it reads from memory, with an error that its rounding bounds. So
bounds are those of exact functions between stored values, each of which adds its error once; within a kernel errors
are carried along (`Range.error`), as what it computes there may differ from one reader to the next.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from math import inf, prod

import numpy as np

from edgec.certify.backward import Backward
from edgec.certify.bounds import Bounds, Known, Passed, Shares
from edgec.certify.choose import is_known, is_whole, read_by_sums, rule
from edgec.certify.descent import Descent, descent
from edgec.certify.domain import Domain
from edgec.certify.elementwise import RANGES
from edgec.certify.patches import Patch, Picked, Window, cut, embedded
from edgec.certify.ranges import Array, Range, exact, met, within
from edgec.certify.rules import Elementwise, Leaky, Rule
from edgec.certify.units import units
from edgec.differentiate.composites import softmax_operand
from edgec.errors import ModelError
from edgec.fuse import Plan
from edgec.ir.evaluate import evaluate_node
from edgec.ir.graph import Graph, Node
from edgec.schedule.order import Order
from edgec.text import listed

#: Types that the code computes with as its formulas say.
_TYPES = frozenset({"f32", "f64", "bool", "i8", "u8", "i16", "u16", "i32", "u32", "i64"})
#: Movements that put every element into one place at most.
_ONCE = frozenset({"reshape", "transpose", "slice", "pad", "concat"})
#: The most numbers of rows for which ranges are tightened.
_MOST = 1 << 33
#: Multiply-adds of rows in compiled code until the time is looked at.
_WORK = 1 << 33
#: The part of the elements of a value up to which those that matter are picked.
_PICKED = 0.8


class Network:
    """A plan, with a rule for every node; ``orders`` are those of the sums whose order is known.

    Raises ModelError for what has no bounds, by name.
    """

    #: Do rows pass each node by its rule alone?
    is_plain = True

    def __init__(self, plan: Plan, orders: Mapping[Node, Order] | None = None) -> None:
        self.orders = orders or {}
        graph = plan.graph
        self.graph = graph
        self.order = graph.nodes()
        self.inputs = {str(n.attributes["name"]): n for n in graph.inputs if n in set(self.order)}
        self.outputs = dict(graph.outputs)
        #: The time by `time.perf_counter` after which ranges stay intervals, which hold as well.
        self.until = inf
        #: The operands of softmaxes that outputs end with, by a name that no output has.
        self.before: dict[str, Node] = {}
        for name, n in graph.outputs:
            found = softmax_operand(n)
            if found is not None and found[0].type.shape == n.type.shape:
                self.before[f"before {name}"] = found[0]
        self.stored = stored_values(plan)
        self.fixed: dict[Node, Array] = {}
        #: The same as ranges, once they were needed.
        self.as_ranges: dict[Node, Range] = {}
        #: Are all values of a node whole numbers?
        self.whole: dict[Node, bool] = {}
        self.rules: dict[Node, Rule] = {}
        self.ways: dict[Node, Descent | None] = {}
        self.sizes: dict[Node, int] = {}
        refuse_kinds(plan)
        self._make(graph, _settling(self.order, graph.users(), self.stored))
        for n in self.outputs.values():
            self._way(n)  # the code is compiled before time is counted

    def _make(self, graph: Graph, settles: Collection[Node], folds: bool = False) -> None:
        """Rules of the nodes of a graph; ``settles`` as `Place` says, ``folds``: what no input changes is evaluated."""
        varies: set[Node] = set()
        whole = self.whole
        refused: dict[str, list[str]] = {}
        added = read_by_sums(graph)
        for n in graph.nodes():
            if n.is_const:
                self.fixed[n] = n.value
            elif (n.type.dtype in _TYPES and is_known(n, self.fixed, added)) or (
                folds and n.op != "input" and all(a in self.fixed for a in n.args)
            ):
                self.fixed[n] = evaluate_node(n, [self.fixed[a] for a in n.args])
            elif n.op == "input":
                varies.add(n)
            else:
                takes = all(whole[a] for a in n.args)
                made = None if n.type.dtype not in _TYPES else self._rule(n, varies, n in settles, takes)
                if made is None:
                    name = n.op if n.type.dtype in _TYPES else f"{n.op} of {n.type.dtype}"
                    combine = n.attributes.get("combine")
                    refused.setdefault(f"{name} by {combine}" if combine else name, []).extend(graph.names(n)[:1])
                else:
                    self.rules[n] = made
                varies.add(n)
            whole[n] = is_whole(n, whole, self.fixed)
        if refused:
            named = [f"{op} ({listed(names[:3])})" if names else op for op, names in sorted(refused.items())]
            hint = "docs/guide/certify.md lists the operators that have bounds"
            raise ModelError(f"there are no bounds for {listed(named)}", hint=hint)

    def _rule(self, n: Node, varies: Collection[Node], settles: bool, takes: bool) -> Rule | None:
        return rule(n, varies, self.fixed, settles, takes, self.orders.get(n))

    @property
    def is_late(self) -> bool:
        return time.perf_counter() > self.until

    def bounds(
        self, domain: Domain, known: Known | None = None, tighten: bool = True, taken: Known | None = None
    ) -> Bounds:
        """The ranges of all values; with ``tighten``, those that planes are made of by linear bounds too, in time.

        Nodes are within what is ``known``, which bounds agree with. Of what is ``taken`` they may be on the other side:
        boxes of which no input is left are ``empty``.
        """
        self._start()
        found, known = Bounds(domain), known or {}
        found.empty = np.zeros(domain.boxes, bool)
        wanted = self._wanted if tighten else frozenset()
        for n in self.order:
            if n in self.fixed:
                if n not in self.as_ranges:
                    self.as_ranges[n] = exact(self.fixed[n])
                found.seen[n] = found.exact[n] = self.as_ranges[n]
                continue
            if n.op == "input":
                low, high = domain.of(self.input_of(n))
                found.seen[n] = found.exact[n] = Range(low, high, np.zeros((1,) * low.ndim))
                continue
            self._before(n, found, tighten)
            args = [found.seen[a] for a in n.args]
            with np.errstate(all="ignore"):
                own = self.rules[n].range(args)
                if self.whole[n]:
                    own = _within_whole(own)
                found.exact[n] = own
                if n in known:
                    own = met(own, *known[n])
                if n in wanted and not self.is_late:
                    own = self._tightened(n, own, found)
                if taken is not None and n in taken:
                    own, is_empty = within(own, *taken[n])
                    found.empty |= is_empty
            self._keep(n, own, found)
        return found

    def _start(self) -> None:
        """Forgets what was found of boxes before."""

    def _before(self, n: Node, found: Bounds, tighten: bool) -> None:
        """Facts about the operands of a node that are found before its range."""

    def _keep(self, n: Node, own: Range, found: Bounds) -> None:
        found.exact[n] = own
        if n in self.stored:
            found.noise[n] = own.error
            found.seen[n] = own.computed
        else:
            found.seen[n] = own

    @cached_property
    def _wanted(self) -> frozenset[Node]:
        """The nodes whose ranges planes are made of, where intervals are not as tight already."""
        operands = {n.args[k] for n, r in self.rules.items() if not r.is_linear for k in r.operands}
        return frozenset(n for n in operands if n in self.rules and not self._is_chain(n))

    def _is_chain(self, n: Node) -> bool:
        """Is it made of an input by linear operators with one operand each? Then its range is as tight as rows are."""
        while n.op != "input":
            varying = [a for a in n.args if a not in self.fixed]
            if not self.rules[n].is_linear or len(varying) != 1:
                return False
            n = varying[0]
        return True

    def _tightened(self, n: Node, own: Range, found: Bounds) -> Range:
        """The range with linear bounds of those elements that a plane is made of and does not know enough about."""
        loose = np.zeros(own.low.shape, bool)
        seen = {**found.seen, n: own}
        for user, r in self.rules.items():
            for k in r.operands:
                if user.args[k] is n and not r.is_linear and all(a in seen for a in user.args):
                    loose |= np.broadcast_to(r.loose([seen[a] for a in user.args], k), loose.shape)
                elif user.args[k] is n and not r.is_linear:
                    loose[...] = True
        boxes = own.low.shape[0]
        open = loose.reshape(boxes, -1)
        chosen = np.flatnonzero(open.any(axis=0))
        if not chosen.size or chosen.size * self._size(n) * boxes > _MOST:
            return own
        low, high = (x.reshape(boxes, -1).copy() for x in (own.low, own.high))
        way = self._way(n) if found.domain.radius is None else None
        if way is not None:
            for place in _pieces(open, max(1, _WORK // way.work)):
                if self.is_late:
                    break
                low[place], high[place] = way.ends(found, *place)
            return met(own, low.reshape(own.low.shape), high.reshape(own.high.shape))
        for unit in units(self, n, open):
            if self.is_late:
                break
            run = Backward(self, found, {n: unit.patch}, mirrored=True, boxes=unit.boxes)
            value = run.run(noisy=False, watched=None, pulls=None)
            half, there = value.shape[1] // 2, unit.is_row
            place = np.broadcast_to(unit.boxes[:, None], there.shape)[there], unit.elements[there]
            low[place], high[place] = value[:, :half][there], -value[:, half:][there]
        return met(own, low.reshape(own.low.shape), high.reshape(own.high.shape))

    def _way(self, n: Node) -> Descent | None:
        """The way that rows of a node pass back in compiled code, if there is one."""
        if n not in self.ways:
            self.ways[n] = descent(n, self.rules, self.fixed, len(self.order)) if self.is_plain else None
        return self.ways[n]

    def _size(self, n: Node) -> int:
        if n not in self.sizes:
            self.sizes[n] = sum(prod(a.type.shape) for a in self._below(n))
        return self.sizes[n]

    def _width(self, n: Node) -> int:
        return max((prod(a.type.shape) for a in self._below(n)), default=1)

    def _below(self, n: Node) -> Iterable[Node]:
        seen, stack = {n}, [n]
        while stack:
            for a in stack.pop().args:
                if a not in seen and a not in self.fixed:
                    seen.add(a)
                    stack.append(a)
        return seen

    def back(
        self,
        rows: Mapping[Node, Array],
        found: Bounds,
        shares: Shares | None = None,
        noisy: bool = True,
        watched: dict[Node, Array] | None = None,
        pulls: Mapping[Node, tuple[Array, Array]] | None = None,
        boxes: Array | None = None,
    ) -> tuple[Array, dict[Node, Array]]:
        """Lower bounds [boxes, rows] of the sum of rows times the values of nodes, and what they are of the inputs.

        ``noisy``: the values are what is computed, not those of the exact functions of what is stored before them.
        The rows of every node that the bounds pass are left in ``watched``. ``pulls`` are multiples p [boxes,
        elements...] and limits c of nodes for which p * (value - c) is known not to be above zero in a box: to add it
        makes a bound no greater than it may be (Lagrange's multipliers; Wang et al., "Beta-CROWN", 2021). Rows are
        of all boxes, or of ``boxes``, which are sorted.
        """
        if len(rows) == 1 and noisy and not shares and watched is None and pulls is None:
            ((n, row),) = rows.items()
            way = self._way(n)
            if way is not None:
                least, reached = way.back(row, found, boxes)
                return least, {way.input: reached}
        run = Backward(self, found, {n: Patch(r) for n, r in rows.items()}, shares, boxes=boxes)
        least = run.run(noisy, watched, pulls)
        return least, {n: p.rows for n, p in run.reached.items()}

    def is_odd(self, n: Node) -> bool:
        """Are the rows that negated rows of a node become those of the rows, negated?"""
        return n in self.fixed or n.op == "input" or self.rules[n].is_odd

    def input_of(self, n: Node) -> Node:
        """The input of the domain that an input is."""
        return n

    def _passed(self, n: Node, here: Patch, run: Backward) -> Passed:
        """Rows of other nodes instead of those of a node."""
        rule, found = self.rules[n], run.found
        share = run.shares.get(n)
        facts = found.facts.get(n) if share is None else None
        if facts is None:
            facts = rule.facts([found.seen[a] for a in n.args], found.exact[n], share)
        if share is None:
            found.facts[n] = facts
        parts = rule.windows(here.window)
        whole = here if parts is not None else Patch(embedded(here, n.type.shape))
        keep = self._alive(n.args[rule.operands[0]], found) if rule.picks else None
        made = rule.back(whole.rows, facts, lambda x: run.part(x, whole), whole.window, keep)
        sizes = made.sizes
        if whole is not here and here.window is not None:
            sizes = cut(sizes, here.window, None)
        picked = None if keep is None else Picked(keep)
        seen = [(n.args[k], Patch(rows, parts[k] if parts and parts[k] else picked)) for k, rows in made.parts.items()]
        return Passed([(a, self._trimmed(a, p)) for a, p in seen], made.constant, sizes)

    def _alive(self, n: Node, found: Bounds) -> Array | None:
        """The elements of the last dimension of a node that rows are about at all; None where most of them are.

        A ReLU that is shut passes nothing on, and stores a zero without an error.
        """
        if n not in found.alive:
            rule, count, facts = self.rules.get(n), n.type.shape[-1], None
            if isinstance(rule, Elementwise) and not rule.is_linear:
                facts = rule.facts([found.seen[a] for a in n.args], found.exact[n])
            alive = np.arange(count)
            if facts is not None:
                noise = found.noise.get(n, found.exact[n].error)
                arrays = (noise, facts.sizes, facts.offset_low, facts.offset_high)
                slopes = (x for _, low, high, _ in facts.slopes for x in (low, high))
                mask = np.zeros(count, bool)
                for x in (*arrays, *slopes):
                    mask |= (x != 0).reshape(-1, x.shape[-1] if x.ndim else 1).any(axis=0)
                alive = np.flatnonzero(mask)
            found.alive[n] = alive if alive.size < _PICKED * count else None
        return found.alive[n]

    def _trimmed(self, n: Node, p: Patch) -> Patch:
        """Rows of all of a value, where a part of it would be no smaller."""
        if not isinstance(p.window, Window) or prod(p.window.extents) < prod(n.type.shape):
            return p
        return Patch(embedded(p, n.type.shape))

    def output_rows(self, weights: Mapping[str, Array]) -> dict[Node, Array]:
        """Rows of outputs [boxes, rows, elements...] by their names, as rows of nodes."""
        found: dict[Node, Array] = {}
        for name, row in weights.items():
            n = self.outputs[name] if name in self.outputs else self.before[name]
            found[n] = found[n] + row if n in found else row
        return found

    def choices(self, found: Bounds) -> dict[Node, Array]:
        """For every maximum, minimum or leaky choice, the elements whose side is open in each box."""
        masks = {}
        for n, r in self.rules.items():
            if isinstance(r, Leaky) or n.op in ("max", "min"):
                args = [found.seen[a] for a in n.args]
                k = r.operands[0]
                mask = np.broadcast_to(r.loose(args, k), args[k].low.shape)
                if mask.any():
                    masks[n] = mask
        return masks


def _pieces(open: Array, most: int) -> Iterator[tuple[Array, Array]]:
    """The boxes and the elements that are open, so many at a time."""
    box, element = np.nonzero(open)
    for k in range(0, len(box), most):
        yield box[k : k + most], element[k : k + most]


def _within_whole(r: Range) -> Range:
    """The range of whole numbers, without what the rounding of the analysis added to it."""
    exactly = r.error == 0
    return replace(r, low=np.where(exactly, np.ceil(r.low), r.low), high=np.where(exactly, np.floor(r.high), r.high))


def stored_values(plan: Plan) -> set[Node]:
    """Nodes whose values every reader takes from memory: none is computed again within a block of its readers."""
    outputs = {b.output for b in plan.blocks}
    within = {n for b in plan.blocks for n in b.nodes if n is not b.output}
    return outputs - within


def _settling(order: Iterable[Node], users: Mapping[Node, list[Node]], stored: set[Node]) -> set[Node]:
    """Nodes each of whose elements goes into one stored element alone, by element-wise operators and movements."""
    found: set[Node] = set()
    for n in reversed(list(order)):
        readers = users.get(n, [])
        if n in stored:
            found.add(n)
        elif len(readers) == 1 and readers[0] in found and list(readers[0].args).count(n) == 1:
            (reader,) = readers
            if reader.op in _ONCE or (reader.op in RANGES and reader.type.shape == n.type.shape):
                found.add(n)
    return found


def refuse_kinds(plan: Plan) -> None:
    """Raises ModelError for networks whose results are not those of one graph of known sizes."""
    graph = plan.graph
    if graph.sizes or any(n.sizes for n in graph.nodes()):
        raise ModelError("sizes that are known only at run time have no bounds", hint="give them with --shape")
    if graph.demands:
        raise ModelError(f"a network that may refuse its inputs has no bounds: {graph.demands[0][0]}")
    if plan.guards:
        raise ModelError("a network with branches has no bounds")
