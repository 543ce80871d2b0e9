"""Graphs as ONNX give what they gave, name their origins and point at saved constants; traces are what Chrome reads."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from small_graphs import conv, graph, layernorm, number, pad, pool, softmax, total, transpose, value, weights

from edgec import ops, pipeline
from edgec.cli.main import main
from edgec.execute.executor import run_graph
from edgec.execute.samples import random_inputs
from edgec.frontend.onnx.export import is_runnable, to_onnx
from edgec.frontend.source import import_graph, read
from edgec.ir.graph import Graph, Node, constant
from edgec.options import Settings, resolve
from edgec.pipeline.context import Context

DIGITS = Path(__file__).parents[2] / "apps" / "digits" / "digits.onnx"
X, P = value("x", 1, 4, 7, 5), constant(np.array([[2, -1], [0, 1]]))


def _slice(x: Node, starts: tuple[int, ...], steps: tuple[int, ...], shape: tuple[int, ...]) -> Node:
    return ops.node("slice", x, starts=starts, steps=steps, shape=shape)


GRAPHS = {
    "convolution": graph(conv(pad(X, (0, 0), (0, 0), (1, 2), (0, 1)), weights(6, 2, 3, 2), 2, groups=2)),
    "pooling": graph(pool(X, "max", (3, 2)), pool(X, "add", (2, 2), 2)),
    "rows": graph(softmax(X, 3), layernorm(X, 2, 3), total(X, 1, combine="min"), total(X, 0, 3, combine="mul")),
    "movement": graph(
        transpose(X, 0, 2, 3, 1),
        _slice(X, (0, 3, 6, 1), (1, -1, -3, 2), (1, 4, 3, 2)),
        _slice(X, (0, 3, 0, 0), (1, -1, 1, 1), (1, 4, 7, 5)),
        ops.node("concat", X, X, axis=2),
        ops.node("reshape", X, shape=(28, 5)),
        ops.node("broadcast", number(2.5), shape=(3, 2)),
        ops.node("iota", shape=(2, 3), axis=1, dtype="f32"),
    ),
    "functions": graph(
        *(ops.node(f, X) for f in ("abs", "neg", "exp", "tanh", "erf", "sigmoid", "floor", "round", "sign", "isnan")),
        *(ops.node(f, X, number(0.5)) for f in ("sub", "mul", "div", "max", "min", "fmod", "lt", "ge", "ne")),
        ops.node("select", ops.node("lt", X, number(0)), X, number(1)),
        ops.node("cast", X, to="i32"),
    ),
    "gathering": graph(
        ops.node("gather", X, P, axis=1),
        ops.node("prefix", X, combine="add", axis=2, exclusive=True, reverse=True),
        ops.node(
            "scatter_nd", value("s", 3), constant(np.array([[1]])), constant(np.ones(1, np.float32)), combine="add"
        ),
    ),
    "an output twice and an input": Graph((X,), (("a", ops.node("abs", X)), ("b", ops.node("abs", X)), ("c", X))),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_it_computes_the_same(name: str) -> None:
    given = GRAPHS[name]
    model = to_onnx(given)
    assert is_runnable(model)
    onnx.checker.check_model(model, full_check=True)
    arrays = random_inputs(given, 3)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    got = session.run(None, {i.name: arrays[i.name] for i in session.get_inputs()})
    for output, found in zip(session.get_outputs(), got):
        np.testing.assert_allclose(found, run_graph(given, arrays)[output.name], rtol=1e-5, atol=1e-6)


def test_what_onnx_has_not_is_there_to_look_at() -> None:
    x = value("x", 2, 6, dtype="i32")
    product = conv(value("y", 1, 2, 4, dtype="i32"), constant(np.ones((1, 2, 2), np.int32)))
    model = to_onnx(graph(ops.node("argsort", x, axis=1), product))
    assert not is_runnable(model)
    assert {(n.domain, n.op_type) for n in model.graph.node} == {("edgec", "argsort"), ("edgec", "conv")}


def test_stages_are_saved_as_onnx_with_constants_once(tmp_path: Path) -> None:
    walk = pipeline.run(str(DIGITS), Context(resolve(Settings())), until="compress", save=tmp_path)
    path = tmp_path / "2_simplify.onnx"
    model = onnx.load(path, load_external_data=False)
    assert {n.name.partition("#")[0] for n in model.graph.node} >= {"Conv_2", "Relu_1"}, "as the user called them"
    outside = [t for t in model.graph.initializer if t.external_data]
    assert outside and path.stat().st_size < 20_000
    arrays = random_inputs(walk.graph, 0)
    want = run_graph(walk["simplify"].graph, arrays)
    got = onnxruntime.InferenceSession(str(path)).run(None, arrays)
    np.testing.assert_allclose(got[0], next(iter(want.values())), rtol=1e-5, atol=1e-6)
    again = import_graph(read(str(path)))
    assert [n.op for n in again.operations()] == [n.op for n in walk["simplify"].graph.operations()]


def test_a_profile_is_a_trace(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "trace.json"
    with pytest.raises(SystemExit) as end:
        main(["profile", str(DIGITS), "--seconds", "0.05", "--trace", str(file), "--json"])
    assert end.value.code == 0
    record = json.loads(capsys.readouterr().out)
    events = json.loads(file.read_text())["traceEvents"]
    kernels = [e for e in events if e["ph"] == "X" and e["pid"] == 1]
    assert [e["args"]["kernel"] for e in kernels] == [k["kernel"] for k in record["kernels"]]
    ends = [e["ts"] + e["dur"] for e in kernels]
    assert all(abs(a - e["ts"]) < 1e-6 for a, e in zip(ends, kernels[1:])), "one after the other"
    assert {"compile", "fuse"} <= {e["name"] for e in events if e["pid"] == 2}
