"""Import of a model: inputs, constants, origins, functions, control flow, external operators."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.parser import parse_model
from small_models import model, node, tensor_input, weights

from edgec.errors import ModelError
from edgec.frontend.onnx import ModelWarning, call, import_model, unsupported
from edgec.ir import evaluate, registry
from edgec.ir.graph import Graph


def run(graph: Graph, **inputs: np.ndarray) -> np.ndarray:
    return np.asarray(evaluate.run(graph, inputs)[graph.outputs[0][0]])


def operators(graph: Graph) -> list[str]:
    return [n.op for n in graph.operations()]


X = np.arange(6, dtype=np.float32).reshape(2, 3) - 2


def test_shapes_fill_symbols_of_every_input() -> None:
    inputs = [tensor_input("x", ["n", 3]), tensor_input("z", ["n", None])]
    source = model([node("Add", ["x", "z"], ["y"])], inputs)
    graph = import_model(source, {"z": (4, 1)})
    assert [n.type.shape for n in graph.inputs] == [(4, 3), (4, 1)]


def test_fixed_values_are_no_inputs() -> None:
    inputs = [tensor_input("x", [2, 3]), tensor_input("scale", [])]
    graph = import_model(model([node("Mul", ["x", "scale"], ["y"])], inputs), values={"scale": 3})
    assert [n.attributes["name"] for n in graph.inputs] == ["x"]
    assert np.array_equal(run(graph, x=X), X * 3)


def test_initializers_listed_as_inputs_are_constants() -> None:
    inputs = [tensor_input("x", [2, 3]), tensor_input("w", [3])]
    source = model([node("Add", ["x", "w"], ["y"])], inputs, initializers=[weights("w", np.ones(3, np.float32))])
    assert [n.attributes["name"] for n in import_model(source).inputs] == ["x"]


def test_name_metadata_and_source(tmp_path: Path) -> None:
    source = model([node("Relu", ["x"], ["y"])])
    source.producer_name, source.producer_version = "exporter", "1.2"
    source.metadata_props.add(key="author", value="nobody\n")
    path = tmp_path / "my-net v2.onnx"
    path.write_bytes(source.SerializeToString())
    graph = import_model(path)
    assert graph.name == "my_net_v2"
    assert graph.metadata == {"author": "nobody\\n", "producer": "exporter 1.2", "opset": "ai.onnx 17"}
    assert import_model(path.read_bytes()).outputs == import_model(source).outputs == graph.outputs


def test_origin_names_the_users_nodes() -> None:
    graph = import_model(model([node("Softmax", ["x"], ["s"], name="soft"), node("Abs", ["s"], ["y"])]))
    origins = {n.op: graph.names(n) for n in graph.operations()}
    assert origins == {
        "reduce": ("soft",),
        "sub": ("soft",),
        "exp": ("soft",),
        "div": ("soft",),
        "abs": ("y",),
    }


def test_one_node_of_two_origins() -> None:
    nodes = [
        node("Relu", ["x"], ["a"], name="one"),
        node("Relu", ["x"], ["b"], name="two"),
        node("Add", ["a", "b"], ["y"]),
    ]
    graph = import_model(model(nodes))
    (relu,) = (n for n in graph.operations() if n.op == "max")
    assert graph.names(relu) == ("one", "two")


def test_shape_arithmetic_disappears() -> None:
    nodes = [
        node("Shape", ["x"], ["s"]),
        node("Gather", ["s", "zero"], ["n"]),
        node("Unsqueeze", ["n", "axes"], ["n1"]),
        node("Concat", ["n1", "rest"], ["target"], axis=0),
        node("Reshape", ["x", "target"], ["y"]),
    ]
    constants = [
        weights("zero", np.array(0)),
        weights("axes", np.array([0])),
        weights("rest", np.array([-1])),
    ]
    graph = import_model(model(nodes, [tensor_input("x", [2, 3, 4])], initializers=constants))
    assert operators(graph) == ["reshape"]
    assert graph.outputs[0][1].type.shape == (2, 12)


def test_repeated_constants_stay_one_copy() -> None:
    nodes = [
        node("ConstantOfShape", ["s"], ["c"]),
        node("Add", ["c", "one"], ["d"]),
        node("Add", ["x", "d"], ["y"]),
    ]
    constants = [weights("s", np.array([1000, 1000])), weights("one", np.float32(1))]
    graph = import_model(model(nodes, [tensor_input("x", [1000])], initializers=constants))
    assert all(n.type.elements <= 1000 for n in graph.nodes() if n.is_const)


def test_quantized_weights_stay_integers() -> None:
    nodes = [node("DequantizeLinear", ["w", "s"], ["wf"]), node("MatMul", ["x", "wf"], ["y"])]
    constants = [weights("w", np.ones((3, 4), np.int8)), weights("s", np.float32(0.5))]
    graph = import_model(model(nodes, initializers=constants))
    assert "i8" in {n.type.dtype for n in graph.nodes() if n.is_const}
    assert np.allclose(run(graph, x=X), X @ np.full((3, 4), 0.5, np.float32))


def test_nodes_in_the_wrong_order_are_sorted() -> None:
    graph = import_model(model([node("Abs", ["a"], ["y"]), node("Neg", ["x"], ["a"])]))
    assert operators(graph) == ["neg", "abs"]


def test_nodes_nobody_needs_are_not_lowered() -> None:
    nodes = [node("Relu", ["x"], ["y"]), node("Reshape", ["x", "x2"], ["z"])]
    shape = tensor_input("x2", [1], TensorProto.INT64)
    assert operators(import_model(model(nodes, [tensor_input("x", [2, 3]), shape]))) == ["max"]


def test_functions_of_the_model() -> None:
    body = [
        node("Mul", ["a", "a"], ["sq"], name="square"),
        helper.make_node("LeakyRelu", ["sq"], ["b"], name="leak"),
    ]
    body[1].attribute.add(name="alpha", type=onnx.AttributeProto.FLOAT, ref_attr_name="slope")
    function = helper.make_function(
        "my", "SquareLeak", ["a"], ["b"], body, [helper.make_opsetid("", 17)], attributes=["slope"]
    )
    call = node("SquareLeak", ["x"], ["y"], name="act", domain="my", slope=0.5)
    graph = import_model(model([call], domains=["my"], functions=[function]))
    assert {name for n in graph.operations() for name in graph.names(n)} == {"act/square", "act/leak"}
    assert np.array_equal(run(graph, x=X), X * X)


def test_bodies_of_the_standard_for_open_dimensions() -> None:
    """Attention is defined for the types of its operands, of which a batch may be open."""
    given = [tensor_input(n, ["b", 2, 3, 4]) for n in "qkv"]
    proto = model([node("Attention", ["q", "k", "v"], ["y"])], given, opset=23)
    feeds = {n: np.random.default_rng(k).standard_normal((2, 2, 3, 4)).astype(np.float32) for k, n in enumerate("qkv")}
    fixed = import_model(proto, dict.fromkeys("qkv", (2, 2, 3, 4)))
    assert np.array_equal(run(import_model(proto, dims={"b": (1, 3, 1)}), **feeds), run(fixed, **feeds))


def test_zero_sized_and_rank_zero() -> None:
    graph = import_model(model([node("Relu", ["x"], ["y"])], [tensor_input("x", ["n", 3])]), {"x": (0, 3)})
    assert run(graph, x=np.zeros((0, 3), np.float32)).shape == (0, 3)
    graph = import_model(model([node("Neg", ["x"], ["y"])], [tensor_input("x", [])]))
    assert run(graph, x=np.array(2, np.float32)).tolist() == -2


def branch(operator: str) -> onnx.GraphProto:
    return helper.make_graph([node(operator, ["x"], ["z"], name="inside")], "b", [], [tensor_input("z", None)])


def test_only_the_branch_that_is_taken() -> None:
    choose = node("If", ["c"], ["y"], name="choose", then_branch=branch("Neg"), else_branch=branch("Abs"))
    inputs = [tensor_input("x", [2, 3]), tensor_input("c", [], TensorProto.BOOL)]
    graph = import_model(model([choose], inputs), values={"c": False})
    (only,) = graph.operations()
    assert only.op == "abs" and graph.names(only) == ("choose/inside",)


def test_of_branches_of_two_ranks_the_one_that_computes_nothing() -> None:
    """No value has both ranks: the usual course passes a value on, and a run that asks for the other is refused."""
    choose = node("If", ["c"], ["y"], name="choose", then_branch=branch("Det"), else_branch=branch("Identity"))
    inputs = [tensor_input("x", [2, 2]), tensor_input("b", [1], TensorProto.BOOL)]
    network = model([node("Squeeze", ["b"], ["c"]), choose], inputs)
    with pytest.warns(ModelWarning, match="another rank"):
        graph = import_model(network)
    x = np.eye(2, dtype=np.float32)
    assert run(graph, x=x, b=np.array([False])).shape == (2, 2)
    ((message, met),) = graph.demands
    assert "does not fit" in message
    held = Graph(graph.inputs, (("met", met),))
    assert [bool(run(held, x=x, b=np.array([asked]))) for asked in (False, True)] == [True, False]


def test_branches_of_two_ranks_that_both_compute_are_refused() -> None:
    choose = node("If", ["c"], ["y"], name="choose", then_branch=branch("Det"), else_branch=branch("Neg"))
    inputs = [tensor_input("x", [2, 2]), tensor_input("c", [], TensorProto.BOOL)]
    with pytest.raises(ModelError, match="data decides which"):
        import_model(model([choose], inputs))


def test_loops_are_unrolled() -> None:
    body = helper.make_graph(
        [node("Add", ["state", "x"], ["next"]), node("Identity", ["go"], ["on"])],
        "body",
        [
            tensor_input("k", [], TensorProto.INT64),
            tensor_input("go", [], TensorProto.BOOL),
            tensor_input("state", [2, 3]),
        ],
        [tensor_input("on", [], TensorProto.BOOL), tensor_input("next", [2, 3])],
    )
    loop = node("Loop", ["times", "", "x"], ["y"], name="loop", body=body)
    graph = import_model(model([loop], initializers=[weights("times", np.array(3))]))
    assert operators(graph) == ["add"] * 3
    assert np.array_equal(run(graph, x=X), X * 4)


def test_range_with_bounds_that_are_no_scalars() -> None:
    nodes = [node("Range", ["a", "b", "c"], ["r"], name="count"), node("Add", ["x", "r"], ["y"])]
    constants = [weights(n, np.array([v], np.float32)) for n, v in (("a", 0), ("b", 3), ("c", 1))]
    with pytest.warns(ModelWarning, match="node 'count' .Range.: its bounds should be scalars"):
        graph = import_model(model(nodes, initializers=constants))
    assert np.array_equal(run(graph, x=X), X + np.arange(3, dtype=np.float32))


def test_dequantized_bias_with_an_axis_outside() -> None:
    nodes = [
        node("DequantizeLinear", ["b", "s"], ["bf"], name="bias", axis=3),
        node("Add", ["x", "bf"], ["y"]),
    ]
    constants = [weights("b", np.array([1, 2, 3], np.int32)), weights("s", np.array([1, 2, 3], np.float32))]
    with pytest.warns(ModelWarning, match="axis 3 is outside a tensor of 1 dimension"):
        graph = import_model(model(nodes, initializers=constants))
    assert np.array_equal(run(graph, x=X), X + np.array([1, 4, 9], np.float32))


def test_output_that_is_listed_twice() -> None:
    """Exporters list an output once for each time a function returns it; onnxruntime takes such models too."""
    with pytest.warns(ModelWarning, match="output 'y' is listed twice"):
        graph = import_model(model([node("Neg", ["x"], ["y"])], outputs=["y", "y"]))
    assert [name for name, _ in graph.outputs] == ["y"]


@pytest.mark.parametrize("upper", [0, 1])
def test_triangle_below_a_diagonal_that_data_decide(upper: int) -> None:
    """Masks of attention over a cache: the diagonal is a difference of run-time sizes, or an input."""
    inputs = [tensor_input("x", [2, 3]), tensor_input("k", [], TensorProto.INT64)]
    graph = import_model(model([node("Trilu", ["x", "k"], ["y"], upper=upper)], inputs))
    for k in range(-3, 4):
        wanted = np.triu(X, k) if upper else np.tril(X, k)
        assert np.array_equal(run(graph, x=X, k=np.array(k)), wanted)


OPERATORS = '''
"""Operators of my own."""

from edgec.frontend.onnx import onnx
from edgec.ops import compute, op


@op
def my_square(x, *, shift):
    return compute(x.shape, lambda *i: (x[i] - shift) * (x[i] - shift))


@onnx("SquareOf", domain="my.domain")
def square_of(call):
    return call.node("my_square", call[0], shift=call.attribute("shift", 0.0))
'''


def test_operators_from_outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_OPERATORS", dict(registry._OPERATORS))  # other tests count the operators
    monkeypatch.setattr(call, "_LOWERINGS", dict(call._LOWERINGS))
    (tmp_path / "mine.py").write_text(OPERATORS)
    source = model([node("SquareOf", ["x"], ["y"], name="sq", domain="my.domain", shift=1.0)], domains=["my.domain"])
    graph = import_model(source, ops_folders=[tmp_path])
    assert operators(graph) == ["my_square"]
    assert np.array_equal(run(graph, x=X), (X - 1) ** 2)
    assert unsupported(source) == []


def test_all_unsupported_operators_at_once() -> None:
    nodes = [node("Odd", ["x"], ["a"], name="o"), node("CastMap", ["a"], ["y"], name="s", domain="ai.onnx.ml")]
    source = model(nodes, opset=20, domains=["ai.onnx.ml"])
    assert unsupported(source) == [
        ("o", "Odd", "ONNX has no such operator"),
        (
            "s",
            "ai.onnx.ml::CastMap",
            "it takes strings or maps, which are not supported; do this step in your own code",
        ),
    ]


def test_import_is_deterministic() -> None:
    source = model([node("Softmax", ["x"], ["s"]), node("LayerNormalization", ["s", "w"], ["y"])],
                   initializers=[weights("w", np.ones(3, np.float32))])  # fmt: skip
    first, second = import_model(source), import_model(source)
    assert [n.key for n in first.nodes()] == [n.key for n in second.nodes()]


@pytest.mark.parametrize("kind", ["int64", "bool", "uint8"])
def test_functions_of_floats_refuse_other_numbers(kind: str) -> None:
    """onnxruntime refuses them too; C has no code of them."""
    for operator in ("Atan", "Exp", "Sqrt", "Erf", "Softmax", "Mish"):
        made = parse_model(
            f"""<ir_version: 8, opset_import: ["": 18]> net ({kind}[2] x) => ({kind}[2] y) {{ y = {operator} (x) }}"""
        )
        with pytest.raises(ModelError, match="cast to floats before it"):
            import_model(made)
    for operator in ("IsNaN", "IsInf"):
        asked = parse_model(
            f"""<ir_version: 8, opset_import: ["": 20]> net ({kind}[2] x) => (bool[2] y) {{ y = {operator} (x) }}"""
        )
        assert not evaluate.run(import_model(asked), {"x": np.ones(2, kind)})["y"].any()
