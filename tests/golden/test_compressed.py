"""Findings of compression and pruning in small networks: layers, their gain on devices, channels, costs and masks.

``pytest tests/golden --update-golden`` writes the files of ``compressed``; look at those that changed before they
are committed.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from edgec import ops
from edgec.compress.calibration import nearest, weight_scale
from edgec.compress.dynamic import dynamic
from edgec.compress.four_bits import may_be_four_bits
from edgec.compress.gain import gain
from edgec.compress.layers import Layer, layers_of
from edgec.compress.prune.allot import LEVELS, allotted
from edgec.compress.prune.labels import labelled
from edgec.compress.prune.layerwise import by_magnitude, spread
from edgec.compress.prune.operands import candidates, matrix, taps
from edgec.compress.prune.scheme import parsed
from edgec.compress.readers import readers_of
from edgec.device.load import load_device
from edgec.ir.graph import Graph, Node, constant, placeholder
from edgec.ir.text import show
from edgec.ir.types import Type

FOLDER = Path(__file__).with_name("compressed")
DEVICES = (
    "x86_64_avx512", "x86_64_avx2", "cortex_a55", "neoverse_v1", "cortex_m7", "cuda_sm90", "jetson_orin_nano",
    "adreno_740",
)  # fmt: skip
SCHEMES = ("vector=4", "block=8x2", "pattern=4of9", "2:4")


def numbers(*shape: int) -> Node:
    count = int(np.prod(shape))
    return constant((((np.arange(count) * 37) % 101 - 50) / 64).astype(np.float32).reshape(shape))


def scalar(value: float) -> Node:
    return constant(np.array(value, np.float32))


def convolved(x: Node, outputs: int, size: int, groups: int = 1) -> Node:
    around = (0, 0, size // 2, size // 2)
    padded = ops.node("pad", x, before=around, after=around, value=0.0) if size > 1 else x
    w = numbers(outputs, int(x.type.shape[1]) // groups, size, size)
    y = ops.node("conv", padded, w, strides=(1, 1), dilations=(1, 1), groups=groups)
    return ops.node("add", y, numbers(1, outputs, 1, 1))


def rectified(x: Node) -> Node:
    return ops.node("max", x, scalar(0))


def residual() -> Node:
    """A residual, a depthwise and a pointwise convolution, a concatenation of half of the channels, a dense layer."""
    x = placeholder("x", Type("f32", (1, 8, 6, 6)))
    first = rectified(convolved(x, 16, 3))
    second = rectified(ops.node("add", convolved(first, 16, 3), first))
    depthwise = rectified(convolved(second, 16, 3, groups=16))
    half = ops.node("slice", depthwise, starts=(0, 4, 0, 0), steps=(1, 1, 1, 1), shape=(1, 8, 6, 6))
    joined = ops.node("concat", convolved(second, 24, 1), half, axis=1)
    small = ops.node("reshape", ops.node("reduce", rectified(joined), combine="add", axes=(2, 3)), shape=(1, 32))
    return ops.node("matmul", small, numbers(32, 10))


def perceptron() -> Node:
    """Rows by weights on either side, split and gated; the products of one operand, and one by itself."""
    x = placeholder("x", Type("f32", (5, 16)))
    both = ops.node("tanh", ops.node("matmul", x, numbers(16, 48)))
    left, right = (ops.node("slice", both, starts=(0, k), steps=(1, 1), shape=(5, 24)) for k in (0, 24))
    gated = ops.node("mul", left, ops.node("sigmoid", right))
    turned = ops.node("matmul", numbers(12, 24), ops.node("transpose", gated, perm=(1, 0)))
    return ops.node("matmul", ops.node("transpose", turned, perm=(1, 0)), ops.node("add", turned, numbers(12, 1)))


def temporal() -> Node:
    """Convolutions along time with two groups, a pool, channels moved last before a dense layer."""
    x = placeholder("x", Type("f32", (1, 4, 12)))
    y = ops.node("conv", x, numbers(12, 2, 3), strides=(1,), dilations=(2,), groups=2)
    y = rectified(ops.node("mul", y, numbers(1, 12, 1)))
    y = ops.node("pool", y, kernel=(2,), strides=(2,), dilations=(1,), combine="max")
    last = ops.node("reshape", ops.node("transpose", y, perm=(0, 2, 1)), shape=(4, 12))
    return ops.node("matmul", rectified(ops.node("matmul", last, numbers(12, 8))), numbers(8, 3))


NETWORKS: dict[str, Callable[[], Node]] = {f.__name__: f for f in (residual, perceptron, temporal)}


def network(name: str) -> Graph:
    y = NETWORKS[name]()
    return Graph(
        (placeholder("x", next(n.type for n in Graph((), (("y", y),)).nodes() if n.op == "input")),), (("y", y),)
    )


def of_layer(layer: Layer) -> Iterator[str]:
    w = layer.weights
    scale = weight_scale(layer)
    integers = zlib.crc32(np.ascontiguousarray(nearest(layer, scale).astype(np.int64)).tobytes())
    groups = [g for g in (4, 8, 16) if may_be_four_bits(layer, g)]
    yield (
        f"{layer.node.op} {w.shape} side {layer.side} sums {layer.summed} channel {layer.channel} macs {layer.macs} "
        f"reads {layer.source.op} part {layer.is_part} scale {scale.shape} {integers:08x} groups {groups}"
    )
    for name in DEVICES:
        found = gain(layer, load_device(name))
        times = [found.floats, found.bytes, *([] if found.bf16 is None else [found.bf16])]
        yield f"  {name} {' '.join(f'{t:.4g}' for t in times)} saves {found.saved:.3g} {found.saved_by_bf16:.3g}"


def of_network(name: str) -> Iterator[str]:
    graph = network(name)
    layers = layers_of(graph)
    yield f"{name}: {len(layers)} layers, {len(readers_of(graph))} with readers"
    for layer in layers:
        yield from of_layer(layer)
    labels = labelled(graph)
    for n in graph.operations():
        if (along := labels.of(n)) is not None:
            roots = [labels.groups.find(int(a)) for a in along.atoms]
            frozen = "".join("f" if labels.groups.is_frozen(int(a)) else "." for a in along.atoms)
            yield f"  {n.op} {n.type} along {along.axis} {zlib.crc32(repr(roots).encode()):08x} {frozen}"
    found = candidates(graph)
    for text in SCHEMES:
        scheme = parsed(text, 4)
        for layer, plan in spread(found, scheme, 0.6).items():
            zeros = by_magnitude(layer, plan).matrix == 0
            mask = f"{zeros.sum()} {zlib.crc32(np.packbits(zeros).tobytes()):08x}"
            yield f"  {text} {layer.node.op} {matrix(layer).shape} {taps(layer)} {plan.sparsity:.3f} {mask}"
    costs = {la: {at: (k + 1) * at**2 / (1.01 - at) for at in LEVELS} for k, la in enumerate(found)}
    for share in (0.3, 0.6, 0.9):
        plans = allotted(costs, parsed("vector=4", 4), share, found)
        yield f"  {share} of all: {' '.join(f'{found.index(la)}: {plan.sparsity:.3f}' for la, plan in plans.items())}"
    yield f"  dynamic {zlib.crc32(show(dynamic(graph, layers)).encode()):08x}"


@pytest.mark.parametrize("name", NETWORKS)
def test_compressed(name: str, update_golden: bool) -> None:
    lines = list(of_network(name))
    kept = FOLDER / f"{name}.txt"
    if update_golden:
        FOLDER.mkdir(exist_ok=True)
        kept.write_text("\n".join(lines) + "\n", encoding="utf-8")
    assert kept.read_text(encoding="utf-8").splitlines() == lines, "pytest tests/golden --update-golden"
