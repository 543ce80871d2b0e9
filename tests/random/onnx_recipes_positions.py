"""Recipes for operators whose operands are positions, and for those whose result size depends on data."""

from __future__ import annotations

from math import prod

import numpy as np
from onnx_graphs import ANY, ELEMENTS, Maker, recipe
from onnx_reference import Rejected, Tensor


@recipe("Gather")
def gather(m: Maker, op: str) -> None:
    x = m.operand(ANY, range(1, 5), least=1)
    axis = m.axis(x)
    extent = x.shape[axis]
    places = m.uniform(-extent if m.opset >= 11 else 0, extent, m.shape(m.number(0, 2)), m.pick(("int64", "int32")))
    if places.array.size * (x.array.size // extent) > ELEMENTS:
        raise Rejected("large")
    m.node(op, x, places, axis=axis, keeps=True)


@recipe("GatherElements")
def gather_elements(m: Maker, op: str) -> None:
    x = m.operand(ANY, range(1, 5), least=1)
    axis = m.axis(x)
    shape = [m.number(1, e) for e in x.shape]
    m.node(op, x, m.uniform(-x.shape[axis], x.shape[axis], shape, m.pick(("int64", "int32"))), axis=axis, keeps=True)


@recipe("ScatterElements", "Scatter")
def scatter_elements(m: Maker, op: str) -> None:
    x = m.operand(("float32", "float32", "int64", "int32"), range(1, 5), least=1)
    axis = m.number(0, x.rank - 1)
    shape = [m.number(1, e) for e in x.shape]
    reduction = m.pick(("none", *(("add", "mul") if m.opset >= 16 else ()), *(("max", "min") if m.opset >= 18 else ())))
    if op == "Scatter" or reduction == "none":  # of two updates of one element either may be the last
        order = np.argsort(m.random.random((*x.shape[:axis], x.shape[axis], *x.shape[axis + 1 :])), axis)
        places = m.leaf(order[tuple(slice(s) for s in shape)].astype(np.int64))
        m.node(op, x, places, m.new(shape, x.dtype), axis=axis, keeps=True)
    else:
        places = m.uniform(-x.shape[axis], x.shape[axis], shape, "int64")
        m.node(op, x, places, m.new(shape, x.dtype), axis=axis, reduction=reduction)


def _places(m: Maker, x: Tensor, depth: int, lead: tuple[int, ...], first: int = 0) -> Tensor:
    columns = [m.random.integers(-e if m.opset >= 12 else 0, e, lead) for e in x.shape[first : first + depth]]
    return m.leaf(np.stack(columns, -1).astype(np.int64))


@recipe("GatherND")
def gather_nd(m: Maker, op: str) -> None:
    x = m.operand(ANY, range(1, 5), least=1)
    batch = m.number(0, min(1, x.rank - 1)) if m.opset >= 12 else 0
    lead = (*x.shape[:batch], *(m.number(1, 4) for _ in range(m.number(0 if batch else 1, 2))))
    m.node(op, x, _places(m, x, m.number(1, x.rank - batch), lead, batch), keeps=True,
           **({"batch_dims": batch} if batch else {}))  # fmt: skip


@recipe("ScatterND")
def scatter_nd(m: Maker, op: str) -> None:
    x = m.operand(("float32", "float32", "int64", "int32"), range(1, 5), least=1)
    depth = m.number(1, x.rank)
    reduction = m.pick(("none", *(("add", "mul") if m.opset >= 16 else ()), *(("max", "min") if m.opset >= 18 else ())))
    count = m.number(1, 4)
    if reduction == "none":
        flat = m.random.permutation(prod(x.shape[:depth]))[:count]
        places = m.leaf(np.stack(np.unravel_index(flat, x.shape[:depth]), -1).astype(np.int64))
    else:
        places = _places(m, x, depth, (count,))
    updates = m.new((*places.shape[:-1], *x.shape[depth:]), x.dtype)
    m.node(op, x, places, updates, **({"reduction": reduction} if reduction != "none" else {}))


@recipe("OneHot")
def one_hot(m: Maker, op: str) -> None:
    places = m.uniform(-3, 5, m.shape(m.number(0, 3)), m.pick(("int64", "int32")))
    m.node(op, places, m.constant(m.pick((4, [4])), "int64"), m.new((2,), m.pick(("float32", "int64"))),
           axis=m.number(-places.rank - 1, places.rank))  # fmt: skip


@recipe("TensorScatter")
def tensor_scatter(m: Maker, op: str) -> None:
    x = m.operand(("float32",), (3, 4), least=2)
    kept = x.shape[-2]
    count = m.number(1, kept)
    update = m.new((*x.shape[:-2], count, x.shape[-1]))
    mode = m.pick(("linear", "circular"))
    where = m.uniform(0, kept - count + 1 if mode == "linear" else kept, x.shape[:1], "int64")
    m.node(op, x, update, where, mode=mode, keeps=True)


@recipe("NonZero")
def nonzero(m: Maker, op: str) -> None:
    m.node(op, m.operand(("float32", "int64", "bool"), range(1, 4), least=1), sizes=True)


@recipe("Compress")
def compress(m: Maker, op: str) -> None:
    x = m.operand(ANY, range(1, 5), least=1)
    axis = m.pick((None, m.axis(x)))
    extent = x.array.size if axis is None else x.shape[axis]
    chosen = m.new((m.number(1, extent),), "bool")
    m.node(op, x, chosen, sizes=True, keeps=True, **({} if axis is None else {"axis": axis}))


@recipe("Unique")
def unique(m: Maker, op: str) -> None:
    x = m.operand(("float32", "int64", "int8"), range(1, 4), least=1)
    if x.dtype == "float32":  # computed ones may be equal in one order of their sums alone
        x = m.leaf(np.round(m.random.standard_normal(x.shape) * 2).astype(np.float32))
    m.node(op, x, outputs=[True, *(m.chance(2) for _ in range(3))], sorted=m.number(0, 1), sizes=True, keeps=True)


@recipe("NonMaxSuppression")
def suppression(m: Maker, op: str) -> None:
    n, b, c = m.number(1, 12), m.number(1, 2), m.number(1, 3)
    corner = m.random.random((b, n, 2)) * 5
    boxes = np.concatenate([corner, corner + m.random.random((b, n, 2)) * 3], 2).astype(np.float32)
    limits = (m.constant([m.number(1, 5)], "int64"), m.constant([0.3], "float32"), m.constant([0.2], "float32"))
    scores = m.leaf(m.random.random((b, c, n)).astype(np.float32))
    m.node(op, m.leaf(boxes), scores, *limits, center_point_box=m.number(0, 1), sizes=True)
