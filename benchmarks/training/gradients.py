"""Gradients of whole networks by all of their weights, beside PyTorch's autograd in double precision.

    python -m benchmarks.training.gradients [--only PATTERN]

One line a network: the weights, the operators of the network and of network and gradients together, and the largest
difference over the largest gradient of a weight: of the graph evaluated in fp32, and of the compiled C.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from fnmatch import fnmatch

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper

from benchmarks.training.networks import models
from edgec import pipeline
from edgec.check import in_torch
from edgec.differentiate import cut_paths, gradients
from edgec.frontend.onnx import import_model
from edgec.ir import evaluate
from edgec.ir.graph import Graph, placeholder
from edgec.options import resolve

Arrays = Mapping[str, np.ndarray]
LIMIT, LEAST = 1e-4, 1e-3


def with_open_weights(model: onnx.ModelProto) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """The model with its floating-point weights as inputs, and their values."""
    opened = onnx.ModelProto()
    opened.CopyFrom(model)
    weights = {}
    kept = []
    for tensor in opened.graph.initializer:
        if tensor.data_type != TensorProto.FLOAT or tensor.name.endswith("scale"):
            kept.append(tensor)
            continue
        weights[tensor.name] = numpy_helper.to_array(tensor)
        if tensor.name not in {i.name for i in opened.graph.input}:
            given = helper.make_tensor_value_info(tensor.name, TensorProto.FLOAT, tensor.dims)
            opened.graph.input.append(given)
    del opened.graph.initializer[:]
    opened.graph.initializer.extend(kept)
    for given in opened.graph.input:
        for d in given.type.tensor_type.shape.dim:
            if not d.HasField("dim_value"):
                d.dim_value = 1
    return opened, weights


def derived(graph: Graph, names: list[str]) -> Graph:
    """The gradients of the first output, weighted by the input ``seed``, by inputs of these names."""
    result = graph.outputs[0][1]
    seed = placeholder("seed", result.type)
    inputs = {n.attributes["name"]: n for n in graph.inputs}
    by = [inputs[name] for name in names]
    found = gradients(result, by, seed=seed, origin=graph.origin)
    assert not cut_paths(result, by), "a weight is cut off"
    outputs = [(f"d {name}", g) for name, g in zip(names, found) if g is not None]
    return Graph((*graph.inputs, seed), (("y", result), *outputs), origin=graph.origin)


def expected(model: onnx.ModelProto, inputs: Arrays, weights: Arrays, seed: np.ndarray) -> dict[str, np.ndarray]:
    """The same by PyTorch, in double precision."""

    def wide(array: np.ndarray) -> torch.Tensor:
        tensor = torch.from_numpy(np.array(array))
        return tensor.double() if tensor.is_floating_point() else tensor

    trained = {name: wide(array).requires_grad_() for name, array in weights.items()}
    (y, *_) = in_torch.run(model, {**{name: wide(array) for name, array in inputs.items()}, **trained})
    (y * wide(seed)).sum().backward()
    found = {f"d {name}": t.grad.numpy() for name, t in trained.items() if t.grad is not None}
    return {"y": y.detach().numpy(), **found}


def error(got: Arrays, want: Arrays) -> float:
    """The largest difference of a gradient, relative to its largest element, or to ``LEAST`` of the largest of all.

    Some gradients are 0 but for rounding: those by what softmax or a normalization takes away again.
    """
    largest = {name: float(np.max(np.abs(array), initial=0)) for name, array in want.items()}
    least = LEAST * max(largest.values())
    return max(float(np.max(np.abs(got[name] - w), initial=0)) / max(largest[name], least) for name, w in want.items())


def measured(model: onnx.ModelProto) -> dict[str, float]:
    opened, weights = with_open_weights(model)
    graph = import_model(opened)
    random = np.random.default_rng(0)
    inputs = {
        i.attributes["name"]: random.standard_normal(i.type.shape).astype(np.float32)
        if i.type.dtype == "f32"
        else random.integers(0, 10, i.type.shape)
        for i in graph.inputs
        if i.attributes["name"] not in weights
    }
    seed = random.uniform(0.5, 1.5, graph.outputs[0][1].type.shape).astype(np.float32)
    want = expected(opened, inputs, weights, seed)
    whole = derived(graph, list(weights))
    given = {**inputs, **weights, "seed": seed}
    context = pipeline.Context(resolve({}))
    compiled = pipeline.run(whole, context, start="simplify").steps[-1]
    return {
        "weights": sum(array.size for array in weights.values()),
        "operators": len(graph.operations()),
        "with gradients": len(whole.operations()),
        "fp32 error": error(evaluate.run(whole, given), want),
        "C error": error(compiled.stage.executor(compiled.value, context)(given), want),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="*", metavar="PATTERN", help="networks by name")
    chosen = {name: m for name, m in models().items() if fnmatch(name, parser.parse_args().only)}
    failed = []
    print("| network | weights | operators | with gradients | fp32 error | C error |\n|---|---:|---:|---:|---:|---:|")
    for name, model in chosen.items():
        row = measured(model)
        print(f"| {name} |", " | ".join(f"{v:,}" if isinstance(v, int) else f"{v:.1e}" for v in row.values()), "|")
        failed += [name] if max(row["fp32 error"], row["C error"]) > LIMIT else []
    if failed:
        raise SystemExit(f"beyond {LIMIT}: {', '.join(failed)}")


if __name__ == "__main__":
    main()
