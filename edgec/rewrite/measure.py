"""The cost of a graph: the measure that every rewrite must reduce.

Measures are compared component by component:

1. ``unpacked``: bytes of weights that are stored in few bits (`few_bits`), where a formula of them stores floats. No
   arithmetic that is saved is worth reading them.
2. ``flops``: arithmetic, a multiply-add counted as two; a select or an index that depends only on the position is free.
   Sums of products of narrow integers count less, depending on the device's instructions (``OpCosts``).
3. ``bytes``: elements read and written by each operator. A reshape moves nothing, small constants are free, integers
   that are only widened count with the bytes of their stored type, and weights of few bits with those of their codes
   and scales.
4. ``operators``: their number.
5. ``oddities``: spellings other than the canonical one (a constant to the left in a sum or product, the subtraction of
   a constant, a constant inside a product, a clip above before one below, a greater for a less, a pool whose one window
   is everything, a constant added to a scaled sum of integers, signed bytes before constant weights, integers moved
   after they are widened), so that rules need to know one spelling only.
6. ``height``: minus the number of operators below each movement, so that movement rises towards the outputs and
   element-wise work is next to the operator that made its operand.
7. ``unfolded``: elements computed from constants alone. They are free in the components above: most are folded, and
   the rest (narrow weights that are widened) is computed when weights are packed.

All components are sums over nodes and bounded below for graphs of one size, so rewriting ends.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple
from weakref import WeakKeyDictionary

from edgec.device.device import Device
from edgec.ir import expr as X
from edgec.ir.expr import Expr
from edgec.ir.functions import FUNCTIONS
from edgec.ir.graph import Graph, Meaning, Node, Procedure
from edgec.ir.index import upper
from edgec.ir.memory import remembered
from edgec.ir.types import DTYPES, FLOATS, STORED
from edgec.ops import meaning
from edgec.rewrite.facts import SMALL_BYTES, is_static, memoized
from edgec.rewrite.few_bits import is_kept, kept_bytes, unpacked_bytes
from edgec.rewrite.term import COMMUTATIVE

#: Operators that only move elements and commute with element-wise work.
MOVEMENT = frozenset({"reshape", "transpose", "broadcast", "slice", "pad", "concat"})
#: Operators that read some elements of their first operand.
_PICKING = frozenset({"slice", "gather", "gather_elements", "gather_nd"})


class Measure(NamedTuple):
    """The components in the order they decide."""

    unpacked: int = 0
    flops: int = 0
    bytes: int = 0
    operators: int = 0
    oddities: int = 0
    height: int = 0
    unfolded: int = 0

    @staticmethod
    def sum(measures: Iterable[Measure]) -> Measure:
        columns = list(zip(*measures))
        return Measure(*map(sum, columns)) if columns else NOTHING

    def minus(self, other: Measure) -> Measure:
        return Measure(*(a - b for a, b in zip(self, other)))


@dataclass(frozen=True)
class OpCosts:
    """Number of narrow-integer multiply-adds in the time of one fp32 multiply-add, by element size.

    Machines with dot products of bytes add four at once, others two. Integers of 16 bits are multiplied as what they
    are widened to: on lanes that takes twice as long as it does in floats, and twice again where they are wider.
    """

    bytes: float = 2
    words: float = 2

    @staticmethod
    def on(device: Device) -> OpCosts:
        has_dots = device.has_dot4 or any(map(device.has, DOT_PRODUCTS))
        return OpCosts(bytes=4 if has_dots else 2, words=0.5 if device.lanes(4) > 1 else 2)


#: Instruction sets with dot products of bytes.
DOT_PRODUCTS = ("avx512vnni", "avxvnni", "dotprod", "sve")
#: Every operation counts as what it is.
RAW = OpCosts(1, 1)
NOTHING = Measure()
_measures: WeakKeyDictionary[Node, Measure] = WeakKeyDictionary()
_widths: WeakKeyDictionary[Node, int] = WeakKeyDictionary()
_heights: WeakKeyDictionary[Node, int] = WeakKeyDictionary()


def measure(node: Node, prices: OpCosts = RAW) -> Measure:
    """Cost of one node."""
    known = _measures.get(node)
    if known is None:
        known = _measures[node] = _measured(node)
    if prices != RAW and node.op in ("conv", "matmul") and known.flops:
        size = _narrowest_product(node)
        if size or (prices.words < 1 and node.type.dtype not in FLOATS):
            factor = {1: prices.bytes, 2: prices.words}.get(size, prices.words / 2)
            return known._replace(flops=max(int(known.flops / factor), 1))
    return known


def total(graph: Graph, prices: OpCosts = OpCosts()) -> Measure:
    """Cost of a whole graph."""
    return Measure.sum(measure(n, prices) for n in graph.nodes())


def _narrowest_product(node: Node) -> int:
    """Bytes of the wider factor's elements in a contraction of two widened narrow integers; otherwise 0."""
    if not all(width(a) < DTYPES[a.type.dtype].itemsize for a in node.args):
        return 0
    size = max(map(width, node.args))
    return size if size <= 2 else 0


def width(node: Node) -> int:
    """Bytes of an element in memory: integers that are only widened and moved are read as what they were."""
    known = _widths.get(node)
    if known is None:
        own = DTYPES[node.type.dtype].itemsize
        if is_widening(node):
            own = width(node.args[0])
        elif node.op in MOVEMENT and own > 1 and node.type.dtype not in FLOATS and _fits(node):
            own = max(map(width, node.args))
        known = _widths[node] = own
    return known


def _fits(node: Node) -> bool:
    """Is what a padding adds as narrow as what it is added to?"""
    if node.op != "pad":
        return True
    value, bits = int(node.attributes["value"]), 8 * width(node.args[0]) - 1
    return -(1 << bits) <= value < 1 << bits


def is_widening(node: Node) -> bool:
    """It only turns integers into wider ones, which whoever reads them does on the way."""
    if node.op != "cast":
        return False
    source, target = node.args[0].type.dtype, node.type.dtype
    if source in STORED or source == "bool" or target in FLOATS or target == "bool" or source in FLOATS:
        return False
    return DTYPES[target].itemsize > DTYPES[source].itemsize


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
    moved = 0 if node.op == "reshape" or is_widening(node) else stored(node) + sum(read_bytes(node).values())
    return Measure(
        unpacked=sum(unpacked_bytes(a) for a in dict.fromkeys(node.args)),
        flops=_flops(meaning(node)),
        bytes=moved,
        operators=1,
        oddities=int(_is_odd(node)),
        height=-height(node) if node.op in MOVEMENT else 0,
    )


def stored(node: Node) -> int:
    """The bytes of a tensor in memory."""
    if is_kept(node):
        return kept_bytes(node)
    return node.type.elements * width(node)


def read_bytes(node: Node) -> dict[Node, int]:
    """Bytes that an operator reads of each operand: all of it, or only the elements that it picks."""
    read: dict[Node, int] = {}
    for a in node.args:
        if not (is_static(a) and stored(a) <= SMALL_BYTES):
            read[a] = stored(a)
    if node.op in _PICKING:
        x = node.args[0]
        read = {a: min(amount, stored(node)) if a is x else amount for a, amount in read.items()}
    return read


def _is_odd(node: Node) -> bool:
    if node.op == "mul" and not any(map(is_static, node.args)):
        return any(is_scaled(a) and a.type.shape == node.type.shape for a in node.args)
    if node.op == "max" and node.args[0].op == "min" and is_static(node.args[1]):
        return is_static(node.args[0].args[1])
    if node.op in MOVEMENT and any(is_widening(a) for a in node.args):
        return True
    if node.op in ("conv", "matmul") and node.type.dtype == "i32" and is_static(node.args[1]):
        return is_widening(node.args[0]) and node.args[0].args[0].type.dtype == "i8"
    if node.op == "add" and is_static(node.args[1]) and _is_scaled_integer(node.args[0]):
        return True
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


def _is_scaled_integer(node: Node) -> bool:
    """A sum of integers as a float, or a multiple of one by a constant."""
    x = node.args[0] if is_scaled(node) else node
    return x.op == "cast" and x.type.dtype in FLOATS and x.args[0].type.dtype == "i32"


def covers_everything(pool: Node) -> bool:
    """There is one window, and it is the whole of the dimensions that are pooled."""
    kernel = pool.attributes["kernel"]
    return bool(kernel) and pool.args[0].type.shape[-len(kernel) :] == kernel


@remembered(50_000)
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
