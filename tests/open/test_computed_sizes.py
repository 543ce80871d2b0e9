"""Results whose size the data decides: the network computes it, and gives arrays of just that size."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import onnxruntime
import pytest
from chance import RANDOM
from compiled import Compiled, compile_graphs
from onnx import ModelProto, TensorProto, helper, numpy_helper

from edgec.frontend.onnx import import_model
from edgec.fuse import plan
from edgec.ir import evaluate
from edgec.ir.graph import Graph
from edgec.ir.verify import verify

F, I, B = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
Shape = list[int | str]


def model(
    nodes: list, inputs: Mapping[str, tuple[int, Shape]], outputs: Mapping[str, int], **constants: np.ndarray
) -> ModelProto:
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info(n, t, s) for n, (t, s) in inputs.items()],
        [helper.make_tensor_value_info(n, t, None) for n, t in outputs.items()],
        [numpy_helper.from_array(np.asarray(a), n) for n, a in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def node(op: str, inputs: str, outputs: str, **attributes: object) -> object:
    return helper.make_node(op, inputs.split(), outputs.split(), **attributes)


def mask(*shape: int) -> np.ndarray:
    return (RANDOM.random(shape) < 0.4).astype(np.float32) * RANDOM.standard_normal(shape).astype(np.float32)


def boxes(n: int) -> dict[str, np.ndarray]:
    corner = RANDOM.random((1, n, 2), np.float32) * 5
    size = RANDOM.random((1, n, 2), np.float32) * 3
    return {"boxes": np.concatenate([corner, corner + size], 2), "scores": RANDOM.random((1, 3, n), np.float32)}


Case = tuple[ModelProto, list[dict[str, np.ndarray]]]


def nonzero() -> Case:
    made = model([node("NonZero", "x", "y"), node("Neg", "y", "z")], {"x": (F, [5, 7])}, {"y": I, "z": I})
    return made, [{"x": mask(5, 7)}, {"x": np.zeros((5, 7), np.float32)}, {"x": np.ones((5, 7), np.float32)}]


def gathered() -> Case:
    """The following operators process exactly the elements that were found."""
    nodes = [
        node("Greater", "x zero", "c"), node("NonZero", "c", "i"), node("Transpose", "i", "t"),
        node("GatherND", "x t", "y"), node("ReduceSum", "y", "s", keepdims=0), node("Softmax", "y", "p"),
        node("Shape", "y", "n"),
    ]  # fmt: skip
    made = model(nodes, {"x": (F, [6, 9])}, {"y": F, "s": F, "p": F, "n": I}, zero=np.float32(0))
    return made, [{"x": RANDOM.standard_normal((6, 9)).astype(np.float32)} for _ in range(3)]


def compressed() -> Case:
    nodes = [node("Compress", "x c", "y", axis=1), node("MatMul", "w y", "z")]
    made = model(nodes, {"x": (F, [8, 11]), "c": (B, [9])}, {"y": F, "z": F}, w=np.ones((3, 8), np.float32))
    return made, [{"x": mask(8, 11), "c": RANDOM.random(9) < p} for p in (0.5, 0.0, 1.0)]


def uniques() -> Case:
    nodes = [node("Unique", "x", "y first inverse counts", sorted=1), node("Unique", "x", "u", sorted=0)]
    made = model(nodes, {"x": (F, [13])}, {"y": F, "first": I, "inverse": I, "counts": I, "u": F})
    return made, [{"x": RANDOM.integers(0, n, 13).astype(np.float32)} for n in (5, 1, 100)]


def suppressed() -> Case:
    """The end of a two-stage detector: suppression, then the chosen boxes and the best of their scores."""
    nodes = [
        node("NonMaxSuppression", "boxes scores most overlap least", "kept"),
        node("Slice", "kept two three one", "column"), node("Squeeze", "column one", "index"),
        node("Gather", "boxes index", "chosen", axis=1), node("GatherND", "scores kept", "score"),
        node("Shape", "score", "n"), node("Min", "n five", "k"), node("TopK", "score k", "best place"),
        node("Gather", "chosen place", "top", axis=1),
    ]  # fmt: skip
    made = model(
        nodes, {"boxes": (F, [1, 20, 4]), "scores": (F, [1, 3, 20])}, {"kept": I, "chosen": F, "best": F, "top": F},
        most=np.array([7]), overlap=np.float32(0.4), least=np.float32(0.3), one=np.array([1]), two=np.array([2]),
        three=np.array([3]), five=np.array([5]),
    )  # fmt: skip
    return made, [boxes(20) for _ in range(3)] + [{"boxes": boxes(20)["boxes"], "scores": np.zeros((1, 3, 20), "f")}]


def chosen_count() -> Case:
    made = model([node("TopK", "x k", "y i", largest=0)], {"x": (F, [3, 9]), "k": (I, [1])}, {"y": F, "i": I})
    return made, [{"x": mask(3, 9), "k": np.array([k])} for k in (1, 4, 9)]


def of_open_dimensions() -> Case:
    made = model([node("NonZero", "x", "y"), node("Compress", "x c", "z", axis=0)],
                 {"x": (F, ["n", 4]), "c": (B, ["n"])}, {"y": I, "z": F})  # fmt: skip
    return made, [{"x": mask(n, 4), "c": RANDOM.random(n) < 0.5} for n in (1, 5, 12)]


def masked() -> Case:
    """``y[m] = 7; z[m] = 2 * x[m] + row; z[n] = v`` as exporters write them: only the last of them moves anything."""
    nodes = [
        node("NonZero", "m", "i"), node("Transpose", "i", "t"),
        node("Reshape", "m flat", "f"), node("Cast", "f", "c", to=I), node("ReduceSum", "c zero", "count", keepdims=0),
        node("Expand", "seven count5", "u5"), node("Reshape", "u5 flat", "u"),
        node("Unsqueeze", "m minus", "m1"), node("Expand", "m1 shape", "m5"), node("NonZero", "m5", "i5"),
        node("Transpose", "i5", "t5"), node("Unsqueeze", "count zero", "count1"),
        node("Concat", "count1 five", "count5", axis=0), node("ScatterND", "x t5 u", "y"),
        node("GatherND", "x t", "g"), node("Mul", "g two", "h"), node("Expand", "row count5", "r"),
        node("Add", "h r", "k"), node("ScatterND", "x t k", "z"),
        node("Slice", "all zero count1", "some"), node("ScatterND", "x t some", "w"),
    ]  # fmt: skip
    made = model(
        nodes, {"x": (F, [3, 4, 5]), "m": (B, [3, 4])}, {"y": F, "z": F, "w": F}, flat=np.array([-1]),
        zero=np.array([0]), minus=np.array([-1]), five=np.array([5]), shape=np.array([3, 4, 5]), seven=np.float32(7),
        two=np.float32(2), row=np.arange(5, dtype=np.float32), all=np.arange(60, dtype=np.float32).reshape(12, 5),
    )  # fmt: skip
    xs = [RANDOM.standard_normal((3, 4, 5)).astype(np.float32) for _ in range(3)]
    return made, [{"x": x, "m": RANDOM.random((3, 4)) < p} for x, p in zip(xs, (0.5, 0.0, 1.0))]


CASES: dict[str, Callable[[], Case]] = {
    f.__name__: f
    for f in (nonzero, gathered, compressed, uniques, suppressed, chosen_count, of_open_dimensions, masked)
}


@pytest.fixture(scope="module")
def networks(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Case, Graph, Compiled]]:
    made = {name: case() for name, case in CASES.items()}
    graphs = {name: import_model(m, dims={"n": (1, 12, 1)} if name == "of_open_dimensions" else {})
              for name, (m, _) in made.items()}  # fmt: skip
    for graph in graphs.values():
        verify(graph)
        plan(graph)
    networks = compile_graphs(graphs, tmp_path_factory.mktemp("computed"), threads=3)
    assert all(isinstance(n, Compiled) for n in networks.values()), networks
    return {name: (made[name], graphs[name], networks[name]) for name in made}  # type: ignore[misc]


@pytest.mark.parametrize("name", sorted(CASES))
def test_agrees_with_onnxruntime(name: str, networks: dict[str, tuple[Case, Graph, Compiled]]) -> None:
    (made, inputs), graph, network = networks[name]
    session = onnxruntime.InferenceSession(made.SerializeToString())
    for given in inputs:
        want = dict(zip([o.name for o in session.get_outputs()], session.run(None, given)))
        for got in (evaluate.run(graph, given), network(given), network(given, 3)):
            for port, array in want.items():
                assert got[port].shape == array.shape, (name, port)
                assert np.allclose(got[port], array, rtol=1e-5, atol=1e-6), (name, port)


def test_a_scatter_at_a_mask_is_a_choice(networks: dict[str, tuple[Case, Graph, Compiled]]) -> None:
    graph = networks["masked"][1]
    choices = dict(graph.outputs)
    assert choices["y"].op == choices["z"].op == "select" and choices["w"].op == "scatter_nd"
    assert len(graph.sizes) == 1, "a mask of all columns counts what its rows count"
