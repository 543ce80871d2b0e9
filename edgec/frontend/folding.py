"""Constants that the import computes, and how much of that one model may ask for.

Results no larger than the stored constants they come from cost what the file already costs. All others are made of
little: positions, tables, repeated numbers. Their elements are counted for the whole import, a part of them where they
are there already or once they are not needed any more, together with the work of sums, and are held to the limit
``computed``.
"""

from __future__ import annotations

from math import prod
from weakref import WeakSet

import numpy as np

from edgec import limits
from edgec.ir import expr as X
from edgec.ir.evaluate import evaluate_node
from edgec.ir.graph import Node
from edgec.ir.graph import constant as constant_node
from edgec.ir.nest import most
from edgec.ir.registry import formula, is_procedure
from edgec.ir.types import FOLD_ELEMENTS

#: Terms of a sum that count as one element: sums of products are matrix products, which are fast.
_TERMS = 64
#: A result of more terms than this in all is left to run time.
_MOST_TERMS = 1 << 33

_made: WeakSet[Node] = WeakSet()


def is_static(node: Node) -> bool:
    """A constant, or one repeated along dimensions."""
    return node.is_const or (node.op == "broadcast" and node.args[0].is_const)


def array(node: Node) -> np.ndarray:
    """The elements of a static node."""
    return node.value if node.is_const else np.broadcast_to(node.args[0].value, node.type.shape)


def may_fold(node: Node) -> bool:
    """Static operands, and neither they nor the result nor the sums in it absurdly large."""
    if not all(map(is_static, node.args)) or any(n.type.elements > FOLD_ELEMENTS for n in (node, *node.args)):
        return False
    return _terms(node) <= _MOST_TERMS


def folded(node: Node) -> Node:
    """The constant that a node of static operands gives. Raises LimitError where a model asks for too many."""
    stored = {a if a.is_const else a.args[0] for a in node.args} - set(_made)
    is_made = node.type.elements > sum(a.type.elements for a in stored)
    limits.computed((node.type.elements if is_made else 0) + _terms(node) // _TERMS)
    result = constant_node(evaluate_node(node, [array(a) for a in node.args]))
    if is_made:
        limits.forgotten(None if result in _made else result, node.type.elements)
        _made.add(result)
    return result


def _terms(node: Node) -> int:
    """Terms of the sums in all elements of a result; 0 where there are none."""
    if is_procedure(node.op):
        return 0
    derived = formula(node)
    reductions = [e for e in X.walk(derived.body) if e.op == "reduce"]
    return node.type.elements * sum(prod(most(v) for v in X.reduction_variables(e)) for e in reductions)
