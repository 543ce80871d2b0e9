"""Proof by trial: both sides of a rule are evaluated wherever it claims to hold.

An equation is tried on random broadcasting shapes and element types, with operands of commutative functions in
either order; a change is tried on its examples. A rule that claims to be exact has to keep every bit, of NaN,
infinities and zeros of both signs too; one that reassociates has to agree up to rounding on floats, and still bit for
bit on integers. And it must be useful: some instance must cost less afterwards.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, product
from random import Random

import numpy as np

from edgec import ops
from edgec.errors import EdgecError
from edgec.ir.evaluate import run
from edgec.ir.graph import Graph, Node, constant, placeholder, topological
from edgec.ir.types import DTYPES, FLOATS, Type
from edgec.rewrite import sample
from edgec.rewrite.engine import simplify
from edgec.rewrite.measure import OpCosts, total
from edgec.rewrite.rule import Change, Dtypes, Equation, Rule, RuleError
from edgec.rewrite.term import COMMUTATIVE, Term

Array = np.ndarray

#: Instances a rule has to pass.
INSTANCES = 60
#: How many times as many are tried to find one that only this rule makes cheaper.
_SEEDS = 4
#: Instances that may be refused by a guard before giving up.
_ATTEMPTS = 12000

#: Devices on which a rule may be good for something: without and with dot products of bytes.
_PRICES = (OpCosts(), OpCosts(bytes=4))

_COMPARISONS = frozenset({"lt", "le", "gt", "ge", "eq", "ne"})
_TYPES: dict[Dtypes, tuple[str, ...]] = {
    "any": ("f32", "f64", "f16", "i32", "i64", "u8", "i8", "bool"),
    "number": ("f32", "f64", "f16", "i32", "i64", "u8", "i8"),
    "float": ("f32", "f64", "f16"),
    "wide": ("f32", "f64"),
    "integer": ("i32", "i64", "u8", "i8"),
    "bool": ("bool",),
}


@dataclass(frozen=True)
class Proof:
    """Number of instances on which a rule was tried, and of those in which it made the graph cheaper."""

    rule: Rule
    instances: int
    improved: int


def prove(rule: Rule) -> Proof:
    """Try ``rule`` where it claims to hold; raises RuleError with a counterexample when it does not."""
    random = Random(rule.name)  # the same instances every time
    instances = improved = 0
    for node in instances_of(rule, random):
        replacements = _replacements(rule, node)
        for replacement in replacements:
            _compare(rule, node, replacement, random)
        instances += 1
        improved += any(_improves(rule, node, prices) for prices in _PRICES)
    if not instances:
        raise RuleError("no instance passes the guard", where=rule.source)
    if not improved:
        raise RuleError(f"the rule '{rule.name}' never makes anything cheaper", where=rule.source)
    return Proof(rule, instances, improved)


def _improves(rule: Rule, node: Node, prices: OpCosts) -> bool:
    return bool(simplify(_graph(node), [rule], numeric="approximates", steps=1, prices=prices)[1])


def instances_of(rule: Rule, random: Random) -> Iterator[Node]:
    """Nodes that ``rule`` has to apply to."""
    return _of_equation(rule, random) if isinstance(rule, Equation) else _of_change(rule, random)


def earns(rule: Rule, rules: Sequence[Rule]) -> bool:
    """Is there an instance that ends up cheaper with ``rule`` than with the others of ``rules`` alone?

    The other rules are those that a build with this rule's ``numeric`` allows. Instances are tried with and without a
    rounding of their result, as some rules do not apply before a rounding.
    """
    others = [r for r in rules if r is not rule]
    for node in chain.from_iterable(instances_of(rule, Random(seed)) for seed in range(_SEEDS)):
        rounded = [_graph(ops.node("round", node))] if node.type.dtype in FLOATS else []
        for graph, prices in product((_graph(node), *rounded), _PRICES):
            with_it, without = (
                total(simplify(graph, some, numeric=rule.numeric, prices=prices)[0], prices) for some in (rules, others)
            )
            if with_it < without:
                return True
    return False


def _graph(node: Node) -> Graph:
    inputs = tuple(n for n in topological([node]) if n.op == "input")
    return Graph(inputs, (("y", node),))


class Instance:
    """The graph that consists of one instance."""

    def __init__(self, node: Node) -> None:
        self.users = _graph(node).users()

    def uses(self, node: Node) -> int:
        return max(len(self.users.get(node, ())), 1)


def _replacements(rule: Rule, node: Node) -> list[Node]:
    try:
        proposals = list(rule.propose(node, Instance(node)))
    except EdgecError as error:
        raise RuleError(f"the rule '{rule.name}' fails: {error.message}\n{_shown(node)}", where=rule.source) from error
    found = [p for p in proposals if isinstance(p, Node)]
    if not found:
        reasons = "; ".join(str(p) for p in proposals) or "it does not match"
        raise RuleError(f"the rule '{rule.name}' does not apply to its instance: {reasons}", where=rule.source)
    for replacement in found:
        if replacement.type != node.type:
            message = f"the rule '{rule.name}' turns {node.type} into {replacement.type}\n{_shown(node)}"
            raise RuleError(message, where=rule.source)
    return found


# ---- instances


def _of_equation(rule: Equation, random: Random) -> Iterator[Node]:
    """Left sides with random operands that pass the guard."""
    accepted = 0
    for _ in range(_ATTEMPTS):
        dtype = random.choice([t for t in _TYPES[rule.dtypes] if t != "f16" or rule.numeric == "exact"])
        shapes = sample.shapes(random, len(rule.variables) + 8)
        bound = {
            name: _operand(name, Type("bool" if name in rule.truths else dtype, shapes.pop()), rule, random)
            for name in rule.variables
        }
        if rule.refusal(bound) is not None:
            continue
        yield _left(rule.left, bound, dtype, dtype, shapes, random)
        accepted += 1
        if accepted == INSTANCES:
            return


def _operand(name: str, type: Type, rule: Rule, random: Random) -> Node:
    if random.random() < 0.5:
        plain = placeholder(name, type)
        if type.dtype in FLOATS and random.random() < 0.2:  # nothing is known about the range of a plain input
            if random.random() < 0.5:
                return ops.node("sigmoid", plain)
            return ops.node("add", ops.node("exp", plain), constant(np.array(0.5, DTYPES[type.dtype])))
        return plain
    return constant(sample.values(random, type, rule.numeric == "exact"))


def _left(
    term: Term, bound: dict[str, Node], dtype: str, numbers: str, shapes: list[tuple[int, ...]], random: Random
) -> Node:
    """The left side; its numbers are constants of any shape, its operands in any order that means the same.

    ``dtype`` is what is wanted here, ``numbers`` what is compared and computed with.
    """
    if term.op == "variable":
        return bound[term.name]
    if term.op == "number":
        return constant(np.full(shapes.pop(), term.number, DTYPES[dtype]))
    own = numbers if term.op in _COMPARISONS else dtype
    kinds = ["bool" if term.op == "select" and not k else own for k in range(len(term.args))]
    args = [_left(a, bound, kind, numbers, shapes, random) for a, kind in zip(term.args, kinds)]
    if term.op in COMMUTATIVE and random.random() < 0.5:
        args.reverse()
    return ops.node(term.op, *args)


def _of_change(rule: Rule, random: Random) -> Iterator[Node]:
    assert isinstance(rule, Change)
    found = 0
    while found < INSTANCES:
        before = found
        for node in rule.examples(random):
            yield node
            found += 1
        if found == before:
            return


# ---- comparison


def _compare(rule: Rule, node: Node, replacement: Node, random: Random) -> None:
    inputs = {n.attributes["name"]: n.type for n in _graph(node).inputs}
    for _ in range(3):
        given = {name: sample.values(random, type, rule.numeric == "exact") for name, type in inputs.items()}
        left = run(_graph(node), given)["y"]
        right = run(_graph(replacement), given)["y"]
        wrong = _difference(rule, left, right, list(given.values()))
        if wrong is not None:
            lines = [f"the rule '{rule.name}' is wrong: {_shown(node)}", f"  is not {_shown(replacement)}"]
            lines += [f"  {name} = {_listed(array)}" for name, array in given.items()]
            lines += [f"  left {left[wrong]!r}, right {right[wrong]!r} at {list(map(int, wrong))}"]
            raise RuleError("\n".join(lines), where=rule.source)


def _difference(rule: Rule, left: Array, right: Array, given: list[Array]) -> tuple[int, ...] | None:
    """Position at which the results differ by more than the rule allows; None if there is none."""
    if left.dtype not in (DTYPES[f] for f in FLOATS):
        same = left == right
    elif rule.numeric == "exact":
        same = (np.isnan(left) & np.isnan(right)) | ((left == right) & (np.signbit(left) == np.signbit(right)))
    else:
        a, b = left.astype(np.float64), right.astype(np.float64)
        finite = [x[np.isfinite(x)] for x in (a, *(g.astype(np.float64) for g in given))]
        scale = max([1.0, *(float(np.abs(x).max()) for x in finite if x.size)])
        dtype = next(name for name in FLOATS if DTYPES[name] == left.dtype)
        with np.errstate(invalid="ignore"):
            near = np.abs(a - b) <= sample.tolerance(dtype) * scale
        same = (np.isnan(a) & np.isnan(b)) | (a == b) | near
    wrong = np.argwhere(~np.asarray(same))
    return tuple(wrong[0]) if len(wrong) else None


def _shown(node: Node) -> str:
    if node.op == "input":
        return str(node.attributes["name"])
    if node.op == "const":
        return _listed(node.value)
    attributes = [f"{k}={v!r}" for k, v in node.attrs]
    return f"{node.op}({', '.join([*map(_shown, node.args), *attributes])})"


def _listed(array: Array) -> str:
    return np.array2string(array, threshold=12, separator=", ").replace("\n", "")
