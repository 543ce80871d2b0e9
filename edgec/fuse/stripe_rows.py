"""Rows of a result alone: what they need of an operator's operands, and the operator on that."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from edgec import ops
from edgec.ir.functions import FUNCTIONS
from edgec.ir.graph import Node, constant

#: The dimension of rows: the first that windows walk along.
ROWS = 2


@dataclass(frozen=True)
class Rows:
    """Elements from ``first`` to before ``end`` along dimension ``dim``."""

    dim: int
    first: int
    end: int

    def hull(self, other: Rows) -> Rows:
        return Rows(self.dim, min(self.first, other.first), max(self.end, other.end))

    def share(self, node: Node) -> float:
        """The fraction of a node that they are."""
        return (self.end - self.first) / max(int(node.type.shape[self.dim]), 1)


def part(node: Node, dim: int, k: int, count: int) -> Rows:
    """Rows of the part ``k`` of ``count`` of a node."""
    extent = int(node.type.shape[dim])
    return Rows(dim, extent * k // count, extent * (k + 1) // count)


def needed(node: Node, rows: Rows) -> list[Rows | None] | None:
    """Rows of each operand that these rows of a node need (None: all of it); None if that is not known."""
    dim, first, end = rows.dim, rows.first, rows.end
    attributes = node.attributes
    if node.op in FUNCTIONS or node.op in ("cast", "bitcast", "broadcast"):
        found: list[Rows | None] = []
        for a in node.args:
            own = dim - node.type.rank + a.type.rank
            found.append(None if own < 0 or a.type.shape[own] == 1 else Rows(own, first, end))
        return found
    if node.op in ("conv", "pool"):
        kernel = node.args[1].type.shape[2:] if node.op == "conv" else attributes["kernel"]
        lead = node.type.rank - len(kernel)
        if dim < lead:
            return None
        stride, dilation = attributes["strides"][dim - lead], attributes["dilations"][dim - lead]
        reach = (kernel[dim - lead] - 1) * dilation
        return [Rows(dim, first * stride, (end - 1) * stride + reach + 1), *([None] * (len(node.args) - 1))]
    if node.op == "transpose":
        return [Rows(attributes["perm"][dim], first, end)]
    if node.op == "reshape":
        grouped = _grouped(node, rows)
        return None if grouped is None else [grouped[0]]
    if node.op == "reduce" and dim not in attributes["axes"]:
        return [rows]
    if node.op == "pad":
        before, extent = attributes["before"][dim], node.args[0].type.shape[dim]
        low, high = max(first - before, 0), min(end - before, extent)
        return [Rows(dim, low, high)] if low < high else None
    if node.op == "slice" and attributes["steps"][dim] == 1:
        start = attributes["starts"][dim]
        return [Rows(dim, first + start, end + start)]
    if node.op == "concat" and attributes["axis"] != dim:
        return [Rows(dim, first, end)] * len(node.args)
    return None


def _grouped(node: Node, rows: Rows) -> tuple[Rows, int] | None:
    """Rows of the operand of a reshape that hold those of its result, and the first row that they are of it; None where
    no dimension of the operand ends where that of the rows does."""
    shape, source = node.type.shape, node.args[0].type.shape
    if not node.type.is_fixed or shape[rows.dim] == 1:
        return None
    whole, own = prod(shape[rows.dim :]), prod(shape[rows.dim + 1 :])
    dims = [d for d, extent in enumerate(source) if extent > 1 and prod(source[d:]) == whole]
    if not dims:
        return None
    there = prod(source[dims[0] + 1 :])
    if there % own and own % there:
        return None
    first, end = rows.first * own // there, -(-rows.end * own // there)
    return Rows(dims[0], first, end), first * there // own


def on_rows(node: Node, args: list[Node], rows: Rows) -> Node:
    """The operator on operands that are cut down to what these rows need."""
    dim, attributes = rows.dim, node.attributes

    def at_rows(name: str, value: int) -> tuple[int, ...]:
        return (*attributes[name][:dim], value, *attributes[name][dim + 1 :])

    if node.op == "pad":
        before, extent = attributes["before"][dim], node.args[0].type.shape[dim]
        attributes["after"] = at_rows("after", max(rows.end - before - extent, 0))
        attributes["before"] = at_rows("before", max(before - rows.first, 0))
    elif node.op == "slice":
        attributes["starts"] = at_rows("starts", 0)
        attributes["shape"] = at_rows("shape", rows.end - rows.first)
    elif node.op == "broadcast":
        attributes["shape"] = at_rows("shape", rows.end - rows.first)
    elif node.op == "reshape":
        grouped = _grouped(node, rows)
        assert grouped is not None
        around = args[0].type.elements // (node.type.elements // node.type.shape[dim])
        attributes["shape"] = at_rows("shape", around)
        return sliced(ops.node(node.op, *args, **attributes), rows, grouped[1])
    return ops.node(node.op, *args, **attributes)


def summed(node: Node, k: int, count: int) -> list[Rows | None] | None:
    """Rows of each operand that the part ``k`` of ``count`` of a sum over rows adds up (None: all of it); None for
    what is no such sum. It is a sum of a value, or of products with a gradient, the weights of a convolution then."""
    attributes = node.attributes
    if not all(a.type.is_fixed for a in node.args):
        return None
    if node.op == "reduce" and attributes["combine"] == "add" and ROWS in attributes["axes"]:
        return [part(node.args[0], ROWS, k, count)]
    if node.op == "conv" and node.args[1].type.rank > ROWS and not node.args[1].is_const:
        taps = part(node.args[1], ROWS, k, count)
        stride, dilation = attributes["strides"][0], attributes["dilations"][0]
        reach = (node.type.shape[ROWS] - 1) * stride
        return [Rows(ROWS, taps.first * dilation, (taps.end - 1) * dilation + reach + 1), taps]
    return None


def total(parts: list[Node]) -> Node:
    """The sum of the parts of a sum over rows, each of which is in memory before the next is computed: numbers for each
    channel beside one another, and gradients of weights one added to the other."""
    if parts[0].op == "reduce" and parts[0].type.shape[ROWS] == 1:
        return ops.node("reduce", ops.node("concat", *parts, axis=ROWS), combine="add", axes=(ROWS,))
    found, *others = parts
    for other in others:
        found = ops.node("add", found, other)
    return found


def sliced(node: Node, rows: Rows, begin: int) -> Node:
    """The rows of a node that begins with row ``begin``."""
    shape = node.type.shape
    first, size = rows.first - begin, rows.end - rows.first
    if (first, size) == (0, shape[rows.dim]):
        return node
    if node.is_const:
        return constant(node.value[(*[slice(None)] * rows.dim, slice(first, first + size))])
    starts = tuple(first if d == rows.dim else 0 for d in range(len(shape)))
    sizes = tuple(size if d == rows.dim else n for d, n in enumerate(shape))
    return ops.node("slice", node, starts=starts, steps=(1,) * len(shape), shape=sizes)
