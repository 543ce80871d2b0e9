"""Exporters' spellings of masks, mainly ``y[mask] = v``: counts of true elements, and scatters to their positions."""

from __future__ import annotations

from math import prod

from edgec.frontend.onnx import bounded
from edgec.frontend.values import Value, emit, select
from edgec.ir import expr as X
from edgec.ir.expr import Extent
from edgec.ir.functions import FUNCTIONS
from edgec.ir.graph import Node
from edgec.ir.types import FLOATS

#: At most so many operators stand between the places of true elements and the positions that ScatterND takes.
_STEPS = 16


def counted(count: Node) -> tuple[Value, Extent] | None:
    """The mask whose true elements a single integer counts, and how often it counts each; else None.

    All spellings of a count end in the same mask, so that what is as long has one size.
    """
    while count.op in ("reshape", "cast") and count.type.dtype not in FLOATS:
        (count,) = count.args
    if count.op != "reduce" or count.attributes["combine"] != "add" or not _is_one(count):
        return None
    times: Extent = 1
    (mask,) = count.args
    while mask.op in ("reshape", "broadcast", "cast") and (mask.op != "cast" or _is_whole(mask)):
        (operand,) = mask.args
        if mask.op == "broadcast":
            rank = len(mask.type.shape)
            old = (*(1,) * (rank - len(operand.type.shape)), *operand.type.shape)
            times = prod((n for n, o in zip(mask.type.shape, old) if not _is_same((n,), (o,))), start=times)
        mask = operand
    return (Value(mask), X.plain(times)) if mask.type.dtype == "bool" else None


def chosen(x: Value, positions: Value, updates: Value) -> Value | None:
    """x with ``updates`` written at ``positions`` as a choice, where those are all true elements of a mask; else None.

    Updates must be the same for all of them, or computed element by element from what lies there.
    """
    compact = _compacted(positions.node)
    if compact is None:
        return None
    mask = Value(compact.args[0])
    places = bounded.nonzero(mask)[0].part(1, 0, positions.shape[0]).transpose(1, 0)
    if places.node is not positions.node or not _is_same(mask.shape, x.shape[: mask.rank]):
        return None
    value = _spread(updates.node, x, positions.node, x.rank - mask.rank)
    return None if value is None else select(mask.reshape(*mask.shape, *(1,) * (x.rank - mask.rank)), value, x)


def _compacted(positions: Node) -> Node | None:
    """The places of true elements that positions are made of."""
    front = [positions]
    for _ in range(_STEPS):
        front = list(dict.fromkeys(a for n in front for a in n.args if not a.is_const))
        found = [n for n in front if n.op == "compact"]
        if found:
            return found[0]
    return None


def _spread(update: Node, x: Value, positions: Node, rank: int) -> Value | None:
    """Updates [found, ...] as what every element of x would get, true or not; ``rank`` is that of one update."""
    uniform = update
    while uniform.op in ("broadcast", "reshape"):
        (uniform,) = uniform.args
    if _is_one(uniform):
        return Value(uniform).reshape()
    if update.op == "broadcast" and len(update.args[0].type.shape) <= rank:
        return Value(update.args[0])
    if update.op == "gather_nd" and update.args[1] is positions and not update.attributes["batch"]:
        return Value(update.args[0]) if _is_same(update.args[0].type.shape, x.shape) else None
    if update.op not in FUNCTIONS and update.op != "cast":
        return None
    operands = [_spread(a, x, positions, rank) for a in update.args]
    found = [v for v in operands if v is not None]
    return emit(update.op, *found, **update.attributes) if len(found) == len(operands) else None


def _is_one(node: Node) -> bool:
    return all(type(n) is int and n == 1 for n in node.type.shape)


def _is_same(a: tuple[Extent, ...], b: tuple[Extent, ...]) -> bool:
    return len(a) == len(b) and all(m is n or (type(m) is type(n) is int and m == n) for m, n in zip(a, b))


def _is_whole(cast: Node) -> bool:
    """Does it keep 0 and 1 what they are, without making a mask of other numbers?"""
    made, given = cast.type.dtype, cast.args[0].type.dtype
    return made not in FLOATS and given not in FLOATS and (made != "bool" or given == "bool")
