"""The rule of every operator of a network; what has none is refused by name."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from math import prod
from typing import Any

import numpy as np

from edgec.certify.elementwise import RANGES, Place
from edgec.certify.maps import Map, Move
from edgec.certify.ranges import Array
from edgec.certify.reductions import Extreme, Product
from edgec.certify.rules import Elementwise, Leaky, Moved, Rule, Weighted
from edgec.certify.windows import window_parts
from edgec.ir.evaluate import evaluate_node
from edgec.ir.graph import Graph, Node
from edgec.ir.types import FLOATS
from edgec.schedule.order import Order

#: Operators that only move elements.
MOVEMENTS = frozenset(
    {"reshape", "transpose", "broadcast", "slice", "pad", "concat", "update", "gather", "gather_elements", "gather_nd"}
)
#: Those whose second operand says where to read.
_GATHERS = frozenset({"gather", "gather_elements", "gather_nd"})
_COMPARISONS = {"lt": False, "le": False, "gt": True, "ge": True}


def is_known(n: Node, fixed: Mapping[Node, Array], added: Collection[Node]) -> bool:
    """Is a value of constants alone that of numpy in the last bit, however a compiler puts the C together?

    Movements, casts and products are, and sums of numbers that are no products: a sum after a product may be rounded
    once with it, so a product that is ``added`` is known only if it is exact. Weights that a file keeps as integers
    are known so.
    """
    if n.op == "iota":
        return True
    if not all(a in fixed for a in n.args):
        return False
    if n.op == "mul" and n in added:
        a, b = (np.asarray(fixed[a], np.float64) for a in n.args)
        return bool(np.all(a * b == evaluate_node(n, [fixed[a] for a in n.args])))
    if n.op in ("add", "sub"):
        return all(a.is_const or (a.op == "cast" and a.args[0].is_const) for a in n.args)
    return n.op in MOVEMENTS or n.op in ("cast", "mul")


def read_by_sums(graph: Graph) -> set[Node]:
    """Values that an addition may read in the same kernel, through operators that only move them or change signs."""
    found: set[Node] = set()
    users = graph.users()
    for n in reversed(graph.nodes()):
        for u in users.get(n, ()):
            sums = u.op in ("add", "sub") or (u.op in ("reduce", "pool") and u.attributes.get("combine") == "add")
            if sums or ((u.op in MOVEMENTS or u.op in ("neg", "cast")) and u in found):
                found.add(n)
    return found


def rule(
    n: Node,
    varies: Collection[Node],
    fixed: Mapping[Node, Array],
    settles: bool,
    is_whole: bool,
    order: Order | None = None,
) -> Rule | None:
    """The rule of a node, of whose operands those in ``varies`` are not known; None where there is none.

    ``fixed`` are the values of all others; ``settles``, ``is_whole`` and ``order`` are what `Place` says.
    """
    operands = tuple(k for k, a in enumerate(n.args) if a in varies)
    place = Place(n, settles, is_whole, order)
    values = {k: _wide(n, k, fixed[a]) for k, a in enumerate(n.args) if a not in varies}
    if n.op in RANGES:
        leaky = leaky_choice(n, fixed)
        if leaky is not None:
            return _with(Leaky(place, (leaky[0],)), slopes=leaky[1])
        found: Rule = Elementwise(place, operands)
        is_product = (n.op == "mul" and len(operands) == 1) or (n.op == "div" and operands == (0,))
        found.is_linear = (n.op in ("add", "sub", "neg") or is_product) and not place.is_of_one
        found.is_odd = found.is_linear and (n.op != "div" or place.is_float)
        return found
    if n.op in MOVEMENTS:
        if n.op in _GATHERS and 1 in operands:
            return None
        found = _with(Moved(place, operands), move=Move(n, operands, values))
        found.is_linear = found.is_odd = True
        return found
    combine = n.attributes.get("combine")
    if n.op in ("reduce", "pool") and combine in ("max", "min"):
        return _with(Extreme(place, operands), parts=window_parts(n))
    is_weighted = (n.op in ("matmul", "conv") and len(operands) == 1) or (
        n.op in ("reduce", "pool") and combine == "add"
    )
    if is_weighted:
        k = operands[0]
        sizes = {j: np.abs(v) for j, v in values.items()}
        found = _with(Weighted(place, operands), terms=terms_of(n), map=Map(n, k, values), magnitudes=Map(n, k, sizes),
            constants=values)  # fmt: skip
        found.is_linear = found.is_odd = True
        return found
    if n.op == "matmul":  # of a value with itself too: planes of two values hold where they are one
        return _with(Product(place, operands), terms=terms_of(n))
    return None


def _with(made: Rule, **facts: Any) -> Rule:
    """The rule with the facts that its kind has."""
    for name, value in facts.items():
        setattr(made, name, value)
    return made


def _wide(n: Node, k: int, value: Array) -> Array:
    """A constant operand in double precision; positions stay integers."""
    return np.asarray(value) if n.op in _GATHERS and k == 1 else np.asarray(value).astype(np.float64)


def terms_of(n: Node) -> int:
    """Terms of a sum."""
    if n.op == "matmul":
        return int(n.args[0].type.shape[-1])
    if n.op == "conv":
        return prod(n.args[1].type.shape[1:])
    if n.op == "pool":
        return prod(n.attributes["kernel"])
    return prod(n.args[0].type.shape[a] for a in n.attributes["axes"])


def leaky_choice(n: Node, fixed: Mapping[Node, Array]) -> tuple[int, tuple[Array, Array]] | None:
    """The number of the operand that is x, and the slopes behind and before zero of a choice between x and its
    multiple by its sign."""
    if n.op != "select" or n.args[0].op not in _COMPARISONS or n.type.dtype not in FLOATS:
        return None
    (x, limit), sides = n.args[0].args, n.args[1:]
    if limit not in fixed or np.any(fixed[limit]) or x.type.shape != n.type.shape or x not in sides:
        return None
    k = sides.index(x)
    other = sides[1 - k]
    if other.op != "mul" or x not in other.args:
        return None
    factor = next((a for a in other.args if a is not x), x)
    if factor not in fixed:
        return None
    slopes = [np.ones((1,)), np.ones((1,))]
    value = np.asarray(fixed[factor], np.float64)
    slopes[1 - k] = value.reshape(1, *(1,) * (n.type.rank - value.ndim), *value.shape)
    then, otherwise = slopes
    return 1 + k, (then, otherwise) if _COMPARISONS[n.args[0].op] else (otherwise, then)


def is_whole(n: Node, known: Mapping[Node, bool], fixed: Mapping[Node, Array]) -> bool:
    """Are all values of a node whole numbers, given that of its operands?"""
    if n in fixed:
        return (
            bool(np.all(np.asarray(fixed[n]) == np.rint(fixed[n]))) if np.asarray(fixed[n]).dtype.kind in "fV" else True
        )
    if n.type.dtype not in FLOATS or n.op in ("round", "floor", "ceil", "trunc"):
        return True
    if n.op == "pad" and float(n.attributes["value"]) != round(float(n.attributes["value"])):
        return False
    passing = n.op in MOVEMENTS or n.op in ("add", "sub", "mul", "neg", "max", "min", "cast", "reduce", "pool")
    return passing and n.op != "input" and all(known[a] for a in n.args)
