"""Single operators of odd sizes beside onnxruntime: cliffs that hide in networks whose other kernels are fast.

    python -m benchmarks.zoo.operators [--only WORDS] [--seconds 0.3] [--page docs/results/operators.md]

Each is a network of one operator with random weights, whose input and output have channels first. Times are minima on
one thread, the lesser of wall and CPU time, of turns; an error is relative to the largest value.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
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
from benchmarks.zoo.operator_cases import OPERATORS, Ints, Single
from benchmarks.zoo.page import processor
from edgec.artifact.network import Network
from edgec.bench.timing import thread_seconds

OPSET = 21
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


def model(one: Single) -> onnx.ModelProto:
    """The network of one operator."""
    random = np.random.default_rng(0)
    inputs = [
        helper.make_tensor_value_info(f"x{k}", helper.np_dtype_to_tensor_dtype(np.dtype(given.dtype)), given.shape)
        if isinstance(given, Ints)
        else helper.make_tensor_value_info(f"x{k}", TensorProto.FLOAT, given)
        for k, given in enumerate(one.inputs)
    ]
    names, weights = [i.name for i in inputs], []
    for k, given in enumerate(one.weights):
        if not isinstance(given, (str, np.ndarray)):
            given = (random.standard_normal(given) / max(1, np.prod(given[1:])) ** 0.5).astype(np.float32)
        if not isinstance(given, str):
            weights.append(numpy_helper.from_array(given, f"w{k}"))
        names.append("" if isinstance(given, str) else f"w{k}")
    steps = [(one.operator, names[:2] if one.then else names, one.attributes), *one.then]
    nodes = [
        helper.make_node(operator, [f"y{k}" if i == "y" else i for i in read], [f"y{k + 1}"], **attributes)
        for k, (operator, read, attributes) in enumerate(steps)
    ]
    nodes[-1].output[0] = "y"
    if one.operator == "TopK":
        nodes[-1].output.append("indices")
    output = onnx.ValueInfoProto(name="y")
    graph = helper.make_graph(nodes, "single", inputs, [output], weights)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=10)
    return onnx.shape_inference.infer_shapes(made)


def row(name: str, one: Single, seconds: float) -> dict[str, Any]:
    """Times of both sides in microseconds, and the error."""
    proto = model(one)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options, ["CPUExecutionProvider"])
    random = np.random.default_rng(1)
    arrays = {
        f"x{k}": random.integers(i.low, i.high, i.shape).astype(i.dtype)
        if isinstance(i, Ints)
        else random.standard_normal(i).astype(np.float32)
        for k, i in enumerate(one.inputs)
    }
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
    got, wanted = got.astype(np.float64), wanted.astype(np.float64)
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
