"""The share of rounding in bounds, and the distance of code from its model: the MLPerf Tiny networks, an MLP and a CNN.

`python -m benchmarks.certify.rounding --write docs/results/rounding.md` writes the page. Rounding: the widest bounds of
an output for one single input, with sums in any order and in that of the code. Differences: the bounds of code less
model near one input, as the ranges of both apart leave them, layer by layer, and with rows of linear bounds within the
network; those of a softmax are of its operand. int8 is calibrated with the data beside a model where there are any.
"""

from __future__ import annotations

import argparse
import tempfile
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
from edgec.certify.attack import rounded_into
from edgec.certify.bounds import Bounds
from edgec.certify.emitted import network_of
from edgec.certify.joint import Joint
from edgec.certify.network import Network
from edgec.certify.properties import Case, around
from edgec.check.float64 import exact_results
from edgec.check.network import inputs_for
from edgec.differentiate.composites import softmax_operand
from edgec.execute.executor import run_graph
from edgec.ir.graph import Graph, Node
from edgec.schedule.order import is_sum

#: Inputs that are drawn near one.
DRAWN = 200
#: The networks of MLPerf Tiny in floats.
TINY = {
    "autoencoder (ad01)": "ad01_fp32.onnx", "ResNet-8": "pretrainedResnet.onnx",
    "DS-CNN (kws)": "kws_ref_model_float32.onnx", "MobileNet (vww)": "vww_96_float.onnx",
}  # fmt: skip
HEAD = """# Rounding in bounds

Written by `python -m benchmarks.certify.rounding --write docs/results/rounding.md`. Inputs are those of the data that
comes with a model (autoencoder: the first frame of its sound; DS-CNN: the first of its spectra) or drawn. Devices are
this machine's ({device}), builds are `--numeric exact`.
The MLP has 256, 128, 128 and 10 values, the CNN three convolutions of 3x3 in 16, 32 and 32 channels of 16 x 16 and
smaller; their weights are drawn.

## One input: bounds are rounding alone

The widest bounds of an element, of the output or of what its softmax is of.

| network | sums | of an order that is not told | any order | order of the code | narrower by |
|---|---:|---:|---:|---:|---:|
"""
DIFFERENCES = """
## Code less model, for inputs at most 0.001 away

The most that bounds leave: "ranges" is the difference of the ranges of both, "layers" follows the difference from
layer to layer, "rows" has rows of linear bounds within the network too, for {seconds:g} seconds{clock}. "Met" is the
greatest difference at inputs near it, a few hundred of them drawn.

| network | numbers | ranges | layers | rows | narrower by | met |
|---|---|---:|---:|---:|---:|---:|
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


def _quantized(name: str, model: Path | onnx.ModelProto, built: Built) -> Built:
    """The network in int8; ``built`` is that in floats."""
    sets = data(name, built.graph.inputs)
    if sets is None:
        return edgec.build(model, numeric="exact", compile=False, quantize="int8", calibrate="random")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "calibration.npz"
        np.savez(path, **{key: np.concatenate([s[key] for s in sets[::5]]) for key in sets[0]})
        return edgec.build(model, numeric="exact", compile=False, quantize="int8", calibrate=path)


def _ends(n: Node) -> Node:
    found = softmax_operand(n)
    return n if found is None else found[0]


def rounding(name: str, built: Built) -> str:
    """A row of the first table."""
    widest = []
    given = (data(name, built.graph.inputs) or inputs_for(built.graph, None, 1, 0))[0]
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


def data(name: str, inputs: Sequence[Node]) -> list[dict[str, np.ndarray]] | None:
    """Inputs out of the data that comes with a model; None where there are none."""
    folder, (given,) = models_folder() / "mlperf_tiny", inputs
    if name.startswith("autoencoder"):
        rows = np.fromfile(folder / "ad01_normal_id_01_00000000_hist_librosa.bin", np.float32).reshape(-1, 640)
    elif name.startswith("DS-CNN"):
        rows = np.load(folder / "kws01_1000.npz")["x"].astype(np.float32)[::10]
    else:
        return None
    return [{str(given.attributes["name"]): row.reshape(given.type.shape)} for row in rows]


def difference(name: str, built: Built, numbers: str, seconds: float) -> str:
    """A row of the second table."""
    sets = (data(name, built.graph.inputs) or inputs_for(built.graph, None, 8, 0))[:8]
    assert built.stages.plan is not None
    orders = network_of(built.stages.plan, built.program, built.options).orders
    net = Joint(built.stages.plan, built.stages.graph, sets, orders)
    case = around(sets[0], {k: n.type for k, n in net.inputs.items()}, 1e-3)
    apart, near = 0.0, [0.0, 0.0]
    for k, tighten in enumerate((False, True)):
        net.until = time.perf_counter() + seconds / 2
        found = net.bounds(case.domain(net.inputs), tighten=tighten)
        for output, n in net.outputs.items():
            own, real = _ends(n), _ends(net.reference[output])
            net.until = time.perf_counter() + seconds / 2
            low, high = net._difference(own, real, found)
            near[k] = max(near[k], float(np.maximum(-low, high).max()))
            if not tighten:
                a, b = found.seen[own], found.seen[real]
                apart = max(apart, float(np.maximum(b.high - a.low, a.high - b.low).max()))
    layers, rows = near[0], min(near)
    met = _met(built, net, case)
    return f"| {name} | {numbers} | {apart:.3g} | {layers:.3g} | {rows:.3g} | {apart / rows:.1f} | {met:.2g} |\n"


def _met(built: Built, net: Joint, case: Case) -> float:
    """The greatest difference at drawn inputs: of outputs, or of what their softmaxes are of."""
    random, far = np.random.default_rng(1), 0.0
    own = {name: _ends(n) for name, n in net.outputs.items()}
    real = {name: _ends(n) for name, n in built.stages.graph.outputs}
    graphs = [Graph(g.inputs, tuple(ends.items())) for g, ends in ((net.graph, own), (built.stages.graph, real))]
    for k in range(DRAWN):
        part = {n: random.random(n.type.shape) if k % 2 else random.integers(0, 2, n.type.shape)
                for n in net.inputs.values()}  # fmt: skip
        points = {
            n: (case.low[name] + part[n] * (case.high[name] - case.low[name]))[None] for name, n in net.inputs.items()
        }
        given = rounded_into(case, points, 0)
        got, wanted = run_graph(graphs[0], given), exact_results(graphs[1], given)
        far = max(far, *(float(np.abs(got[n].astype(np.float64) - wanted[n]).max()) for n in own))
    return far


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--seconds",
        type=float,
        default=120.0,
        help="for a network: half of it for its values, half for rows of outputs",
    )
    parser.add_argument("--processor", action="store_true", help="seconds are those of the processor, not of a clock")
    parser.add_argument("--write", type=Path, help="the page")
    asked = parser.parse_args(arguments)
    if asked.processor:  # for a machine with other work on it; numpy is to have one thread
        time.perf_counter = time.process_time
    first, second, device = "", "", ""
    for name, model in models():
        for numbers in ("fp32", "int8"):
            built = edgec.build(model, numeric="exact", compile=False)
            if numbers == "int8":
                built = _quantized(name, model, built)
            device = f"{built.options.device.name}, vectors of {built.options.device.vector_lanes} floats"
            if numbers == "fp32":
                first += rounding(name, built)
                print(first.splitlines()[-1], flush=True)
            second += difference(name, built, numbers, asked.seconds)
            print(second.splitlines()[-1], flush=True)
    if asked.write is not None:
        clock = " of the processor" if asked.processor else ""
        text = HEAD.format(device=device) + first + DIFFERENCES.format(seconds=asked.seconds, clock=clock) + second
        files.replace(ROOT / asked.write, text)


if __name__ == "__main__":
    main()
