"""Findings of random models, each reduced: all stages and the C compiler against onnxruntime."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import onnxruntime
import pytest
from compiled import Compiled, compile_graphs, target
from onnx import ModelProto, parser

from edgec import pipeline
from edgec.errors import ModelError
from edgec.frontend.onnx import import_model
from edgec.ir import evaluate
from edgec.ir.graph import Graph
from edgec.options import resolve

#: Graphs in ONNX's own text form, behind their operator set.
CASES = {
    "logarithm of integers": (
        14, "g (int32[8,9] x) => (int32[8] y) { y = ReduceLogSum <axes = [1], keepdims = 0> (x) }",
    ),
    "batch normalization in double precision": (
        17,
        "g (double[3,4,5] x, double[4] s, double[4] b, double[4] m, double[4] v) => (double[3,4,5] y)"
        "{ w = Abs (v) y = BatchNormalization (x, s, b, m, w) }",
    ),
    "batch normalization of a batch in double precision": (
        17,
        "g (double[3,4,5] x, double[4] s, double[4] b, double[4] m, double[4] v)"
        " => (double[3,4,5] y, double[4] n, double[4] w)"
        "{ t = Abs (v) y, n, w = BatchNormalization <training_mode = 1> (x, s, b, m, t) }",
    ),
    "a computed size that is known": (20, "g (float[1,1] x) => (float[n] y, int64[n] k) { y, , i, k = Unique (x) }"),
    "greatest of an open dimension": (
        13,
        "g (float[2,n] x) => (int64[2] i, int64[2] j, float[2,n] y)"
        "{ i = ArgMax <axis = 1, keepdims = 0> (x) j = ArgMin <axis = 1, keepdims = 0, select_last_index = 1> (x)"
        "y = Hardmax (x) }",
    ),
    "places of maxima in an open image": (
        17,
        "g (float[1,2,n,5] x) => (float[1,2,m,4] y, int64[1,2,m,4] i, int64[1,2,k,4] j)"
        "{ y, i = MaxPool <kernel_shape = [2, 2], pads = [1, 0, 0, 0]> (x)"
        "z, j = MaxPool <kernel_shape = [2, 2], storage_order = 1> (x) }",
    ),
    "reflected, of an open dimension": (
        17, "g (float[2,n] x) => (float[2,m] y) <int64[4] p = {0,2,0,1}> { y = Pad <mode = \"reflect\"> (x, p) }",
    ),
    "repeated at the edge, of an open dimension": (
        17, "g (float[2,n] x) => (float[2,m] y) <int64[4] p = {0,2,0,1}> { y = Pad <mode = \"edge\"> (x, p) }",
    ),
    "wrapped, of an open dimension": (
        19, "g (float[2,n] x) => (float[2,m] y) <int64[4] p = {0,2,0,1}> { y = Pad <mode = \"wrap\"> (x, p) }",
    ),
    "few activations, normalized": (
        20,
        "g (float[2,2] x) => (float[2,2] y) <float[2] s = {-3,3}>"
        "{ t = Gelu (x) y = LayerNormalization <axis = 1> (t, s) }",
    ),
    "one byte by one byte": (
        14,
        "g (float[1,1,1,1] x) => (uint8[1,1,1,1] y) <uint8[1,1,1,1] w = {8}, float s = {0.5}, uint8 z = {3},"
        " float t = {2}> { q = Cast <to = 2> (x) y = QLinearConv <strides = [1, 2]> (q, s, z, w, s, z, t, z) }",
    ),
    "nothing but zeros, quantized": (
        14,
        "g (float[2,3] x) => (uint8[2,3] y, float s, uint8 z) <float zero = {0}>"
        "{ t = Mul (x, zero) y, s, z = DynamicQuantizeLinear (t) }",
    ),
}  # fmt: skip
DIMS = {"n": (3, 9, 1)}


def model(name: str) -> ModelProto:
    opset, text = CASES[name]
    return parser.parse_model(f'<ir_version: 8, opset_import: ["" : {opset}]> {text}')


def graph(proto: ModelProto) -> Graph:
    is_open = any(d.dim_param for i in proto.graph.input for d in i.type.tensor_type.shape.dim)
    options = replace(resolve({}), device=target("host").device, dims=DIMS if is_open else {})
    context = pipeline.Context(options)
    return pipeline.simplify(pipeline.import_(proto, context), context).graph


def inputs(proto: ModelProto, size: int) -> Mapping[str, np.ndarray]:
    random = np.random.default_rng(size)
    kinds = {1: np.float32, 6: np.int32, 11: np.float64}
    made = {}
    for i in proto.graph.input:
        shape = [d.dim_value or size for d in i.type.tensor_type.shape.dim]
        made[i.name] = (random.standard_normal(shape) * 9 + 20).astype(kinds[i.type.tensor_type.elem_type])
    return made


@pytest.fixture(scope="module")
def networks(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, object]:
    return compile_graphs({name: graph(model(name)) for name in CASES}, tmp_path_factory.mktemp("findings"))


@pytest.mark.parametrize("name", CASES)
def test_agrees_with_onnxruntime(name: str, networks: Mapping[str, object]) -> None:
    proto, network = model(name), networks[name]
    assert isinstance(network, Compiled), network
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    for size in (3, 4, 9):
        given = inputs(proto, size)
        got = network(given)
        for output, want in zip(session.get_outputs(), session.run(None, dict(given))):
            assert got[output.name].dtype == want.dtype and got[output.name].shape == want.shape
            np.testing.assert_allclose(got[output.name], want, rtol=1e-12 if want.dtype == np.float64 else 1e-5)


def test_the_mask_of_an_old_dropout_has_the_type_of_its_input() -> None:
    proto = parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 7]> g (float[3] x) => (float[3] y, float[3] m) { y, m = Dropout (x) }'
    )
    assert [str(n.type) for _, n in import_model(proto).outputs] == ["f32[3]", "f32[3]"]


def test_values_are_given_up_together_with_what_is_computed_from_them() -> None:
    """onnxruntime subtracts the mean of one element from it less exactly: what the graph means decides."""
    proto = parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 13, "com.microsoft" : 1]>'
        "g (float[3] x, float[3] b, float[1] s) => (float[3,1,1,1] y) <int64[4] to = {0,1,1,1}, float[1] c = {-0.5}>"
        "{ t = com.microsoft.BiasGelu (x, b) u = Reshape (t, to) y = InstanceNormalization (u, s, c) }"
    )
    given = inputs(proto, 1)
    got = evaluate.run(graph(proto), given)
    np.testing.assert_allclose(got["y"], evaluate.run(import_model(proto), given)["y"], rtol=1e-6)


def test_padding_by_more_than_the_least_size_holds_is_refused() -> None:
    text = 'g (float[n] x) => (float[m] y) <int64[2] p = {3,0}> { y = Pad <mode = "reflect"> (x, p) }'
    proto = parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> {text}')
    with pytest.raises(ModelError, match="padded by more"):
        import_model(proto, dims=DIMS)
