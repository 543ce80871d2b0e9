"""The graph that computes bounds: every value of a planned network becomes a pair of values.

What the graph computes in floats encloses what the network computes in floats, and what it would in real numbers, for
all inputs at most ``eps`` away from given ones.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from math import inf

import numpy as np

from edgec.certify.choose import MOVEMENTS, is_known, leaky_choice, read_by_sums, terms_of
from edgec.certify.network import stored_values
from edgec.certify.pair import Pair, around
from edgec.certify.pair_rules import RULES, Standing, chosen, leaky, ulp_of
from edgec.certify.pair_softmax import softmax
from edgec.certify.pair_sums import product_of_two, product_with_weights, total
from edgec.differentiate.composites import softmax_operand
from edgec.errors import ModelError
from edgec.frontend.values import Value, constant, emit, select
from edgec.fuse import Plan
from edgec.ir.evaluate import evaluate_node
from edgec.ir.graph import Graph, Node, placeholder
from edgec.ir.types import Type
from edgec.text import listed, printable

#: Operators whose second operand says where to read.
_GATHERS = frozenset({"gather", "gather_elements", "gather_nd"})
_ADDITIONS = frozenset({"add", "sub", "neg"})
#: Operators beside those of `is_known` that have one result for constants.
_EXACT = frozenset({"eq", "ne", "lt", "le", "gt", "ge", "and", "or", "not", "dequantize"})
#: Terms that an addition counts as: bounds are at most 2.2 times the magnitudes of all terms, and rounded twice.
_ROUNDED = 5


def enclosed(plan: Plan, ulps: Mapping[str, float] = {}) -> Graph:
    """The graph of the bounds of a planned network, whose last input is the distance, [1].

    Its outputs are "lower NAME" and "upper NAME" for every output; ``ulps`` are errors of functions that are not those
    of `edgec.ir.functions`. Raises ModelError for operators without a rule, by
    name.
    """
    graph = plan.graph
    for n in graph.inputs:
        if n.type.dtype != "f32":
            raise ModelError(
                f"input '{printable(str(n.attributes['name']))}' is {n.type.dtype}",
                hint="bounds are written for networks whose inputs are f32",
            )
    taken = {str(n.attributes["name"]) for n in graph.inputs}
    eps = "eps"
    while eps in taken:
        eps += "_"
    distance = placeholder(eps, Type("f32", (1,)))
    made = _Pairs(graph, stored_values(plan), Value(distance), ulps)
    outputs: list[tuple[str, Node]] = []
    for name, n in graph.outputs:
        pair = made.of(n)
        inside = pair.low <= pair.high  # false for what is no number
        low = select(inside, pair.low, constant(-inf, "f32")).broadcast(*n.type.shape)
        high = select(inside, pair.high, constant(inf, "f32")).broadcast(*n.type.shape)
        outputs += [(f"lower {name}", low.node), (f"upper {name}", high.node)]
    return Graph((*graph.inputs, distance), tuple(outputs), graph.name, made.origin, graph.metadata)


class _Pairs:
    """Pairs of the values of a graph. Raises ModelError for all operators without a rule together."""

    def __init__(self, graph: Graph, stored: Collection[Node], distance: Value, ulps: Mapping[str, float]) -> None:
        self.ulps = ulps
        self.graph, self.distance = graph, distance
        self.fixed = fixed_values(graph)
        self.terms = terms_in_all(graph, self.fixed, stored)
        self.stored = stored
        self.origin: dict[Node, tuple[str, ...]] = {}
        self.found: dict[Node, Pair] = {}
        refused: dict[str, list[str]] = {}
        wanted = _wanted(graph, self.fixed)
        for n in graph.nodes():
            if n not in wanted:
                continue
            pair = self._made(n)
            if pair is None:
                combine = n.attributes.get("combine")
                kind = n.op if n.type.dtype == "f32" else f"{n.op} of {n.type.dtype}"
                refused.setdefault(f"{kind} by {combine}" if combine else kind, []).extend(graph.names(n)[:1])
                pair = Pair(Value(n), Value(n))
            self.found[n] = pair
        if refused:
            named = [f"{op} ({listed(names[:3])})" if names else op for op, names in sorted(refused.items())]
            hint = "docs/guide/certify.md lists the operators that have them; build without --bounds"
            raise ModelError(f"no code for bounds of {listed(named)}", hint=hint)

    def of(self, n: Node) -> Pair:
        return self.found[n]

    def _made(self, n: Node) -> Pair | None:
        if n.op == "input":
            return around(Value(n), self.distance)
        if n.type.dtype != "f32":
            return None
        if n in self.fixed:
            return _known(Value(n) if n.is_const else constant(self.fixed[n], "f32"))
        operand = _of_softmax(n)
        if operand is not None:
            return softmax(self.found[operand[0]], operand[1], ulp_of("exp", self.ulps))
        if n.op == "select":
            return self._choice(n)
        if n.op in RULES:
            return RULES[n.op](self._standing(n), [self.found[a] for a in n.args])
        if n.op in MOVEMENTS:
            return self._moved(n)
        combine = n.attributes.get("combine")
        if n.op in ("reduce", "pool") and combine in ("max", "min", "add"):
            return self._reduced(n, str(combine))
        if n.op in ("matmul", "conv"):
            return self._product(n)
        return None

    def _standing(self, n: Node) -> Standing:
        terms = self.terms.get(n, 0)
        leaves = tuple(k for k, a in enumerate(n.args) if a not in self.terms or a in self.stored)
        return Standing(n, terms, leaves, ulp_of(n.op, self.ulps))

    def _choice(self, n: Node) -> Pair:
        condition, *sides = n.args
        sloped = leaky_choice(n, self.fixed)
        if sloped is not None:
            return leaky(n, self.found[n.args[sloped[0]]], sloped[1])
        known = constant(self.fixed[condition]) if condition in self.fixed else None
        found = chosen(known, *(self.found[a] for a in sides))
        return Pair(*(v.broadcast(*n.type.shape) for v in (found.low, found.high)))

    def _moved(self, n: Node) -> Pair | None:
        if n.op in _GATHERS and n.args[1] not in self.fixed:
            return None
        pairs = [self.found[a] if a in self.found else _known(constant(self.fixed[a])) for a in n.args]
        return Pair(*(Value(_again(n, ends)) for ends in ([p.low for p in pairs], [p.high for p in pairs])))

    def _reduced(self, n: Node, combine: str) -> Pair:
        x = self.found[n.args[0]]

        def apply(v: Value) -> Value:
            return Value(_again(n, [v.broadcast(*n.args[0].type.shape)]))

        if combine != "add":
            return Pair(apply(x.low), apply(x.high))
        return total(x, self.terms[n], apply)

    def _product(self, n: Node) -> Pair | None:
        own, terms = terms_of(n), self.terms[n]
        varying = [k for k, a in enumerate(n.args) if a not in self.fixed]
        if len(varying) == 1:
            (k,) = varying
            if n.op == "conv" and k:
                return None
            weights = self.found[n.args[1 - k]].low
            pair = product_with_weights(n, self.found[n.args[k]], weights, k, terms, own)
        elif n.op == "matmul":
            pair = product_of_two(n, self.found[n.args[0]], self.found[n.args[1]], terms, own)
        else:
            return None
        names = self.graph.names(n)
        for product in _products_below(pair):
            self.origin.setdefault(product, names)
        return pair


def _known(x: Value) -> Pair:
    return Pair(x, x)


def _again(n: Node, args: Sequence[Value]) -> Node:
    """The operator on other operands; of constants alone, it is computed."""
    return emit(n.op, *args, **n.attributes).node


def _products_below(pair: Pair) -> list[Node]:
    """The products that a pair was just made of."""
    found, waiting, seen = [], [pair.low.node, pair.high.node], set[Node]()
    while waiting:
        n = waiting.pop()
        if n in seen:
            continue
        seen.add(n)
        if n.op in ("matmul", "conv"):
            found.append(n)
        else:
            waiting += n.args
    return found


def _wanted(graph: Graph, fixed: Collection[Node]) -> set[Node]:
    """The nodes that need a pair: those that outputs are computed from, but for conditions and positions."""
    found: set[Node] = set()
    waiting = [n for _, n in graph.outputs]
    while waiting:
        n = waiting.pop()
        if n in found:
            continue
        found.add(n)
        if n in fixed:
            continue
        operand = _of_softmax(n)
        if operand is not None:
            waiting.append(operand[0])
            continue
        skipped = 0 if n.op == "select" else 1 if n.op in _GATHERS else None
        waiting += [a for k, a in enumerate(n.args) if k != skipped]
    return found


def _of_softmax(n: Node) -> tuple[Node, tuple[int, ...]] | None:
    """The operand and the dimensions of a softmax that is computed with the greatest element taken away."""
    found = softmax_operand(n)
    powers = next((a for a in n.args if a.op == "exp"), None)
    if found is None or powers is None or powers.args[0].op != "sub":
        return None
    x, shift = powers.args[0].args
    is_greatest = shift.op == "reduce" and shift.attributes["combine"] == "max" and shift.args[0] is x
    return found if is_greatest and found == (x, shift.attributes["axes"]) else None


def fixed_values(graph: Graph) -> dict[Node, np.ndarray]:
    """The values of what is computed from constants and is the same in the last bit, however it is compiled."""
    found: dict[Node, np.ndarray] = {}
    added = read_by_sums(graph)
    for n in graph.nodes():
        if n.is_const:
            found[n] = n.value
        elif is_known(n, found, added) or (n.op in _EXACT and all(a in found for a in n.args)):
            found[n] = evaluate_node(n, [found[a] for a in n.args])
    return found


def terms_in_all(graph: Graph, fixed: Collection[Node], stored: Collection[Node]) -> dict[Node, int]:
    """For every sum, the terms of all that the network may add up together with it, in any order.

    A sum ends where its value is stored: what reads it from memory reads one number. An addition counts as `_ROUNDED`
    terms more, for what the bounds of its operands lose when they are added.
    """
    own: dict[Node, int] = {}
    for n in graph.nodes():
        if n.type.dtype != "f32" or n in fixed:
            continue
        if n.op in ("matmul", "conv") or (n.op in ("reduce", "pool") and n.attributes.get("combine") == "add"):
            own[n] = terms_of(n)
        elif n.op in _ADDITIONS and (n.op != "neg" or (n.args[0] in own and n.args[0] not in stored)):
            own[n] = sum(own[a] if a in own and a not in stored else 1 for a in n.args)
            own[n] += _ROUNDED * (own[n] > 2)
    found: dict[Node, int] = {}
    users = graph.users()
    for n in reversed(graph.nodes()):
        if n in own:
            after = [] if n in stored else [found[u] for u in users.get(n, ()) if u in found and u.op in _ADDITIONS]
            found[n] = max([own[n], *after])
    return found
