"""Loops whose number of rounds is data: unrolled to a bound, beside onnxruntime for every number of rounds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from compiled import Compiled, compile_graphs, target
from onnx import ModelProto, TensorProto, helper, numpy_helper

import edgec
from edgec.errors import ModelError, UsageError
from edgec.frontend.onnx import import_model
from edgec.ir import evaluate

F, I, B = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
node, info = helper.make_node, helper.make_tensor_value_info


def newton(trips: bool = True, stops: bool = False) -> ModelProto:
    """Square roots of ``a`` by Newton's iteration: x' = (x + a / x) / 2, every x' as a scan output.

    It takes ``n`` rounds (``trips``), or ends where no x moves by more than ``close`` (``stops``), or both.
    """
    step = [
        node("Div", ["a", "x"], ["q"]), node("Add", ["x", "q"], ["sum"]), node("Mul", ["sum", "half"], ["new"]),
        node("Sub", ["new", "x"], ["d"]), node("Abs", ["d"], ["far"]), node("ReduceMax", ["far"], ["most"], keepdims=0),
        node("Greater", ["most", "close" if stops else "never"], ["again"]), node("Identity", ["new"], ["seen"]),
    ]  # fmt: skip
    body = helper.make_graph(
        step, "body", [info("i", I, []), info("c", B, []), info("x", F, [6])],
        [info("again", B, []), info("new", F, [6]), info("seen", F, [6])],
    )  # fmt: skip
    start = node("Identity", ["a"], ["x0"])
    made = node("Loop", ["n" if trips else "", "", "x0"], ["root", "path"], "newton", body=body)
    inputs = [info("a", F, [6]), *([info("n", I, [])] if trips else []), *([info("close", F, [])] if stops else [])]
    constants = [numpy_helper.from_array(np.float32(v), n) for n, v in (("half", 0.5), ("never", -1.0))]
    graph = helper.make_graph(
        [start, made], "net", inputs, [info("root", F, [6]), info("path", F, [None, 6])], constants
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


MODELS = {
    "counted": newton(),
    "until it is close": newton(trips=False, stops=True),
    "counted, until it is close": newton(stops=True),
}
MOST = 9
GRAPHS = {name: import_model(made, rounds={"newton": MOST}) for name, made in MODELS.items()}


def feeds(name: str, rounds: int, close: float) -> dict[str, np.ndarray]:
    given = {"a": np.float32([4, 2, 9, 0.5, 7, 1]), "n": np.int64(rounds), "close": np.float32(close)}
    return {n.attributes["name"]: np.asarray(given[n.attributes["name"]]) for n in GRAPHS[name].inputs}


CASES = [(n, c) for n in (0, 1, 2, 5, MOST) for c in (1e-6, 0.01, 0.3, 100.0)]


def wanted(name: str, fed: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    session = onnxruntime.InferenceSession(MODELS[name].SerializeToString())
    return dict(zip(("root", "path"), session.run(None, fed)))


def test_as_many_rounds_as_asked_for(tmp_path: Path) -> None:
    where = target("host")
    made = compile_graphs(GRAPHS, tmp_path, True, where.flags, where.device, threads=2)
    seen = set()
    for name, network in made.items():
        assert isinstance(network, Compiled), (name, network)
        for case in CASES:
            fed = feeds(name, *case)
            want = wanted(name, fed)
            for got in (evaluate.run(GRAPHS[name], fed), network(fed), network(fed, 2)):
                assert got["path"].shape == want["path"].shape, (name, case)
                for port, array in want.items():
                    np.testing.assert_allclose(got[port], array, rtol=1e-6, err_msg=f"{name} {case}")
            seen.add((name, len(want["path"])))
    assert len({rounds for name, rounds in seen if name == "until it is close"}) > 2


def test_more_rounds_than_were_built_are_told() -> None:
    built = edgec.build(newton(), loops={"newton": 4})
    assert built(np.ones(6, np.float32), np.int64(4))["path"].shape == (4, 6)
    with pytest.raises(ValueError, match="a loop would take more than 4 rounds"):
        built(np.ones(6, np.float32), np.int64(5))


def test_a_bound_is_asked_for() -> None:
    with pytest.raises(ModelError, match="whether the loop goes on depends on the inputs") as refused:
        import_model(newton())
    assert "--loop NODE=16" in str(refused.value.hint)
    with pytest.raises(UsageError, match="rounds are given for 'other', no Loop"):
        import_model(newton(), rounds={"newton": 3, "other": 3})


def test_a_scan_of_open_length_is_refused() -> None:
    total, seen = info("total", F, []), info("seen", F, [])
    nodes = [node("Add", ["s", "e"], ["total"]), node("Identity", ["total"], ["seen"])]
    body = helper.make_graph(nodes, "body", [info("s", F, []), info("e", F, [])], [total, seen])
    made = node("Scan", ["zero", "x"], ["last", "sums"], "scan", body=body, num_scan_inputs=1)
    zero = numpy_helper.from_array(np.float32(0), "zero")
    graph = helper.make_graph(
        [made], "net", [info("x", F, ["n"])], [info("last", F, []), info("sums", F, [None])], [zero]
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    with pytest.raises(ModelError, match=r"node 'scan' \(Scan\): a scan over a dimension of open length"):
        import_model(model, dims={"n": (1, 5, 1)})
