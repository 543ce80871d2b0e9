"""States: an output that is the next value of an input, in an array of its own or in the very same one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from chance import RANDOM
from compiled import Compiled, compile_graphs, program_of, target
from onnx import TensorProto
from sanitized import ADDRESS, THREAD, run_sanitized
from small_models import model, node, tensor_input, weights

import edgec
from edgec.errors import ModelError, UsageError
from edgec.execute.executor import run_program
from edgec.frontend.onnx.importer import import_model
from edgec.frontend.states import advanced, with_states
from edgec.ir.graph import Graph

Arrays = dict[str, np.ndarray]


def floats(*shape: int) -> np.ndarray:
    return (RANDOM.standard_normal(shape) * 0.3).astype(np.float32)


def recurrent(operator: str, gates: int, steps: int) -> onnx.ModelProto:
    """A sequence of 40 features, states of 24."""
    states = ["h", "c"] if operator == "LSTM" else ["h"]
    inputs = [tensor_input("x", [steps, 2, 40]), *(tensor_input(s, [1, 2, 24]) for s in states)]
    w = [weights("w", floats(1, gates * 24, 40)), weights("r", floats(1, gates * 24, 24))]
    made = node(operator, ["x", "w", "r", "", "", *states], ["y", *(f"{s}n" for s in states)], hidden_size=24)
    return model([made], inputs, ["y", *(f"{s}n" for s in states)], w)


def _model(nodes: list[onnx.NodeProto], *initializers: onnx.TensorProto, size: int = 70) -> onnx.ModelProto:
    """From x and the state s (both [4, size]) to y and the next state t."""
    return model(nodes, [tensor_input("x", [4, size]), tensor_input("s", [4, size])], ["y", "t"], initializers)


def cache(kind: str) -> onnx.ModelProto:
    """A cache of 32 rows, one of which is written, and all of which are then read."""
    inputs = [
        tensor_input("cache", [32, 16]),
        tensor_input("row", [1, 16]),
        tensor_input("at", [1, 1], TensorProto.INT64),
    ]
    if kind == "ScatterND":
        write = [node("ScatterND", ["cache", "at", "row"], ["next"])]
    else:
        write = [
            node("Expand", ["at", "width"], ["places"]),
            node("ScatterElements", ["cache", "places", "row"], ["next"], axis=0),
        ]
    read = [node("Transpose", ["next"], ["keys"]), node("MatMul", ["row", "keys"], ["scores"])]
    return model([*write, *read], inputs, ["scores", "next"], [weights("width", np.array([1, 16]))])


SQUARE = weights("w", floats(70, 70))
STACK = [
    node("Split", ["s"], ["a", "b"], axis=0, num_outputs=2),
    node("Split", ["x"], ["p", "q"], axis=0, num_outputs=2),
    node("Add", ["a", "p"], ["a1"]),
    node("Mul", ["b", "q"], ["b1"]),
    node("MatMul", ["a1", "w"], ["a2"]),
    node("Concat", ["a2", "b1"], ["t"], axis=0),
    node("Add", ["t", "x"], ["y"]),
]
MODELS: dict[str, tuple[onnx.ModelProto, Mapping[str, str]]] = {
    "lstm": (recurrent("LSTM", 4, 1), {"h": "hn", "c": "cn"}),
    "long lstm": (recurrent("LSTM", 4, 20), {"h": "hn", "c": "cn"}),
    "gru": (recurrent("GRU", 3, 2), {"h": "hn"}),
    "sum": (_model([node("Add", ["s", "x"], ["t"]), node("Exp", ["t"], ["y"])]), {"s": "t"}),
    "read after it was renewed": (
        _model([node("Add", ["s", "x"], ["t"]), node("MatMul", ["t", "w"], ["u"]), node("MatMul", ["s", "w"], ["v"]),
                node("Add", ["u", "v"], ["y"])], SQUARE),
        {"s": "t"},
    ),
    "product": (
        _model([node("MatMul", ["s", "w"], ["u"]), node("Add", ["u", "x"], ["t"]), node("Relu", ["t"], ["y"])], SQUARE),
        {"s": "t"},
    ),
    "residual product": (
        _model([node("MatMul", ["x", "w"], ["u"]), node("Add", ["u", "s"], ["t"]), node("Relu", ["t"], ["y"])], SQUARE),
        {"s": "t"},
    ),
    "softmax": (_model([node("Add", ["x", "s"], ["y"]), node("Softmax", ["y"], ["t"])]), {"s": "t"}),
    "unchanged": (_model([node("Add", ["x", "s"], ["y"]), node("Identity", ["s"], ["t"])]), {"s": "t"}),
    "exchanged": (_model([node("Identity", ["x"], ["t"]), node("Identity", ["s"], ["y"])]), {"s": "t", "x": "y"}),
    "turned around": (
        _model([node("Add", ["x", "s"], ["y"]), node("Slice", ["s", "start", "end", "axis", "step"], ["t"])],
               *(weights(n, np.array([v])) for n, v in (("start", -1), ("end", -(2**40)), ("axis", 1), ("step", -1)))),
        {"s": "t"},
    ),
    "two in one": (_model(STACK, SQUARE), {"s": "t"}),
    "shifted": (
        _model([node("Split", ["s"], ["first", "rest"], axis=0, num_outputs=2), node("Add", ["first", "rest"], ["z"]),
                node("Concat", ["rest", "z"], ["t"], axis=0), node("Add", ["t", "x"], ["y"])]),
        {"s": "t"},
    ),
    "cache": (cache("ScatterND"), {"cache": "next"}),
    "cache by elements": (cache("ScatterElements"), {"cache": "next"}),
}  # fmt: skip
for made, _ in MODELS.values():  # Split has num_outputs from operator set 18 on
    made.opset_import[0].version, made.ir_version = 18, 8
GRAPHS = {name: with_states(import_model(made), pairs) for name, (made, pairs) in MODELS.items()}


def given(graph: Graph, seed: int) -> Arrays:
    random = np.random.default_rng(seed)
    return {
        n.attributes["name"]: random.integers(0, 32, n.type.shape)
        if n.type.dtype == "i64"
        else random.standard_normal(n.type.shape).astype(np.float32)
        for n in graph.inputs
    }


def wanted(name: str, fed: Arrays) -> Arrays:
    session = onnxruntime.InferenceSession(MODELS[name][0].SerializeToString())
    return dict(zip((o.name for o in session.get_outputs()), session.run(None, fed)))


def close(name: str, got: Arrays, want: Arrays) -> None:
    for port, array in want.items():
        most = np.abs(array).max(initial=1e-30)
        assert np.abs(got[port] - array).max(initial=0) <= 1e-5 * most, (name, port)


@pytest.mark.parametrize("fuse", [True, False])
def test_one_array_gives_what_two_give(fuse: bool, tmp_path: Path) -> None:
    """Five runs in a row, each from the state that the one before left, alone and on three threads."""
    where = target("host")
    made = compile_graphs(GRAPHS, tmp_path, fuse, where.flags, where.device, threads=3)
    for name, network in made.items():
        assert isinstance(network, Compiled), (name, network)
        known: Arrays = {}
        for seed in range(5):
            fed = {**given(GRAPHS[name], seed), **known}
            apart = network(fed)
            close(name, apart, wanted(name, fed))
            kept = {new: apart[new] for new in apart}
            for threads in (None, 3):
                together = network(fed, threads, in_place=True)
                assert all(np.array_equal(together[port], kept[port]) for port in kept), (name, threads)
            known = advanced(GRAPHS[name], fed, apart)


def test_a_program_in_numpy_overwrites_its_states() -> None:
    for name, graph in GRAPHS.items():
        fed = given(graph, 3)
        close(name, run_program(program_of(graph), fed), wanted(name, fed))


@pytest.mark.parametrize("sanitizer", [ADDRESS, THREAD])
def test_stays_inside_and_does_not_race(sanitizer: list[str], tmp_path: Path) -> None:
    fed = {name: given(graph, 4) for name, graph in GRAPHS.items()}
    threads = 3 if sanitizer is THREAD else 1
    got = run_sanitized(GRAPHS, fed, tmp_path, target("host"), sanitizer, threads, in_place=True)
    for name, outputs in got.items():
        close(name, outputs, wanted(name, fed[name]))


def test_only_what_comes_too_early_is_copied() -> None:
    def kernels(name: str, pairs: Mapping[str, str]) -> int:
        return len(program_of(with_states(import_model(MODELS[name][0]), pairs)).kernels)

    extra = {name: kernels(name, pairs) - kernels(name, {}) for name, (_, pairs) in MODELS.items()}
    assert {name for name, more in extra.items() if more} >= {"product", "turned around", "exchanged"}
    free = {"lstm", "sum", "residual product", "unchanged", "cache", "cache by elements"}
    assert not {name for name, more in extra.items() if more} & free, extra


def test_states_of_a_build_are_checked_as_states() -> None:
    made, pairs = MODELS["lstm"]
    built = edgec.build(made, states=pairs, threads=2)
    assert edgec.check(built).ok
    fed = given(built.graph, 5)
    apart = built.network.run(fed)
    own = {new: fed[old].copy() for old, new in pairs.items()}
    together = built.network.run({**fed, **{old: own[new] for old, new in pairs.items()}}, own)
    assert all(together[new] is own[new] for new in own)
    assert all(np.array_equal(together[port], apart[port]) for port in apart)
    for wrong, message in (
        (np.zeros(3, np.float32), "goes into"),
        (np.zeros((1, 2, 48), np.float32)[..., ::2], "not c"),
    ):
        with pytest.raises(ModelError, match=message):
            built.network.run(fed, {"hn": wrong})


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        ({"z": "t"}, "a state is given for 'z', which is no input of the network"),
        ({"s": "z"}, "a state is given for 'z', which is no output of the network"),
        ({"s": "t", "x": "t"}, "one output is the new value of two states"),
    ],
)
def test_refused(pairs: Mapping[str, str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        edgec.load(MODELS["sum"][0], states=pairs)


def test_a_state_keeps_its_shape() -> None:
    with pytest.raises(UsageError, match=r"state 'h' is f32\[1,2,24\], and its new value 'y' f32\[1,1,2,24\]"):
        edgec.load(MODELS["lstm"][0], states={"h": "y"})
