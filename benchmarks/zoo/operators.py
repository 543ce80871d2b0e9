"""Single operators of odd sizes beside onnxruntime: cliffs that hide in networks whose other kernels are fast.

    python -m benchmarks.zoo.operators [--only WORDS] [--seconds 0.3] [--page docs/results/operators.md]

Each is a network of one operator with random weights, whose input and output have channels first. Times are minima on
one thread, the lesser of wall and CPU time, of turns; an error is relative to the largest value.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

import edgec
from benchmarks import measure
from benchmarks.zoo.page import processor
from edgec.artifact.network import Network
from edgec.bench.timing import thread_seconds

Shape = Sequence[int]
#: Turns of both sides, at least.
TURNS = 40
HEAD = """\
# Operators

Single operators of odd sizes beside onnxruntime {version}, on one thread of {processor}, {date}. Each is a network of
its own with random weights, whose input and output have channels first: what a network of many operators pays once, to
have channels last, an operator alone pays for itself. Times are minima of turns; below 1 edgec is faster. An error is
the largest difference over the largest value.

| operator | us | onnxruntime, us | ratio | error |
|---|---|---|---|---|
{rows}

```sh
python -m benchmarks.zoo.operators --page docs/results/operators.md
```
"""


@dataclass(frozen=True)
class Single:
    """One operator: the shapes of its inputs and of its weights, and its attributes."""

    operator: str
    inputs: Sequence[Shape]
    weights: Sequence[Shape] = ()
    attributes: Mapping[str, Any] = field(default_factory=dict)


def conv(shape: Shape, weights: Shape, stride: int = 1, pad: int = 0, dilation: int = 1, groups: int = 1) -> Single:
    rank = len(shape) - 2
    attributes = {"strides": [stride] * rank, "pads": [pad] * 2 * rank, "dilations": [dilation] * rank, "group": groups}
    return Single("Conv", [shape], [weights], attributes)


def pool(operator: str, shape: Shape, kernel: int, pad: int) -> Single:
    return Single(operator, [shape], (), {"kernel_shape": [kernel] * 2, "pads": [pad] * 4})


OPERATORS: Mapping[str, Single] = {
    "conv 3x3 stride 2, deep, 5x5": conv((1, 2048, 5, 5), (128, 2048, 3, 3), 2, 1),
    "conv 3x3, 3x3 image": conv((1, 512, 3, 3), (512, 512, 3, 3), 1, 1),
    "conv 3x3, 4x4, batch 4": conv((4, 512, 4, 4), (512, 512, 3, 3), 1, 1),
    "conv 1x1, one pixel, batch 8": conv((8, 1024, 1, 1), (256, 1024, 1, 1)),
    "conv 11x11 stride 4 of 3 channels": conv((1, 3, 224, 224), (96, 3, 11, 11), 4, 2),
    "conv 7x7 stride 2 of 3 channels": conv((1, 3, 224, 224), (64, 3, 7, 7), 2, 3),
    "conv 5x5": conv((1, 64, 28, 28), (64, 64, 5, 5), 1, 2),
    "conv 3x3 to 36 channels": conv((1, 256, 50, 50), (36, 256, 3, 3), 1, 1),
    "conv 3x3 to 1 channel": conv((1, 32, 128, 128), (1, 32, 3, 3), 1, 1),
    "conv 5x5 stride 3, 17x19": conv((1, 48, 17, 19), (80, 48, 5, 5), 3, 1),
    "conv 3x3 dilated by 6": conv((1, 256, 32, 32), (256, 256, 3, 3), 1, 6, 6),
    "conv 3x3 of 4 groups": conv((1, 96, 28, 28), (96, 24, 3, 3), 1, 1, groups=4),
    "conv 3x3 of 40 groups": conv((1, 120, 28, 28), (120, 3, 3, 3), 1, 1, groups=40),
    "depthwise 31x31": conv((1, 64, 28, 28), (64, 1, 31, 31), 1, 15, groups=64),
    "depthwise 3x3 stride 2, 7x7": conv((1, 960, 7, 7), (960, 1, 3, 3), 2, 1, groups=960),
    "depthwise 3x3 of two outputs": conv((1, 64, 56, 56), (128, 1, 3, 3), 1, 1, groups=64),
    "patches of 32x32": conv((1, 3, 224, 224), (768, 3, 32, 32), 32),
    "conv of video": conv((1, 16, 8, 28, 28), (32, 16, 3, 3, 3), 1, 1),
    "conv of sound, 80 to 512": conv((1, 80, 3000), (512, 80, 3), 1, 1),
    "conv of sound, 10 stride 5": conv((1, 512, 999), (512, 512, 10), 5),
    "transposed conv 4x4 stride 2": Single(
        "ConvTranspose", [(1, 256, 16, 16)], [(256, 128, 4, 4)], {"strides": [2, 2], "pads": [1] * 4}
    ),
    "transposed conv 2x2 stride 2": Single("ConvTranspose", [(1, 64, 64, 64)], [(64, 3, 2, 2)], {"strides": [2, 2]}),
    "average pool 3x3": pool("AveragePool", (1, 256, 35, 35), 3, 1),
    "max pool 13x13": pool("MaxPool", (1, 256, 20, 20), 13, 6),
    "product of a row": Single("MatMul", [(1, 4096)], [(4096, 4096)]),
    "product, long sums": Single("MatMul", [(9, 18432)], [(18432, 128)]),
    "product, few of everything": Single("MatMul", [(300, 7)], [(7, 5)]),
    "product by a vector": Single("MatMul", [(64, 4096)], [(4096, 1)]),
    "products of two inputs": Single("MatMul", [(12, 128, 64), (12, 64, 128)]),
    "softmax of rows": Single("Softmax", [(12, 197, 197)], (), {"axis": -1}),
    "softmax of columns": Single("Softmax", [(1000, 50)], (), {"axis": 0}),
    "transpose to channels last": Single("Transpose", [(1, 64, 112, 112)], (), {"perm": [0, 2, 3, 1]}),
    "transpose of a matrix": Single("Transpose", [(1000, 1001)], (), {"perm": [1, 0]}),
    "mean of columns": Single("ReduceMean", [(2048, 333)], (), {"axes": [0]}),
    "layer normalization": Single("LayerNormalization", [(197, 768)], [(768,), (768,)], {"axis": -1}),
    "instance normalization": Single("InstanceNormalization", [(1, 64, 128, 128)], [(64,), (64,)]),
    "local response normalization": Single("LRN", [(1, 96, 55, 55)], (), {"size": 5}),
    "erf": Single("Erf", [(1, 512, 3072)]),
    "tanh": Single("Tanh", [(1, 100000)]),
}  # fmt: skip


def model(one: Single) -> onnx.ModelProto:
    """The network of one operator."""
    random = np.random.default_rng(0)
    inputs = [helper.make_tensor_value_info(f"x{k}", TensorProto.FLOAT, s) for k, s in enumerate(one.inputs)]
    weights = [
        numpy_helper.from_array((random.standard_normal(s) / max(1, np.prod(s[1:])) ** 0.5).astype(np.float32), f"w{k}")
        for k, s in enumerate(one.weights)
    ]
    given = [*(i.name for i in inputs), *(w.name for w in weights)]
    node = helper.make_node(one.operator, given, ["y"], **one.attributes)
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph([node], "single", inputs, [output], weights)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return onnx.shape_inference.infer_shapes(made)


def row(name: str, one: Single, seconds: float) -> dict[str, Any]:
    """Times of both sides in microseconds, and the error."""
    proto = model(one)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options, ["CPUExecutionProvider"])
    random = np.random.default_rng(1)
    arrays = {f"x{k}": random.standard_normal(s).astype(np.float32) for k, s in enumerate(one.inputs)}
    (wanted,) = session.run(None, arrays)
    binding = session.io_binding()
    for key, value in arrays.items():
        binding.bind_cpu_input(key, value)
    binding.bind_output("y", "cpu")
    with TemporaryDirectory() as folder:
        edgec.build(proto, f"{folder}/built", threads=1)
        with Network(f"{folder}/built", 1) as network:
            (got,) = network.run(arrays).values()
            call, _ = network.bind(arrays)
            calls = (call, lambda: session.run_with_iobinding(binding))
            own, peer = (min(t) for t in measure.take_turns(calls, seconds, thread_seconds, TURNS))
    error = float(np.abs(got - wanted).max() / np.abs(wanted).max())
    return {"operator": name, "us": own * 1e6, "onnxruntime": peer * 1e6, "ratio": own / peer, "error": error}


def line(r: Mapping[str, Any]) -> str:
    """A line of the page's table."""
    return f"| {r['operator']} | {r['us']:.4g} | {r['onnxruntime']:.4g} | {r['ratio']:.2f} | {r['error']:.0e} |"


def main(arguments: list[str] | None = None) -> int:
    p = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    p.add_argument("--only", default="", help="operators whose names contain this")
    p.add_argument("--seconds", type=float, default=0.3, help="time of the turns of each")
    p.add_argument("--page", type=Path, help="write the page")
    options = p.parse_args(arguments)
    lines = []
    for name, one in OPERATORS.items():
        if options.only in name:
            lines.append(line(row(name, one, options.seconds)))
            print(lines[-1], flush=True)
    if options.page:
        about = {"version": onnxruntime.__version__, "processor": processor(), "date": date.today().isoformat()}
        options.page.write_text(HEAD.format(rows="\n".join(lines), **about), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
