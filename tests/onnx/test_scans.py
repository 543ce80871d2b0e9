"""Scans whose rounds do not depend on one another: computed at once, beside onnxruntime."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnxruntime
import pytest
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from edgec.frontend.onnx import import_model
from edgec.ir.evaluate import run
from edgec.ir.graph import Graph

F, I = TensorProto.FLOAT, TensorProto.INT64
node, info = helper.make_node, helper.make_tensor_value_info
CONSTANTS = {
    "last": np.int64([-1]), "wide": np.int64([3, 1, 5]), "flat": np.int64([15]), "one": np.int64([1]),
    "six": np.int64([6]), "pads": np.int64([0, 1, 0, 1]), "w": np.linspace(-1, 1, 35).reshape(5, 7).astype("f"),
    "turned": np.int64([2, 0, 1]),
}  # fmt: skip
#: By name, what a round computes as "r" of the state "s" [4, 3, 5] and a slice "e" [3, 5].
BODIES: dict[str, Sequence[NodeProto]] = {
    "distance": [
        node("Sub", ["s", "e"], ["d"]), node("Abs", ["d"], ["a"]),
        node("ReduceSum", ["a", "last"], ["r"], keepdims=0),
    ],
    "product": [node("MatMul", ["e", "w"], ["p"]), node("MatMul", ["s", "w"], ["q"]), node("Mul", ["p", "q"], ["r"])],
    "product of both": [node("Transpose", ["e"], ["t"]), node("MatMul", ["s", "t"], ["r"])],
    "movement": [
        node("Pad", ["e", "pads"], ["p"]), node("Slice", ["p", "one", "six", "one"], ["c"]),
        node("Reshape", ["c", "flat"], ["f"]), node("Expand", ["c", "wide"], ["m"]),
        node("Reshape", ["f", "wide"], ["n"]), node("Concat", ["m", "n", "k"], ["r"], axis=1),
    ],
    "chosen": [node("Gather", ["e", "turned"], ["r"], axis=0)],
    "the same": [node("Relu", ["k"], ["r"])],
    "softmax": [node("Softmax", ["e"], ["m"]), node("Where", ["is", "m", "e"], ["r"])],
}  # fmt: skip


def scan(
    body: Sequence[NodeProto], axis: int = 0, out: int = 0, directions: tuple[int, int] = (0, 0), rounds: int | str = 6
) -> ModelProto:
    constants = {**CONSTANTS, "k": np.ones((3, 2, 5), "f"), "is": np.bool_([[True], [False], [True]])}
    inner = helper.make_graph(
        [*body, node("Identity", ["s"], ["s_out"])], "body", [info("s", F, [4, 3, 5]), info("e", F, [3, 5])],
        [info("s_out", F, [4, 3, 5]), info("r", F, None)],
    )  # fmt: skip
    made = node(
        "Scan", ["state", "x"], ["state_out", "y"], "scan", body=inner, num_scan_inputs=1, scan_input_axes=[axis],
        scan_output_axes=[out], scan_input_directions=directions[:1], scan_output_directions=directions[1:],
    )  # fmt: skip
    shape: list[int | str] = [3, 5]
    shape.insert(axis, rounds)
    graph = helper.make_graph(
        [made], "net", [info("state", F, [4, 3, 5]), info("x", F, shape)],
        [info("state_out", F, [4, 3, 5]), info("y", F, None)],
        [numpy_helper.from_array(v, n) for n, v in constants.items()],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


def compared(proto: ModelProto, graph: Graph, rounds: int, axis: int) -> None:
    chance = np.random.default_rng(2)
    shape = [3, 5]
    shape.insert(axis, rounds)
    given = {"state": chance.standard_normal((4, 3, 5), "f"), "x": chance.standard_normal(shape, "f")}
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    for wanted, got in zip(session.run(None, given), run(graph, given).values()):
        np.testing.assert_allclose(got, wanted, atol=1e-5)


@pytest.mark.parametrize(("axis", "out", "directions"), [(0, 0, (0, 0)), (1, 1, (1, 0)), (2, -1, (0, 1))])
@pytest.mark.parametrize("name", BODIES)
def test_agrees_with_onnxruntime(name: str, axis: int, out: int, directions: tuple[int, int]) -> None:
    body = scan(BODIES[name], axis, out, directions)
    graph = import_model(body)
    compared(body, graph, 6, axis)
    many = import_model(scan(BODIES[name], axis, out, directions, rounds=600))
    assert len(many.operations()) <= len(graph.operations()) + 1


def test_of_any_length() -> None:
    body = scan(BODIES["distance"], rounds="n")
    compared(body, import_model(body, dims={"n": (1, 9, 1)}), 7, 0)


def test_rounds_that_depend_on_one_another_are_unrolled() -> None:
    body = scan([node("Add", ["s", "e"], ["s_new"]), node("Exp", ["e"], ["r"])])
    (made,) = body.graph.node
    (inner,) = (a.g for a in made.attribute if a.name == "body")
    inner.node[-1].input[0] = "s_new"
    graph = import_model(body)
    compared(body, graph, 6, 0)
    assert sum(n.op == "exp" for n in graph.operations()) == 6


def test_a_scan_in_a_scan() -> None:
    """Slices of both may be of one type: what the inner one is given is another thing for every round of the outer."""
    step = [node("Mul", ["v", "row"], ["z"]), node("Identity", ["v"], ["v_out"])]
    deep = helper.make_graph(
        step, "deep", [info("v", F, [3, 5]), info("row", F, [3, 5])], [info("v_out", F, None), info("z", F, None)]
    )
    inner = node("Scan", ["e", "s"], ["e_out", "r"], body=deep, num_scan_inputs=1)
    body = scan([inner])
    graph = import_model(body)
    compared(body, graph, 6, 0)
    assert sum(n.op == "mul" for n in graph.operations()) == 1
