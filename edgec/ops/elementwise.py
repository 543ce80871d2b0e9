"""Element-wise operators: every scalar function, lifted over tensors with numpy's broadcasting."""

from __future__ import annotations

from collections.abc import Callable

from edgec.errors import ModelError, Unequal
from edgec.ir import expr as X
from edgec.ir.expr import Expr
from edgec.ir.functions import FUNCTIONS, OF_FLOATS, arity
from edgec.ir.graph import Formula, Node
from edgec.ir.registry import Tensor, adjoint, compute, node, op, register
from edgec.ir.types import FLOATS, STORED, bits


def broadcast_shape(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The common shape of operands under numpy's rules; raises ModelError when there is none."""
    rank = max(map(len, shapes))
    result = []
    for d in range(rank):
        extents = {s[d - rank + len(s)] for s in shapes if d - rank + len(s) >= 0} - {1}
        if len(extents) > 1:
            first, second, *_ = extents
            raise Unequal(f"shapes {', '.join(map(str, shapes))} do not broadcast", (first, second), may_be_one=True)
        result.append(extents.pop() if extents else 1)
    return tuple(result)


def at(x: Tensor, index: tuple[Expr, ...]) -> Expr:
    """The element of ``x`` under an index of the broadcast result."""
    return x[index[len(index) - x.rank :]]


def _lifted(name: str) -> Callable[..., Formula]:
    def definition(*operands: Tensor) -> Formula:
        if len(operands) != arity(name):
            raise ModelError(f"'{name}' takes {arity(name)} operands and has {len(operands)}")
        dtypes = {x.dtype for x in (operands[1:] if name == "select" else operands)}
        narrow = dtypes & STORED
        if narrow and name != "select":
            raise ModelError(
                f"'{name}' of {', '.join(sorted(narrow))}", hint="cast to a wider type, compute, cast back"
            )
        if len(dtypes) > 1:
            raise ModelError(f"operands of different types: {', '.join(sorted(dtypes))}")
        only = FUNCTIONS[name].only
        if only is not None and dtypes != {only}:
            raise ModelError(f"'{name}' of {', '.join(sorted(dtypes))}; it is defined for {only} alone")
        if name in OF_FLOATS and not dtypes <= FLOATS:
            raise ModelError(f"'{name}' of {', '.join(sorted(dtypes))}", hint="cast to floats before it")
        shape = broadcast_shape(*(x.shape for x in operands))
        return compute(shape, lambda *i: X.call(name, *(at(x, i) for x in operands)))

    return definition


for _name in FUNCTIONS:
    register(_name, _lifted(_name))


@op
def cast(x: Tensor, *, to: str) -> Formula:
    return compute(x.shape, lambda *i: X.cast(x[i], to))


@adjoint("cast")
def _cast_back(n: Node, g: Node, k: int) -> Node:
    """The gradient in the operand's type, as if nothing were rounded."""
    return node("cast", g, to=n.args[0].type.dtype)


@op
def bitcast(x: Tensor, *, to: str) -> Formula:
    """The same bits as elements of another type, which has as many."""
    if bits(x.dtype) != bits(to):
        raise ModelError(f"{x.dtype} has {bits(x.dtype)} bits, {to} has {bits(to)}")
    return compute(x.shape, lambda *i: X.bitcast(x[i], to))
