"""Indices, ranks and comparisons beside a reference: only scores that round to either side may be chosen otherwise."""

from __future__ import annotations

import numpy as np
import pytest
from chance import RANDOM
from onnx import TensorProto, helper, numpy_helper

from edgec import ops
from edgec.check.compare import TOLERANCES
from edgec.check.decisions import scores_of
from edgec.check.judge import Judge
from edgec.check.narrow import Narrow
from edgec.execute.executor import run_graph
from edgec.frontend.onnx import import_model
from edgec.ir.graph import Graph, constant, placeholder
from edgec.ir.types import Type

#: Of each row, the second largest score over the largest, 4: of the first two within the rounding of fp16.
SECOND = (1 - 2.0**-11, 1 - 2.0**-10, 0.9, 0.5)


def network() -> Graph:
    nodes = [
        helper.make_node("Relu", ["x"], ["s"]),
        helper.make_node("ArgMax", ["s"], ["best"], axis=1, keepdims=0),
        helper.make_node("TopK", ["s", "k"], ["values", "ranks"], axis=1),
        helper.make_node("Greater", ["s", "least"], ["mask"]),
    ]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT16, (4, 9))]
    outputs = [helper.make_tensor_value_info(n, TensorProto.INT64, None) for n in ("best", "ranks")]
    outputs.append(helper.make_tensor_value_info("mask", TensorProto.BOOL, None))
    constants = {"k": np.array([3]), "least": np.array(3.999, np.float16)}
    made = helper.make_graph(nodes, "g", inputs, outputs, [numpy_helper.from_array(v, k) for k, v in constants.items()])
    return import_model(helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)]))


def scores() -> np.ndarray:
    x = RANDOM.permuted(np.tile(np.linspace(-2, 1, 9), (4, 1)), axis=1)
    x[:, 2], x[:, 6] = 4, 4 * np.array(SECOND)
    return x.astype(np.float16)


def judged(change: dict[str, np.ndarray]) -> bool:
    """The verdict where outputs are ``change`` in place of what the reference gives."""
    graph, inputs = network(), {"x": INPUT}
    want = run_graph(graph, inputs)
    judge = Judge(graph, 2.0**-9, narrow=Narrow("f16", 2.0**-9, TOLERANCES["fp16"]))
    return all(map(judge.within, judge.differences({**want, **change}, want, inputs)))


INPUT = scores()


@pytest.mark.parametrize(("row", "passes"), [(0, True), (1, True), (2, False), (3, False)])
def test_another_choice(row: int, passes: bool) -> None:
    want = run_graph(network(), {"x": INPUT})
    best, ranks, mask = want["best"].copy(), want["ranks"].copy(), want["mask"].copy()
    assert (best == 2).all() and (ranks[:, :2] == [2, 6]).all()
    best[row] = 6
    assert judged({"best": best}) == passes
    ranks[row, :2] = 6, 2
    assert judged({"ranks": ranks}) == passes
    mask[row, 6] ^= True
    assert judged({"mask": mask}) == passes
    best[0] = 5  # no near tie, whatever another row is
    assert not judged({"best": best})


def test_integers_that_are_no_choice() -> None:
    """Sums of products of integers are exact; what floats before them round to is not what these may differ by."""
    x = placeholder("x", Type("f32", (4, 8)))
    sums = ops.node("matmul", ops.node("cast", x, to="i32"), constant(np.ones((8, 2), np.int32)))
    assert scores_of(sums) == ()
    graph = Graph((x,), (("y", sums),))
    inputs = {"x": np.full((4, 8), 2, np.float32)}
    want = run_graph(graph, inputs)
    judge = Judge(graph, 2.0**-6)
    assert not all(map(judge.within, judge.differences({"y": want["y"] + 1}, want, inputs)))
