"""What a graph costs: the measure every rewriting has to shrink.

Measures are compared component by component:

1. ``flops``: arithmetic, a multiply-add counted as two; choices and indices are free where only the position decides.
2. ``bytes``: elements read and written by each operator. A reshape moves nothing, and small constants are near.
3. ``operators``.
4. ``oddities``: spellings that another one is preferred to (a constant to the left in a sum or product, the
   subtraction of a constant, a constant inside a product, a clip above before one below, a greater for a less, a pool
   whose one window is everything), so that laws need to know one spelling only.
5. ``height``: minus the operators below each movement, so that movement rises towards the outputs and element-wise
   work comes to stand next to what made its operand.
6. ``unfolded``: elements computed from constants alone. They are free in the components above: what can be folded
   is, and what is kept (narrow weights that are widened) is dealt with when it is packed.

All components are sums over nodes and bounded below for graphs of one size, so rewriting ends.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple
from weakref import WeakKeyDictionary

from edgec.ir import expr as X
from edgec.ir.expr import Expr
from edgec.ir.functions import FUNCTIONS
from edgec.ir.graph import Graph, Meaning, Node, Procedure
from edgec.ir.index import upper
from edgec.ops import meaning
from edgec.rewrite.facts import SMALL_BYTES, is_static, memoized
from edgec.rewrite.term import COMMUTATIVE

#: Operators that only move elements and commute with element-wise work.
MOVEMENT = frozenset({"reshape", "transpose", "broadcast", "slice", "pad", "concat"})
#: Operators that read some elements of their first operand.
_PICKING = frozenset({"slice", "gather", "gather_elements", "gather_nd"})


class Measure(NamedTuple):
    """The components in the order they decide."""

    flops: int = 0
    bytes: int = 0
    operators: int = 0
    oddities: int = 0
    height: int = 0
    unfolded: int = 0

    def plus(self, other: Measure) -> Measure:
        return Measure(*(a + b for a, b in zip(self, other)))

    def minus(self, other: Measure) -> Measure:
        return Measure(*(a - b for a, b in zip(self, other)))


NOTHING = Measure()
_measures: WeakKeyDictionary[Node, Measure] = WeakKeyDictionary()
_heights: WeakKeyDictionary[Node, int] = WeakKeyDictionary()


def measure(node: Node) -> Measure:
    """What one node adds."""
    known = _measures.get(node)
    if known is None:
        known = _measures[node] = _measured(node)
    return known


def total(graph: Graph) -> Measure:
    """What a whole graph costs."""
    result = NOTHING
    for n in graph.nodes():
        result = result.plus(measure(n))
    return result


def height(node: Node) -> int:
    """The longest way down to an input, in operators that are no movement; 0 for what is static."""
    return memoized(node, _heights, _height)


def _height(node: Node) -> int:
    if is_static(node):
        return 0
    below = max((_heights[a] for a in node.args), default=0)
    return below if node.op in MOVEMENT or not node.args else below + 1


def _measured(node: Node) -> Measure:
    if node.op in ("input", "const"):
        return NOTHING
    if is_static(node):
        return Measure(unfolded=max(node.type.elements, 1))
    moved = 0 if node.op == "reshape" else node.type.bytes + sum(read_bytes(node).values())
    return Measure(
        flops=_flops(meaning(node)),
        bytes=moved,
        operators=1,
        oddities=int(_is_odd(node)),
        height=-height(node) if node.op in MOVEMENT else 0,
    )


def read_bytes(node: Node) -> dict[Node, int]:
    """What an operator reads of each operand: all of it, but what picks elements no more than it picks."""
    read: dict[Node, int] = {}
    for a in node.args:
        if not (is_static(a) and a.type.bytes <= SMALL_BYTES):
            read[a] = a.type.bytes
    if node.op in _PICKING:
        x = node.args[0]
        read = {a: min(amount, node.type.bytes) if a is x else amount for a, amount in read.items()}
    return read


def _is_odd(node: Node) -> bool:
    if node.op == "mul" and not any(map(is_static, node.args)):
        return any(is_scaled(a) and a.type.shape == node.type.shape for a in node.args)
    if node.op == "max" and node.args[0].op == "min" and is_static(node.args[1]):
        return is_static(node.args[0].args[1])
    if node.op in COMMUTATIVE:
        return is_static(node.args[0])
    if node.op in ("gt", "ge"):
        return True
    if node.op == "sub":
        return is_static(node.args[1])
    if node.op == "pool":
        return covers_everything(node)
    return False


def is_scaled(node: Node) -> bool:
    """It is a multiple of something by a constant."""
    return node.op == "mul" and is_static(node.args[1]) and not is_static(node.args[0])


def covers_everything(pool: Node) -> bool:
    """There is one window, and it is the whole of the dimensions that are pooled."""
    kernel = pool.attributes["kernel"]
    return bool(kernel) and pool.args[0].type.shape[-len(kernel) :] == kernel


@lru_cache(maxsize=50_000)
def _flops(derived: Meaning) -> int:
    if isinstance(derived, Procedure):
        return upper(derived.steps)
    seen: set[Expr] = set()

    def price(e: Expr, times: int) -> int:
        if e in seen or e.op in ("var", "size", "const"):
            return 0
        seen.add(e)
        if e.op == "load":
            return sum(price(a, times) for a in e.args if not _is_index(a))
        if e.op == "reduce":
            for v in e.value[1]:
                times *= upper(v.extent)
            return times + price(e.args[0], times)
        if e.op == "select" and all(x.op != "load" for x in X.walk(e.args[0])):
            return sum(price(a, times) for a in e.args[1:])
        own = FUNCTIONS[e.op].flops * times if e.op in FUNCTIONS and not _is_index(e) else 0
        return own + sum(price(a, times) for a in e.args)

    return price(derived.body, derived.type.elements)


def _is_index(e: Expr) -> bool:
    return all(x.op != "load" for x in X.walk(e))
