"""Short spellings for small graphs of core operators, and of what importing an ONNX model composes from them."""

from __future__ import annotations

from math import prod

import numpy as np
from chance import RANDOM

from edgec import ops
from edgec.ir.graph import Graph, Node, constant, placeholder, rewrite, topological
from edgec.ir.types import DTYPES, Type


def value(name: str, *shape: int, dtype: str = "f32") -> Node:
    return placeholder(name, Type(dtype, shape))


def coded_weights(k: int, n: int, group: int) -> Node:
    """[k, n] of four bits, with a scale for each group along k."""
    codes, scale = RANDOM.integers(-8, 8, (k, n)), RANDOM.uniform(0.1, 1, (k // group, n))
    parts = (constant(codes.astype(DTYPES["i4"])), constant(scale.astype(np.float32)))
    return ops.node("dequantize", *parts, axis=0, block=group)


def weights(*shape: int, scale: float = 1.0) -> Node:
    return constant((RANDOM.standard_normal(shape) * scale).astype(np.float32))


def number(x: float) -> Node:
    return constant(np.array(x, np.float32))


def graph(*outputs: Node) -> Graph:
    inputs = tuple(n for n in topological(outputs) if n.op == "input")
    return Graph(inputs, tuple((f"y{k}", n) for k, n in enumerate(outputs)))


# ---- composites, as importing an ONNX model builds them


def relu(x: Node) -> Node:
    return ops.node("max", x, number(0))


def clip(x: Node) -> Node:
    return ops.node("min", relu(x), number(1.5))


def silu(x: Node) -> Node:
    return ops.node("mul", x, ops.node("sigmoid", x))


def gelu(x: Node) -> Node:
    inner = ops.node("add", ops.node("erf", ops.node("mul", x, number(0.5**0.5))), number(1))
    return ops.node("mul", ops.node("mul", x, number(0.5)), inner)


def leaky(x: Node) -> Node:
    return ops.node("select", ops.node("lt", x, number(0)), ops.node("mul", x, number(0.1)), x)


def total(x: Node, *axes: int, combine: str = "add") -> Node:
    return ops.node("reduce", x, combine=combine, axes=axes)


def mean(x: Node, *axes: int) -> Node:
    count = prod(x.type.shape[d] for d in axes)
    if not isinstance(count, int):
        return ops.node("div", total(x, *axes), ops.node("cast", ops.node("size", value=count), to="f32"))
    return ops.node("mul", total(x, *axes), number(1 / count))


def softmax(x: Node, *axes: int) -> Node:
    e = ops.node("exp", ops.node("sub", x, total(x, *axes, combine="max")))
    return ops.node("div", e, total(e, *axes))


def layernorm(x: Node, *axes: int) -> Node:
    d = ops.node("sub", x, mean(x, *axes))
    scale = ops.node("sqrt", ops.node("add", mean(ops.node("mul", d, d), *axes), number(1e-3)))
    shape = [n if d in axes else 1 for d, n in enumerate(x.type.shape)]
    return ops.node("add", ops.node("mul", ops.node("div", d, scale), weights(*shape)), weights(*shape))


def to_bytes(x: Node, scale: float = 20.0, zero: float = 100.0) -> Node:
    """x rounded to uint8 as a quantizer does."""
    made = ops.node("add", ops.node("round", ops.node("mul", x, number(scale))), number(zero))
    return ops.node("cast", ops.node("min", ops.node("max", made, number(0.0)), number(255.0)), to="u8")


def pad(x: Node, *amounts: int | tuple[int, int], to: float = 0.0) -> Node:
    sides = [a if isinstance(a, tuple) else (a, a) for a in amounts]
    sides = [(0, 0)] * (x.type.rank - len(sides)) + sides
    return ops.node("pad", x, before=tuple(b for b, _ in sides), after=tuple(a for _, a in sides), value=to)


def conv(x: Node, w: Node, stride: int | tuple[int, ...] = 1, dilation: int = 1, groups: int = 1) -> Node:
    rank = x.type.rank - 2
    strides = stride if isinstance(stride, tuple) else (stride,) * rank
    return ops.node("conv", x, w, strides=strides, dilations=(dilation,) * rank, groups=groups)


def pool(x: Node, combine: str, kernel: tuple[int, ...], stride: int = 1, dilation: int = 1) -> Node:
    rank = len(kernel)
    return ops.node("pool", x, combine=combine, kernel=kernel, strides=(stride,) * rank, dilations=(dilation,) * rank)


def transpose(x: Node, *perm: int) -> Node:
    return ops.node("transpose", x, perm=perm)


def arrays(graph: Graph, seed: int) -> dict[str, np.ndarray]:
    """Random inputs: normal floats, any bytes, and small whole numbers of every other type."""
    random = np.random.default_rng(seed)
    made: dict[str, np.ndarray] = {}
    for n in graph.inputs:
        dtype = DTYPES[n.type.dtype]
        if n.type.dtype in ("f16", "bf16") or dtype.kind == "f":
            made[n.attributes["name"]] = random.standard_normal(n.type.shape).astype(dtype)
        elif n.type.dtype in ("i8", "u8"):  # the whole range: sums of their products are what is to be right
            made[n.attributes["name"]] = random.integers(0, 256, n.type.shape).astype(np.uint8).view(dtype)
        else:
            low = 0 if dtype.kind in "ub" else -4
            made[n.attributes["name"]] = random.integers(low, 2 if dtype.kind == "b" else 5, n.type.shape).astype(dtype)
    return made


def doubled(graph: Graph) -> Graph:
    """The same graph in double precision."""

    def change(node, args):  # type: ignore[no-untyped-def]
        if node.type.dtype == "f32" and node.op == "input":
            return placeholder(node.attributes["name"], Type("f64", node.type.shape))
        if node.type.dtype == "f32" and node.is_const:
            return constant(node.value.astype(np.float64))
        if node.op in ("input", "const"):
            return node
        attrs = node.attributes
        if node.op == "cast" and attrs["to"] == "f32":
            attrs["to"] = "f64"
        return ops.node(node.op, *args, **attrs)

    inputs = tuple(change(n, ()) for n in graph.inputs)
    return Graph(inputs, rewrite(graph, change).outputs)


#: Around the vectors of 4, 8 and 16 floats that the targets have, and around tiles of several of them.
SIZES = (1, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 53)


Named = tuple[str, Graph]
