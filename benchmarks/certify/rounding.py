"""The share of rounding in bounds, and the distance of code from its model: the MLPerf Tiny networks, an MLP and a CNN.

`python -m benchmarks.certify.rounding --write docs/results/rounding.md` writes the page. Rounding: the widest bounds of
an output for one single input, with sums in any order and in that of the code. Differences: the bounds of code less
model near one input, layer by layer and as the ranges of both apart leave them; those of a softmax are of its operand.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import edgec
from benchmarks import ROOT
from benchmarks.networks.catalog import models_folder
from edgec import files
from edgec.build import Built
from edgec.certify.emitted import network_of
from edgec.certify.joint import Joint
from edgec.certify.network import Bounds, Network
from edgec.certify.properties import around
from edgec.check.network import inputs_for
from edgec.differentiate.composites import softmax_operand
from edgec.ir.graph import Node
from edgec.schedule.order import is_sum

#: The networks of MLPerf Tiny in floats.
TINY = {
    "autoencoder (ad01)": "ad01_fp32.onnx", "ResNet-8": "pretrainedResnet.onnx",
    "DS-CNN (kws)": "kws_ref_model_float32.onnx", "MobileNet (vww)": "vww_96_float.onnx",
}  # fmt: skip
HEAD = """# Rounding in bounds

Written by `python -m benchmarks.certify.rounding --write docs/results/rounding.md`. Inputs are drawn (the first of
seed 0), devices are this machine's ({device}), builds are `--numeric exact`.
The MLP has 256, 128, 128 and 10 values, the CNN three convolutions of 3x3 in 16, 32 and 32 channels of 16 x 16 and
smaller; their weights are drawn.

## One input: bounds are rounding alone

The widest bounds of an element, of the output or of what its softmax is of.

| network | sums | of an order that is not told | any order | order of the code | narrower by |
|---|---:|---:|---:|---:|---:|
"""
DIFFERENCES = """
## Code less model, for inputs at most 0.001 away

The most that bounds leave, without rows within the network, in {seconds:g} s a network: "ranges" is
the difference of the ranges of both, "layers" follows the difference from layer to layer.

| network | numbers | ranges | layers | narrower by | seconds |
|---|---|---:|---:|---:|---:|
"""


def models() -> Iterator[tuple[str, Path | onnx.ModelProto]]:
    for name, file in TINY.items():
        yield name, models_folder() / "mlperf_tiny" / file
    yield "MLP", made([("Gemm", (256, 128)), ("Gemm", (128, 128)), ("Gemm", (128, 10))], (1, 256))
    yield "CNN", made([("Conv", (16, 3, 3, 3)), ("Conv", (32, 16, 3, 3)), ("Conv", (32, 32, 3, 3))], (1, 3, 16, 16))


def made(layers: Sequence[tuple[str, tuple[int, ...]]], shape: tuple[int, ...]) -> onnx.ModelProto:
    random, nodes, tensors, last = np.random.default_rng(3), [], [], "x"
    for k, (op, size) in enumerate(layers):
        fan = size[0] if op == "Gemm" else int(np.prod(size[1:]))
        w = (random.normal(size=size) * (2 / fan) ** 0.5).astype(np.float32)
        tensors += [numpy_helper.from_array(w, f"w{k}"), numpy_helper.from_array(
            random.normal(size=size[1] if op == "Gemm" else size[0]).astype(np.float32) * 0.1, f"b{k}")]  # fmt: skip
        more = {"strides": [1 + (k > 0)] * 2} if op == "Conv" else {}
        nodes.append(helper.make_node(op, [last, f"w{k}", f"b{k}"], [f"a{k}"], name=f"a{k}", **more))
        last = f"a{k}"
        if k + 1 < len(layers):
            nodes.append(helper.make_node("Relu", [last], [f"r{k}"], name=f"r{k}"))
            last = f"r{k}"
    given = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
    made = helper.make_tensor_value_info(last, TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "g", [given], [made], tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def _ends(n: Node) -> Node:
    found = softmax_operand(n)
    return n if found is None else found[0]


def rounding(name: str, built: Built) -> str:
    """A row of the first table."""
    widest = []
    given = inputs_for(built.graph, None, 1, 0)[0]
    for any_order in (True, False):
        net = network_of(built.stages.plan, built.program, built.options, any_order)
        found = net.bounds(
            around(given, {k: n.type for k, n in net.inputs.items()}, 0.0).domain(net.inputs), tighten=False
        )
        widest.append(max(_width(net, found, _ends(n)) for n in net.outputs.values()))
    sums = [n for n in net.graph.nodes() if is_sum(n)]
    told = sum(n in net.orders and net.orders[n].is_known for n in sums)
    loose, own = widest
    return f"| {name} | {len(sums)} | {len(sums) - told} | {loose:.3g} | {own:.3g} | {loose / own:.1f} |\n"


def _width(net: Network, found: Bounds, n: Node) -> float:
    count = int(n.type.elements)
    rows = np.concatenate([np.eye(count), -np.eye(count)]).reshape(1, 2 * count, *n.type.shape)
    least, _ = net.back({n: rows}, found)
    return float((-least[0, count:] - least[0, :count]).max())


def difference(name: str, built: Built, numbers: str, seconds: float) -> str:
    """A row of the second table."""
    sets = inputs_for(built.graph, None, 8, 0)
    assert built.stages.plan is not None
    orders = network_of(built.stages.plan, built.program, built.options).orders
    begun = time.perf_counter()
    net = Joint(built.stages.plan, built.stages.graph, sets, orders)
    net.until = begun + seconds
    case = around(sets[0], {k: n.type for k, n in net.inputs.items()}, 1e-3)
    found = net.bounds(case.domain(net.inputs), tighten=False)
    apart, near = 0.0, 0.0
    for output, n in net.outputs.items():
        own, real = _ends(n), _ends(net.reference[output])
        net.until = max(begun + seconds, time.perf_counter() + seconds / 8)
        low, high = net._difference(own, real, found)
        near = max(near, float(np.maximum(-low, high).max()))
        a, b = found.seen[own], found.seen[real]
        apart = max(apart, float(np.maximum(b.high - a.low, a.high - b.low).max()))
    took = time.perf_counter() - begun
    return f"| {name} | {numbers} | {apart:.3g} | {near:.3g} | {apart / near:.1f} | {took:.0f} |\n"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--seconds",
        type=float,
        default=120.0,
        help="for the layers of a network, and an eighth more for rows of outputs",
    )
    parser.add_argument("--write", type=Path, help="the page")
    asked = parser.parse_args(arguments)
    first, second, device = "", "", ""
    for name, model in models():
        for numbers in ("fp32", "int8"):
            settings = {} if numbers == "fp32" else {"quantize": "int8", "calibrate": "random"}
            built = edgec.build(model, numeric="exact", compile=False, **settings)
            device = f"{built.options.device.name}, vectors of {built.options.device.vector_lanes} floats"
            if numbers == "fp32":
                first += rounding(name, built)
                print(first.splitlines()[-1], flush=True)
            second += difference(name, built, numbers, asked.seconds)
            print(second.splitlines()[-1], flush=True)
    if asked.write is not None:
        text = HEAD.format(device=device) + first + DIFFERENCES.format(seconds=asked.seconds) + second
        files.replace(ROOT / asked.write, text)


if __name__ == "__main__":
    main()
