"""Quantization to 8 bits, as pairs of quantizing and dequantizing around what is multiplied; laws do the rest.

Weights get a scale a channel and no zero point; what they are multiplied by is stored as bytes with one scale and
one zero point, by the range that an observer finds in calibration data. The pairs are ordinary operators: products
of bytes are what the laws of quantized arithmetic make of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from edgec import ops
from edgec.compress.observe import OBSERVERS, sampled, scale_and_zero
from edgec.errors import UsageError
from edgec.ir.evaluate import run
from edgec.ir.graph import Graph, Node, constant
from edgec.rewrite.affine import value_of
from edgec.rewrite.facts import is_static

Arrays = Mapping[str, np.ndarray]
#: What only moves or picks elements, so that bytes can be moved or picked instead.
_PICKING = frozenset({"reshape", "transpose", "pad", "slice"})


def quantized(graph: Graph, samples: Iterable[Arrays], observer: str = "minmax") -> Graph:
    """``graph`` with every convolution and matrix product by constant weights on quantized operands.

    Raises UsageError where there is nothing to quantize, or the samples are none or make no numbers.
    """
    products = {n: k for n in graph.operations() if (k := _weights_of(n)) is not None}
    tensors = list(dict.fromkeys(_source(n.args[1 - k]) for n, k in products.items()))
    if not tensors:
        hint = "it has no convolution or matrix product of f32 by constant weights: leave out --quantize"
        raise UsageError("there is nothing to quantize", hint=hint)
    ranges = _ranges(graph, tensors, samples, observer)
    new: dict[Node, Node] = {}
    seen: dict[Node, Node] = {}  # as readers see it: quantized where it is to be
    for n in graph.nodes():
        args = [seen[a] for a in n.args]
        if n in products:
            k = products[n]
            args[k] = _narrow_weights(n, k)
        new[n] = n if tuple(args) == n.args else ops.node(n.op, *args, **n.attributes)
        seen[n] = _pair(new[n], *ranges[n]) if n in ranges else new[n]
    origin = {new[n]: names for n, names in graph.origin.items() if n in new}
    outputs = tuple((name, new[n]) for name, n in graph.outputs)
    return Graph(graph.inputs, outputs, graph.name, origin, graph.metadata)


def _weights_of(n: Node) -> int | None:
    """Which operand of a sum of products are its constant weights."""
    if n.op not in ("conv", "matmul") or n.type.dtype != "f32":
        return None
    found = [k for k in ((1,) if n.op == "conv" else (1, 0)) if is_static(n.args[k])]
    return found[0] if len(found) == 1 and n.args[found[0]].type.elements else None


def _source(n: Node) -> Node:
    """What is stored: the tensor that is moved or picked to make an operand."""
    while n.args and (
        (n.op in _PICKING and (n.op != "pad" or n.attributes["value"] == 0))
        or (n.op == "pool" and n.attributes["combine"] == "max" and n.args[0].op != "pad")
    ):
        n = n.args[0]
    return n


def _ranges(
    graph: Graph, tensors: list[Node], samples: Iterable[Arrays], observer: str
) -> dict[Node, tuple[float, int]]:
    """Scale and zero point of every tensor."""
    taps = Graph(graph.inputs, tuple((f"t{k}", n) for k, n in enumerate(tensors)), graph.name)
    kept: dict[str, list[np.ndarray]] = {}
    for arrays in samples:
        for name, values in run(taps, dict(arrays)).items():
            kept.setdefault(name, []).append(sampled(values))
    if not kept:
        raise UsageError("there are no calibration data")
    found = {}
    for k, n in enumerate(tensors):
        values = np.concatenate(kept[f"t{k}"]).astype(np.float64)
        if not values.size or not np.isfinite(values).all():
            named = ", ".join(graph.names(n)) or n.op
            raise UsageError("calibration data lead to infinities or no numbers", where=named)
        found[n] = scale_and_zero(*OBSERVERS[observer](values))
    return found


def _pair(x: Node, scale: float, zero: int) -> Node:
    """x quantized to bytes and back."""
    s, z = (constant(np.array(v, np.float32)) for v in (scale, zero))
    y = ops.node("add", ops.node("round", ops.node("div", x, s)), z)
    low, high = (constant(np.array(v, np.float32)) for v in (0, 255))
    q = ops.node("cast", ops.node("min", ops.node("max", y, low), high), to="u8")
    return ops.node("mul", ops.node("sub", ops.node("cast", q, to="f32"), z), s)


def _narrow_weights(n: Node, k: int) -> Node:
    """The weights as bytes with a scale for each channel of the result."""
    w = value_of(n.args[k]).astype(np.float64)
    summed = tuple(range(1, w.ndim)) if n.op == "conv" else (w.ndim - 2 if k == 1 else w.ndim - 1,)
    scale = (np.abs(w).max(axis=summed, keepdims=True) / 127).astype(np.float32)
    scale = np.where(scale > 0, scale, np.float32(1))
    q = constant(np.clip(np.rint(w / scale), -127, 127).astype(np.int8))
    return ops.node("mul", ops.node("cast", q, to="f32"), constant(scale))
