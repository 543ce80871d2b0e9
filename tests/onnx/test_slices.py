"""Slices that begin where data say, against onnxruntime: equal where their length is kept, and a false demand else."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from chance import RANDOM
from compiled import Compiled, compile_graphs
from onnx import TensorProto
from small_models import model, node, tensor_input, weights

from edgec.errors import ModelError
from edgec.frontend.onnx import import_model
from edgec.ir import evaluate
from edgec.ir.graph import Graph
from edgec.rewrite import simplify


def network(seed: int) -> tuple[onnx.ModelProto, dict[str, np.ndarray], list[int]]:
    """A slice whose ends are its starts and numbers, an input, and the lengths along all dimensions."""
    rank = int(RANDOM.integers(1, 4))
    shape = [int(n) for n in RANDOM.integers(2, 9, rank)]
    axes = list(RANDOM.permutation(rank)[: RANDOM.integers(1, rank + 1)])
    spans = RANDOM.integers(1, 5, len(axes))
    steps = RANDOM.choice([1, 1, 2, -1, -2], len(axes))
    spans = np.where(steps < 0, -spans, spans)
    begins = np.array([RANDOM.integers(-n, n) for n in np.array(shape)[axes]])
    kind = np.float32 if seed % 3 == 0 else np.int32 if seed % 3 == 1 else np.int64
    code = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(kind))
    names = [f"s{k}" for k in range(len(axes))]  # one scalar each, as exporters write them
    nodes = [node("Cast", [n], [f"i{n}"], to=TensorProto.INT64) for n in names]
    nodes += [node("Add", [f"i{n}", f"span{k}"], [f"e{n}"]) for k, n in enumerate(names)]
    nodes += [node("Unsqueeze", [f"{p}{n}", "zero"], [f"{p}{n}u"]) for n in names for p in "ie"]
    for what, prefix in (("starts", "i"), ("ends", "e")):
        nodes.append(node("Concat", [f"{prefix}{n}u" for n in names], [what], axis=0))
    nodes += [node("Slice", ["x", "starts", "ends", "axes", "steps"], ["t"]), node("Mul", ["t", "t"], ["y"])]
    constants = [weights(f"span{k}", np.int64(n)) for k, n in enumerate(spans)]
    constants += [weights("zero", np.zeros(1, np.int64)), weights("axes", np.array(axes)), weights("steps", steps)]
    inputs = [tensor_input("x", shape), *(tensor_input(n, [], code) for n in names)]
    given = {"x": RANDOM.standard_normal(shape).astype(np.float32)}
    given |= {n: np.array(b, kind) for n, b in zip(names, begins)}
    lengths = list(shape)
    for axis, span, step in zip(axes, spans, steps):
        lengths[axis] = int(-(-span // step))
    return model(nodes, inputs, initializers=constants), given, lengths


def demanded(graph: Graph, given: dict[str, np.ndarray]) -> bool:
    """All demands of the graph are met."""
    wanted = tuple((f"d{k}", n) for k, (_, n) in enumerate(graph.demands))
    return all(v.all() for v in evaluate.run(Graph(graph.inputs, wanted), given).values())


@pytest.mark.parametrize("seed", range(120))
def test_slices_that_begin_where_data_say(seed: int) -> None:
    made, given, lengths = network(seed)
    graph = import_model(made)
    session = onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    (want,) = session.run(None, given)
    assert demanded(graph, given) == (list(want.shape) == lengths)
    simple = simplify(graph)[0]
    got = evaluate.run(Graph(simple.inputs, simple.outputs), given)["y"]  # reads inside x whatever is given
    assert list(got.shape) == lengths
    if list(want.shape) == lengths:
        np.testing.assert_allclose(got, want, rtol=1e-6)


def test_compiled_slices(tmp_path: Path) -> None:
    graphs, inputs = {}, {}
    while len(graphs) < 20:
        name = f"n{len(graphs)}"
        made, given, _ = network(len(graphs))
        graph = import_model(made)
        if demanded(graph, given):
            graphs[name], inputs[name] = simplify(graph)[0], given
    compiled = compile_graphs(graphs, tmp_path)
    for name, given in inputs.items():
        run = compiled[name]
        assert isinstance(run, Compiled)
        np.testing.assert_allclose(run(given)["y"], evaluate.run(graphs[name], given)["y"], rtol=1e-6)


def test_a_length_that_data_decide_is_refused() -> None:
    nodes = [node("Cast", ["s"], ["i"], to=TensorProto.INT64), node("Slice", ["x", "i", "end"], ["y"])]
    inputs = [tensor_input("x", [6]), tensor_input("s", [1])]
    with pytest.raises(ModelError, match="must be known at build time, but depends on the model's input"):
        import_model(model(nodes, inputs, initializers=[weights("end", np.array([2**31]))]))
