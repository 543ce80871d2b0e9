"""The text form prints and reads back to the identical nodes."""

from __future__ import annotations

import gc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from edgec.errors import ModelError
from edgec.ir.graph import Graph, constant, placeholder
from edgec.ir.text import constants_of, parse, show
from edgec.ir.types import DTYPES, Type
from edgec.ops import node

EXAMPLE = """\
graph net(x: f32[2,8], "images:0": i64[3]) -> (y, "scores 1")
metadata "producer" = "by \\"hand\\""
%0: f32[8] = const [1.0, 2.5, -0.0, 0.1, 1e-45, nan, inf, -inf]
%1: f32[2,8] = mul(x, %0)  # /layer/Mul, "odd, name"
%2: f32[8,2] = transpose(%1, perm=(1, 0))
%3: f32[10,2] = pad(%2, after=(1, 0), before=(1, 0), value=-inf)
%4: f32[3] = cast("images:0", to="f32")
return y=%3, "scores 1"=%4
"""


def test_the_example_reads_back_and_prints_the_same() -> None:
    graph = parse(EXAMPLE)
    assert show(graph) == EXAMPLE
    assert parse(show(graph)) == graph
    assert graph.names(graph.nodes()[2]) == ("/layer/Mul", "odd, name")
    assert graph.metadata == {"producer": 'by "hand"'}
    pad = dict(graph.outputs)["y"]
    assert pad.attributes == {"before": (1, 0), "after": (1, 0), "value": -np.inf}


def test_reading_gives_the_very_same_nodes() -> None:
    first, second = parse(EXAMPLE), parse(EXAMPLE)
    assert all(a is b for a, b in zip(first.nodes(), second.nodes()))


def test_equal_nodes_are_one_object_and_unequal_ones_are_not() -> None:
    x = placeholder("x", Type("f32", (2, 2)))
    assert node("add", x, x) is node("add", x, x)
    assert node("transpose", x, perm=[1, 0]) is node("transpose", x, perm=(np.int64(1), np.int32(0)))
    assert node("add", x, x) is not node("mul", x, x)
    zeros = np.zeros(2, np.float32)
    assert constant(zeros) is constant(zeros.copy())
    assert constant(zeros) is not constant(-zeros), "the sign of zero is part of a constant"
    assert constant(zeros) is not constant(zeros.reshape(2, 1))


def test_the_key_of_a_node_depends_on_its_content_alone() -> None:
    def build() -> str:
        x = placeholder("x", Type("f32", (3,)))
        return node("mul", x, constant(np.arange(3, dtype=np.float32))).key

    first = build()
    gc.collect()
    assert build() == first


def test_a_large_constant_is_written_by_digest_and_looked_up() -> None:
    weights = constant(np.arange(40, dtype=np.float32))
    x = placeholder("x", Type("f32", (40,)))
    graph = Graph((x,), (("y", node("add", x, weights)),))
    assert f"const @{weights.attributes['value'].digest}" in show(graph)
    assert parse(show(graph), constants_of(graph)) == graph
    with pytest.raises(ModelError, match="not at hand"):
        parse(show(graph))


def test_a_nan_with_a_payload_is_not_written_as_nan() -> None:
    value = np.array([0x7FC00001], np.uint32).view(np.float32)
    graph = Graph((), (("y", constant(value)),))
    assert "@" in show(graph)
    assert parse(show(graph), constants_of(graph)) == graph


@pytest.mark.parametrize(
    "name", ["inf", "nan", "graph", "return", "True", "%1", "a b", "ß", "#", 'q"', "x\n", "", "é#"]
)
def test_any_name_survives(name: str) -> None:
    x = placeholder(name, Type("f32", (2,)))
    y = node("neg", x)
    graph = Graph((x,), ((name, y),), name, {y: (name or "n",)}, {name: name})
    assert parse(show(graph)) == graph


def test_an_undeclared_input_is_still_printed() -> None:
    x = placeholder("x", Type("f32", (2,)))
    graph = Graph((), (("y", node("neg", x)),))
    assert '%0: f32[2] = input(name="x")' in show(graph)
    assert parse(show(graph)) == graph


@st.composite
def arrays(draw: st.DrawFn) -> np.ndarray:
    name = draw(st.sampled_from(sorted(DTYPES)))
    shape = draw(npst.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=5))
    dtype = DTYPES[name]
    raw = draw(npst.arrays(np.bool_ if name == "bool" else f"u{dtype.itemsize}", shape))
    return raw.view(dtype) if name != "bool" else raw


@settings(deadline=None)
@given(arrays())
def test_any_constant_survives_bit_for_bit(value: np.ndarray) -> None:
    graph = Graph((), (("y", constant(value)),))
    back = parse(show(graph), constants_of(graph))
    assert back == graph
    assert back.outputs[0][1].value.tobytes() == value.tobytes()


HEAD = "graph net(x: f32[2,3]) -> (y)\n"


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("%0: f32[2] = neg(x)\n", 1, "a graph begins with"),
        (HEAD + "%0: f32[3,2] = neg(x)\nreturn y=%0", 2, r"%0 is f32\[2,3\], not f32\[3,2\]"),
        (HEAD + "%0: f32[2,3] = negate(x)\nreturn y=%0", 2, "no core operator 'negate'"),
        (HEAD + "%0: f32[2,3] = sub(x, x, x, x)\nreturn y=%0", 2, "'sub' takes 2 operands and has 4"),
        (HEAD + "%0: f32[2,3] = exp(x, x)\nreturn y=%0", 2, "'exp' takes 1 operands and has 2"),
        (HEAD + "%0: f32[2,3] = neg(z)\nreturn y=%0", 2, "z is not defined"),
        (HEAD + "%0: f32[2,3] = neg(x)\n%0: f32[2,3] = abs(x)\nreturn y=%0", 3, "%0 is defined twice"),
        (HEAD + "%0: f32[2,3] = neg(x, depth=2)\nreturn y=%0", 2, "does not take"),
        (HEAD + "%0: f33[2,3] = neg(x)\nreturn y=%0", 2, "no element type"),
        (HEAD + "%0: f32[2,-3] = neg(x)\nreturn y=%0", 2, "no shape"),
        (HEAD + "%0: f32[2,3] = neg(x", 2, "expected"),
        (HEAD + "%0: f32[2,3] = neg(x) y\nreturn y=%0", 2, "expected the end of the line"),
        (HEAD + "%0: f32[3] = const [1.0, 2.0]\nreturn y=%0", 2, "a list of 3 elements"),
        (HEAD + "%0: i8[1] = const [300]\nreturn y=%0", 2, "no elements of type i8"),
        (HEAD + "%0: f32[2,3] = transpose(x, perm=(0, 0))\nreturn y=%0", 2, "no permutation"),
        (HEAD + "return z=x", 2, "the head promises y"),
        (HEAD + "return y=x\nreturn y=x", 3, "nothing may follow"),
        (HEAD + "%0: f32[2,3] = neg(x)\n", 2, "the text ends before 'return'"),
        (HEAD + "%0: f32[2,3] = neg(x); return\n", 2, "cannot read"),
    ],
)
def test_a_broken_text_is_refused_with_its_line(text: str, line: int, message: str) -> None:
    with pytest.raises(ModelError, match=message) as caught:
        parse(text)
    assert caught.value.where == f"line {line}"
