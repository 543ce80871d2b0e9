"""Indices that data give, outside of their dimension: a status, and never another element's write."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from chance import RANDOM
from compiled import compile_graphs
from onnx import TensorProto, helper, numpy_helper

import edgec
from edgec.bench.built import bench_built
from edgec.device.load import load_device
from edgec.errors import ModelError, NotMet
from edgec.frontend.onnx import import_model
from edgec.frontend.onnx.indices import without_checks
from edgec.ir import evaluate
from edgec.options import resolve
from edgec.pipeline import Context, import_
from edgec.progress import silent

X = RANDOM.standard_normal((5, 3)).astype(np.float32)
U = RANDOM.standard_normal((4, 3)).astype(np.float32)
#: Operator, its other operands, indices that are inside, and the attributes.
CASES = {
    "Gather": ((X,), np.array([0, -5, 4, 2]), {}),
    "GatherElements": ((X,), np.array([[0, -5, 4], [1, 2, 3]]), {}),
    "GatherND": ((X,), np.array([[0, -3], [4, 2], [-5, 1]]), {}),
    "ScatterND": ((X, U), np.array([[0], [-1], [2], [-4]]), {}),
    "ScatterElements": ((X, U), np.array([[0, -5, 4], [1, 0, 3], [2, 2, 2], [3, 1, 1]]), {}),
    "ReverseSequence": ((X,), np.array([0, 5, 3]), {}),
}  # fmt: skip


def model(operator: str, *arrays: np.ndarray, opset: int = 18, **attributes: object) -> onnx.ModelProto:
    """x0, x1, ... are inputs; the last is y."""
    names = [f"x{k}" for k in range(len(arrays))]
    given = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
             for n, a in zip(names, arrays)]  # fmt: skip
    node = helper.make_node(operator, names, ["y"], **attributes)
    graph = helper.make_graph([node], "net", given, [helper.make_empty_tensor_value_info("y")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)


def operands(operator: str, indices: np.ndarray) -> tuple[np.ndarray, ...]:
    first, *rest = CASES[operator][0]
    return first, indices, *rest


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    graphs = {}
    for name, (_, indices, attributes) in CASES.items():
        graph = import_model(model(name, *operands(name, indices), **attributes))
        graphs |= {name: graph, f"{name} unchecked": without_checks(graph)}
    return compile_graphs(graphs, tmp_path_factory.mktemp("built"))


@pytest.mark.parametrize("name", CASES)
def test_one_index_outside_gives_a_status(name: str, built: dict[str, object]) -> None:
    indices = CASES[name][1]
    network = built[name]
    assert network(named(operands(name, indices)))["y"].size  # type: ignore[operator]
    for wrong in (6, -(2**63), 2**63 - 1, -6):
        for place in range(indices.size):
            other = indices.copy()
            other.reshape(-1)[place] = wrong
            with pytest.raises(AssertionError, match="returned"):
                network(named(operands(name, other)))  # type: ignore[operator]
            with pytest.raises(ModelError, match="an index is outside"):
                evaluate.run(import_model(model(name, *operands(name, indices))), named(operands(name, other)))


def named(arrays: Sequence[np.ndarray]) -> dict[str, np.ndarray]:
    return {f"x{k}": a for k, a in enumerate(arrays)}


@pytest.mark.parametrize("name", ["ScatterND", "ScatterElements"])
def test_an_update_outside_is_left_out(name: str, built: dict[str, object]) -> None:
    """The result is as if its row were not among the updates, where nobody sees a status too."""
    indices = CASES[name][1].copy()
    indices[1] = 5
    kept = np.delete(indices, 1, 0), np.delete(U, 1, 0)
    want = evaluate.run(import_model(model(name, X, *kept)), named((X, *kept)))["y"]
    feeds = named((X, indices, U))
    np.testing.assert_array_equal(built[f"{name} unchecked"](feeds)["y"], want)  # type: ignore[operator]
    graph = without_checks(import_model(model(name, X, indices, U)))
    np.testing.assert_array_equal(evaluate.run(graph, feeds)["y"], want)


@pytest.mark.parametrize("name", ["GatherElements", "GatherND", "ScatterND", "ScatterElements"])
def test_constant_indices_outside_are_refused(name: str) -> None:
    indices = CASES[name][1].copy()
    indices.reshape(-1)[-1] = 7
    made = model(name, *operands(name, indices))
    made.graph.initializer.append(numpy_helper.from_array(indices, "x1"))
    del made.graph.input[1]
    with pytest.raises(ModelError, match="outside a dimension"):
        import_model(made)


def test_indices_of_a_known_range_need_no_check() -> None:
    nodes = [
        helper.make_node("ArgMax", ["x"], ["k"], axis=0, keepdims=0),
        helper.make_node("Gather", ["t", "k"], ["y"], axis=0),
    ]
    table = numpy_helper.from_array(X, "t")
    x, y = helper.make_tensor_value_info("x", TensorProto.FLOAT, [5, 4]), helper.make_empty_tensor_value_info("y")
    for rows, checks in ((5, 0), (6, 1)):
        x.type.tensor_type.shape.dim[0].dim_value = rows
        made = helper.make_model(helper.make_graph(nodes, "net", [x], [y], [table]), ir_version=9)
        assert len(import_model(made).demands) == checks


def test_the_host_of_a_gpu_sees_no_status() -> None:
    made = model("Gather", *operands("Gather", CASES["Gather"][1]))
    for device, checks in (("host", 1), ("generic_opencl", 0)):
        options = resolve({"profiles": False, "device": device})
        assert options.device.name == load_device(device).name
        assert len(import_(made, Context(options)).demands) == checks


def test_a_diagonal_far_outside() -> None:
    """Trilu counts rows from any diagonal: the sum of the greatest number and a row would wrap around."""
    made = model("Trilu", X, np.array(0), upper=0)
    graph = import_model(made)
    for k, want in ((2**63 - 1, X), (-(2**63), np.zeros_like(X)), (1, np.tril(X, 1))):
        np.testing.assert_array_equal(evaluate.run(graph, named((X, np.array(k))))["y"], want)


def test_drawn_inputs_that_a_run_refuses_are_an_error_in_words(tmp_path: Path) -> None:
    """Positions that are computed from floats: nothing drawn is sure to be inside."""
    nodes = [
        helper.make_node("Mul", ["x", "far"], ["at"]),
        helper.make_node("Cast", ["at"], ["i"], to=TensorProto.INT64),
        helper.make_node("Gather", ["table", "i"], ["y"], "look"),
    ]
    arrays = {"far": np.float32(1e6), "table": X}
    graph = helper.make_graph(
        nodes, "net", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4])],
        [helper.make_empty_tensor_value_info("y")], [numpy_helper.from_array(a, n) for n, a in arrays.items()],
    )  # fmt: skip
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    found = edgec.build(proto, out=tmp_path / "net")
    said = re.compile(r"look.*outside of its dimension\n  hint: give inputs .*--inputs", re.DOTALL)
    with edgec.Network(found.folder) as network:
        assert network.run({"x": np.zeros(4, np.float32)})["y"].shape == (4, 3)
        with pytest.raises(NotMet, match=said):
            network.run({"x": np.ones(4, np.float32)})
    with pytest.raises(NotMet, match=said):
        bench_built(found.folder, threads=1, seconds=0.01, rounds=1, progress=silent)
    with pytest.raises(NotMet, match=said):
        edgec.bench(found, seconds=0.01, rounds=1)
    with pytest.raises(NotMet, match=said):
        edgec.check(found, samples=1)
