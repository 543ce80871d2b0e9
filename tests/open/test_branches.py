"""Branches that are chosen at run time: right on both sides, and what the other side needs is not computed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from chance import RANDOM
from compiled import Compiled, compile_graphs, program_of, target
from onnx import GraphProto, ModelProto, TensorProto, helper, numpy_helper
from sanitized import ADDRESS, THREAD, run_sanitized

from edgec.emit.source import generate
from edgec.errors import ModelError
from edgec.execute.executor import PlanRun, run_plan, run_program
from edgec.frontend.onnx import import_model
from edgec.frontend.onnx.call import ModelWarning
from edgec.fuse import plan
from edgec.ir import evaluate
from edgec.ir.graph import Graph
from edgec.ir.text import constants_of, parse, show
from edgec.ir.verify import verify

F, B = TensorProto.FLOAT, TensorProto.BOOL
W = {f"w{k}": RANDOM.standard_normal((16, 16)).astype(np.float32) for k in range(4)}


def body(name: str, *nodes: object, output: str) -> GraphProto:
    return helper.make_graph(list(nodes), name, [], [helper.make_tensor_value_info(output, F, None)])


def node(op: str, inputs: str, output: str, **attributes: object) -> object:
    return helper.make_node(op, inputs.split(), output.split(), **attributes)


def model(*nodes: object, conditions: tuple[str, ...] = ("c",), outputs: tuple[str, ...] = ("y",)) -> ModelProto:
    inputs = [helper.make_tensor_value_info("x", F, [5, 16])]
    inputs += [helper.make_tensor_value_info(c, B, []) for c in conditions]
    results = [helper.make_tensor_value_info(o, F, None) for o in outputs]
    weights = [numpy_helper.from_array(a, n) for n, a in W.items()]
    graph = helper.make_graph(list(nodes), "net", inputs, results, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def choice(condition: str, then: GraphProto, otherwise: GraphProto, output: str) -> object:
    return node("If", condition, output, then_branch=then, else_branch=otherwise)


def product(weights: str, output: str, source: str = "x") -> list[object]:
    return [node("MatMul", f"{source} {weights}", f"{output}_m"), node("Tanh", f"{output}_m", output)]


def simple() -> ModelProto:
    then, other = body("a", *product("w0", "t"), output="t"), body("b", *product("w1", "o"), output="o")
    return model(choice("c", then, other, "y"))


def nested() -> ModelProto:
    inner = choice(
        "d", body("a", *product("w0", "p", "t"), output="p"), body("b", *product("w1", "q", "t"), output="q"), "i"
    )
    then = body("outer", *product("w2", "t"), inner, output="i")
    other = body("otherwise", node("Relu", "x", "o"), output="o")
    return model(choice("c", then, other, "z"), node("Neg", "z", "y"), conditions=("c", "d"))


def computed_condition() -> ModelProto:
    """The condition comes out of data, and one value is wanted on both sides."""
    then = body("a", *product("w1", "t", "shared"), output="t")
    other = body("b", node("Exp", "shared", "e"), *product("w2", "o", "e"), output="o")
    return model(
        *product("w0", "shared"), node("ReduceSum", "shared", "s", keepdims=0),
        node("Constant", "", "zero", value_float=0.0), node("Greater", "s zero", "g"),
        choice("g", then, other, "z"), node("Add", "z shared", "y"), conditions=(),
    )  # fmt: skip


def other_sizes() -> ModelProto:
    """The sides differ in size, and what follows works on the size that is taken."""
    then = body("a", node("Concat", "x x", "t", axis=0), output="t")
    other = body("b", node("Relu", "x", "o"), output="o")
    return model(choice("c", then, other, "z"), *product("w0", "y", "z"), node("ReduceMean", "y", "m", axes=[0]),
                 outputs=("y", "m"))  # fmt: skip


def padded() -> ModelProto:
    """A value stored in a padded buffer belongs to the side that reads the buffer."""
    image = [node("Constant", "", "shape", value_ints=[1, 5, 4, 4]), node("Reshape", "x shape", "image")]
    kernel = [numpy_helper.from_array(RANDOM.standard_normal((6, 5, 3, 3)).astype(np.float32), "k")]
    then = body("a", node("Relu", "image", "r"), node("Sigmoid", "r", "g"), node("Conv", "g k", "t", pads=[1, 1, 1, 1]),
                output="t")  # fmt: skip
    other = body("b", node("Conv", "image k", "o", pads=[1, 1, 1, 1]), output="o")
    made = model(*image, choice("c", then, other, "y"))
    made.graph.initializer.extend(kernel)
    return made


MODELS = {f.__name__: f() for f in (simple, nested, computed_condition, other_sizes, padded)}
GRAPHS = {name: import_model(made) for name, made in MODELS.items()}


def inputs_of(graph: Graph) -> list[dict[str, np.ndarray]]:
    """Both values of every condition."""
    names = [n.attributes["name"] for n in graph.inputs if n.type.dtype == "bool"]
    found = []
    for k in range(2 ** max(len(names), 1)):
        given = {"x": RANDOM.standard_normal((5, 16)).astype(np.float32) + (k % 2) - 0.5}
        found.append({**given, **{n: np.array(bool(k >> d & 1)) for d, n in enumerate(names)}})
    return found


def wanted(name: str, given: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    session = onnxruntime.InferenceSession(MODELS[name].SerializeToString())
    return dict(zip([o.name for o in session.get_outputs()], session.run(None, given)))


def check(name: str, got: dict[str, np.ndarray], want: dict[str, np.ndarray]) -> None:
    for port, array in want.items():
        assert got[port].shape == array.shape, (name, port)
        assert np.allclose(got[port], array, rtol=1e-4, atol=1e-5), (name, port)


@pytest.mark.parametrize("fuse", [True, False])
def test_agrees_with_onnxruntime(fuse: bool, tmp_path: Path) -> None:
    networks = compile_graphs(GRAPHS, tmp_path, fuse, threads=3)
    for name, graph in GRAPHS.items():
        verify(graph)
        network = networks[name]
        assert isinstance(network, Compiled), (name, network)
        for given in inputs_of(graph):
            want = wanted(name, given)
            planned = plan(graph, fuse)
            for got in (evaluate.run(graph, given), run_plan(planned, given), run_program(program_of(graph), given),
                        network(given), network(given, 3)):  # fmt: skip
                check(name, got, want)


def test_only_one_side_is_computed() -> None:
    for name in ("simple", "nested", "padded"):
        planned = plan(GRAPHS[name])
        assert planned.guards, name
        skipped = []
        for given in inputs_of(GRAPHS[name]):
            execution = PlanRun(planned, given)
            skipped.append(sum(execution.step(k) is None for k in range(len(planned.blocks))))
        assert min(skipped) >= 1, (name, skipped)
    calls = generate(program_of(GRAPHS["nested"]), "net").calls
    assert any(c.condition.count("&&") == 2 for c in calls), [c.condition for c in calls]


def test_a_value_wanted_on_both_sides_is_always_computed() -> None:
    planned = plan(GRAPHS["computed_condition"])
    shared = next(b for b in planned.blocks if any(n.op == "matmul" for n in b.nodes))
    assert shared.output not in planned.guards


@pytest.mark.parametrize("sanitizer", [ADDRESS, THREAD])
def test_sanitizers_find_nothing(sanitizer: tuple[str, ...], tmp_path: Path) -> None:
    for which in range(2):
        given = {name: inputs_of(graph)[which] for name, graph in GRAPHS.items()}
        folder = tmp_path / str(which)
        folder.mkdir()
        got = run_sanitized(GRAPHS, given, folder, target("host"), sanitizer, threads=1 if sanitizer is ADDRESS else 3)
        for name, outputs in got.items():
            check(name, outputs, wanted(name, given[name]))


def test_a_branch_that_does_not_fit_is_refused_when_it_is_asked_for(tmp_path: Path) -> None:
    """Models switch between inputs of several shapes: built for one, the network refuses to do the other."""
    then = body("a", *product("w0", "t"), output="t")
    other = body("b", node("MatMul", "x small", "o"), output="o")
    made = model(choice("c", then, other, "y"))
    made.graph.initializer.append(numpy_helper.from_array(np.zeros((8, 16), np.float32), "small"))
    with pytest.warns(ModelWarning, match="the else branch does not fit these inputs"):
        graph = import_model(made)
    verify(graph)
    assert parse(show(graph), constants_of(graph)).demands == graph.demands
    given = {"x": np.ones((5, 16), np.float32), "c": np.array(True)}
    network = compile_graphs({"n": graph}, tmp_path)["n"]
    assert isinstance(network, Compiled)
    want = np.tanh(given["x"] @ W["w0"])
    for got in (evaluate.run(graph, given), run_plan(plan(graph), given), network(given), network(given, 2)):
        assert np.allclose(got["y"], want, rtol=1e-4, atol=1e-5)
    given["c"] = np.array(False)
    for run in (lambda: evaluate.run(graph, given), lambda: run_plan(plan(graph), given),
                lambda: run_program(program_of(graph), given)):  # fmt: skip
        with pytest.raises(ModelError, match="the inputs ask for the branch that does not fit their shapes"):
            run()
    with pytest.raises(AssertionError, match="run returned 4"):
        network(given)


def test_sizes_decide_where_they_can() -> None:
    """A size that is known beside one that is not: only the branch that is taken is there."""
    then, other = body("a", node("Squeeze", "x axis", "t"), output="t"), body("b", node("Neg", "x", "o"), output="o")
    nodes = [
        node("Shape", "x", "shape"), node("Gather", "shape axis", "extent"), node("Equal", "extent one", "is_one"),
        node("Squeeze", "is_one", "c"), choice("c", then, other, "y"),
    ]  # fmt: skip
    constants = [numpy_helper.from_array(np.array([1]), n) for n in ("axis", "one")]
    for columns, taken in ((1, "reshape"), (7, "neg")):
        x = helper.make_tensor_value_info("x", F, ["rows", columns])
        graph = helper.make_graph(nodes, "net", [x], [helper.make_tensor_value_info("y", F, None)], constants)
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        assert [n.op for n in import_model(made, dims={"rows": (1, 9, 1)}).operations()] == [taken]


def test_a_branch_that_is_not_taken_demands_nothing() -> None:
    """Inside one side stands a choice of which only one branch fits: that matters only where the side is taken."""
    misfit = body("p", node("Reshape", "t seven", "p"), output="p")
    inner = choice("d", misfit, body("q", node("Neg", "t", "q"), output="q"), "i")
    then = body("outer", *product("w2", "t"), inner, output="i")
    made = model(choice("c", then, body("o", node("Relu", "x", "o"), output="o"), "y"), conditions=("c", "d"))
    made.graph.initializer.append(numpy_helper.from_array(np.array([7]), "seven"))
    with pytest.warns(ModelWarning, match="the then branch does not fit"):
        graph = import_model(made)
    ((_, demand),) = graph.demands
    met = Graph(graph.inputs, (("met", demand),))
    for c in (False, True):
        for d in (False, True):
            given = {"x": np.zeros((5, 16), np.float32), "c": np.array(c), "d": np.array(d)}
            assert bool(evaluate.run(met, given)["met"]) == (not (c and d))
