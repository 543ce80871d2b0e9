"""Results whose size is data: graphs that give the padded result and the count, against numpy and onnxruntime."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from chance import RANDOM
from compiled import Compiled, compile_graphs, target
from onnx import NodeProto, TensorProto, helper
from onnx.backend.test.loader import load_model_tests
from sanitized import ADDRESS, run_sanitized

from edgec.errors import ModelError
from edgec.frontend.onnx import bounded
from edgec.frontend.values import Value, constant
from edgec.ir import evaluate
from edgec.ir.graph import Graph, placeholder, topological
from edgec.ir.types import Type, dtype_name

Array = np.ndarray


def value(name: str, array: Array) -> Value:
    return Value(placeholder(name, Type(dtype_name(array.dtype), array.shape)))


def graph(*outputs: Value) -> Graph:
    nodes = [v.node for v in outputs]
    inputs = tuple(n for n in topological(nodes) if n.op == "input")
    return Graph(inputs, tuple((f"y{k}", n) for k, n in enumerate(nodes)))


class Case:
    """A graph, its inputs, and what its outputs are up to the count; the last output is the count."""

    def __init__(
        self, outputs: Sequence[Value], inputs: Mapping[str, Array], wanted: Sequence[Array], count: int
    ) -> None:
        self.graph, self.inputs, self.wanted, self.count = graph(*outputs), inputs, wanted, count

    def check(self, got: Mapping[str, Array], name: str) -> None:
        *results, count = (got[f"y{k}"] for k in range(len(self.wanted) + 1))
        assert (count.shape, count.dtype, int(count)) == ((), np.int64, self.count), f"{name}"
        for result, wanted in zip(results, self.wanted):
            axis = next((d for d, (n, m) in enumerate(zip(result.shape, wanted.shape)) if n != m), None)
            kept = result if axis is None else np.take(result, range(int(count)), axis)
            rest = result if axis is None else np.take(result, range(int(count), result.shape[axis]), axis)
            np.testing.assert_array_equal(kept, wanted, f"{name}")
            assert axis is None or np.isin(rest, (-1, 0)).all(), f"{name}"


def nonzeros() -> dict[str, Case]:
    arrays = {
        "matrix": RANDOM.integers(-1, 2, (5, 7)).astype(np.float32),
        "mask": RANDOM.random((2, 3, 5)) < 0.4,
        "bytes": RANDOM.integers(0, 3, 300).astype(np.uint8),
        "empty": np.zeros((3, 0), np.float32),
        "all": np.ones((1, 4), np.int64),
        "none": np.zeros(9, np.float32),
    }
    cases = {}
    for name, x in arrays.items():
        wanted = np.array(np.nonzero(x), np.int64)
        cases[f"nonzero {name}"] = Case(bounded.nonzero(value("x", x)), {"x": x}, [wanted], wanted.shape[1])
    one = np.float32(3).reshape(())  # as onnxruntime has it
    cases["nonzero scalar"] = Case(bounded.nonzero(value("x", one)), {"x": one}, [np.zeros((1, 1), np.int64)], 1)
    return cases


def compressions() -> dict[str, Case]:
    cases = {}
    x = RANDOM.standard_normal((4, 6, 3)).astype(np.float32)
    for axis, size in ((0, 4), (1, 5), (2, 3), (1, 9)):
        chosen = RANDOM.random(size) < 0.5
        outputs = bounded.compress(value("x", x), value("c", chosen), axis)
        wanted = np.compress(chosen[: x.shape[axis]], x, axis)
        cases[f"compress {axis} {size}"] = Case(outputs, {"x": x, "c": chosen}, [wanted], wanted.shape[axis])
    return cases


def uniques() -> dict[str, Case]:
    arrays = {
        "floats": RANDOM.integers(-3, 4, (4, 9)).astype(np.float32),
        "special": np.array([2.0, np.nan, 0.0, -0.0, np.inf, np.nan, 2.0, -np.inf], np.float32),
        "many": RANDOM.integers(0, 400, 700),
        "one": np.array([3], np.int8),
        "none": np.zeros(0, np.float32),
        "equal": np.full(33, 7, np.int32),
    }
    cases = {}
    for name, x in arrays.items():
        values, first, inverse, counts = np.unique(x, True, True, True)
        for ascending in (True, False):
            if not ascending:
                order = np.argsort(first)
                inverse = np.argsort(order)[inverse]
                values, first, counts = values[order], first[order], counts[order]
            found = bounded.unique(value("x", x), ascending)
            outputs = (found.values, found.first, found.counts, found.inverse, found.count)
            wanted = [values, first, counts, inverse.reshape(-1)]
            cases[f"unique {name}{'' if ascending else ' as they come'}"] = Case(outputs, {"x": x}, wanted, len(values))
    slices = {
        "columns": (RANDOM.integers(0, 2, (3, 20)).astype(np.float32), 1),
        "matrices": (RANDOM.integers(0, 2, (2, 1, 9, 2)), 2),
        "rows": (np.repeat(RANDOM.standard_normal((7, 5)).astype(np.float32), 3, 0), 0),
    }
    for name, (x, axis) in slices.items():
        values, first, inverse, counts = np.unique(x, True, True, True, axis=axis)
        found = bounded.unique(value("x", x), axis=axis)
        outputs = (found.values, found.first, found.counts, found.inverse, found.count)
        cases[f"unique {name}"] = Case(
            outputs, {"x": x}, [values, first, counts, inverse.reshape(-1)], values.shape[axis]
        )
    return cases


def by_onnxruntime(inputs: Sequence[Array], center: bool) -> Array:
    names = ["b", "s", "m", "i", "t"][: len(inputs)]
    node = helper.make_node("NonMaxSuppression", names, ["y"], center_point_box=int(center))
    kinds = [TensorProto.FLOAT, TensorProto.FLOAT, TensorProto.INT64, TensorProto.FLOAT, TensorProto.FLOAT]
    ports = [helper.make_tensor_value_info(n, k, a.shape) for n, k, a in zip(names, kinds, inputs)]
    output = helper.make_tensor_value_info("y", TensorProto.INT64, [None, 3])
    model = helper.make_model(helper.make_graph([node], "g", ports, [output]), ir_version=8)
    model.opset_import[0].version = 11
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return np.asarray(session.run(None, dict(zip(names, inputs)))[0])


def suppressions() -> dict[str, Case]:
    cases = {}
    for number, (batch, classes, n) in enumerate(((1, 1, 1), (1, 4, 60), (3, 2, 25), (1, 1, 200), (1, 2, 5))):
        for center in (False, True):
            boxes = RANDOM.random((batch, n, 4)).astype(np.float32)  # corners in any order
            boxes[:, ::7] = boxes[:, :1]  # some are the same
            boxes[:, 3::11, 2:] = boxes[:, 3::11, :2]  # and some have no area
            scores = (RANDOM.integers(0, 20, (batch, classes, n)) / 16).astype(np.float32)
            limit, overlap = (
                np.array([[5, 1, 30, 300, 0][number]]),
                np.array([[0.5, 0.0, 0.3, 0.7, 0.5][number]], np.float32),
            )
            inputs = {"b": boxes, "s": scores, "m": limit, "i": overlap}
            if number % 2:
                inputs["t"] = np.array([0.25], np.float32)
            wanted = by_onnxruntime(list(inputs.values()), center)
            names = list(inputs)
            args = [value(name, a) if name != "m" or number % 2 else constant(a) for name, a in inputs.items()]
            outputs = bounded.non_max_suppression(*args, center=center)
            given = {k: inputs[k] for k in names if k != "m" or number % 2}
            cases[f"suppression {batch}x{classes}x{n}{' centers' * center}"] = Case(
                outputs, given, [wanted], len(wanted)
            )
    return cases


MAKERS: tuple[Callable[[], dict[str, Case]], ...] = (nonzeros, compressions, uniques, suppressions)


@pytest.fixture(scope="module")
def cases() -> dict[str, Case]:
    return {name: case for make in MAKERS for name, case in make().items()}


def test_what_the_graphs_mean(cases: dict[str, Case]) -> None:
    for name, case in cases.items():
        case.check(evaluate.run(case.graph, case.inputs), name)


def test_compiled_on_any_number_of_threads(cases: dict[str, Case], tmp_path: Path) -> None:
    where = target("host")
    graphs = {name: case.graph for name, case in cases.items()}
    for name, network in compile_graphs(graphs, tmp_path, True, where.flags, where.device, threads=3).items():
        assert isinstance(network, Compiled), network
        for threads in (1, 2, 3):
            cases[name].check(network(cases[name].inputs, threads), f"{name} on {threads} threads")


def test_stays_inside_its_buffers(cases: dict[str, Case], tmp_path: Path) -> None:
    graphs = {name: case.graph for name, case in cases.items()}
    inputs = {name: dict(case.inputs) for name, case in cases.items()}
    for name, got in run_sanitized(graphs, inputs, tmp_path, target("host"), ADDRESS).items():
        cases[name].check(got, name)


def lowered(node: NodeProto, x: Sequence[Value]) -> tuple[tuple[Value, ...], Value]:
    """The results of an ONNX node, and how much of them counts."""
    attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    axis = attributes.get("axis")
    if node.op_type == "NonZero":
        result, count = bounded.nonzero(x[0])
    elif node.op_type == "Compress":
        data = x[0] if axis is not None else x[0].reshape(x[0].type.elements)
        result, count = bounded.compress(data, x[1], (axis or 0) % data.rank)
    elif node.op_type == "Unique":
        axis = axis % x[0].rank if axis is not None else None
        found = bounded.unique(x[0], bool(attributes.get("sorted", 1)), axis)
        return (found.values, found.first, found.inverse, found.counts), found.count
    else:
        result, count = bounded.non_max_suppression(*x, center=bool(attributes.get("center_point_box", 0)))
    return (result,), count


@pytest.mark.filterwarnings("ignore")  # of what makes the cases
def test_the_node_tests_of_onnx() -> None:
    seen = Counter()
    for case in load_model_tests(kind="node"):
        assert case.model is not None
        node = case.model.graph.node[0]
        if node.op_type not in ("NonZero", "Compress", "Unique", "NonMaxSuppression") or "expanded" in case.name:
            continue
        ((inputs, expected),) = case.data_sets
        arrays = {name: np.asarray(a) for name, a in zip(node.input, inputs)}
        results, count = lowered(node, [value(name, a) for name, a in arrays.items()])
        chosen = [(r, e) for r, name, e in zip(results, node.output, expected) if name]
        got = evaluate.run(graph(*(r for r, _ in chosen), count), arrays)
        size = int(got[f"y{len(chosen)}"])
        for k, (_, e) in enumerate(chosen):
            kept = tuple(slice(0, size if n != m else None) for n, m in zip(got[f"y{k}"].shape, e.shape))
            np.testing.assert_array_equal(got[f"y{k}"][kept], e, case.name)
        seen[node.op_type] += 1
    assert min(seen.values()) >= 1 and len(seen) == 4 and seen["NonMaxSuppression"] >= 9


def test_wrong_operands_are_refused() -> None:
    boxes, scores = np.zeros((1, 5, 4), np.float32), np.zeros((1, 2, 6), np.float32)
    limit, overlap = constant(np.array([3])), constant(np.array([0.5], np.float32))
    with pytest.raises(ModelError, match="do not belong to boxes"):
        bounded.non_max_suppression(value("b", boxes), value("s", scores), limit, overlap)
    with pytest.raises(ModelError, match="not f32"):
        bounded.compress(value("b", boxes), value("c", np.zeros(1, np.float32)), 0)
