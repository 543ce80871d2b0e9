"""Rules on floats of 16 bits, whose range ends at 65504: 1 / 1e-6 is infinite, and 0 times that is no number."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import ModelProto
from onnx.parser import parse_model

import edgec
from edgec.frontend.onnx import import_model
from edgec.ir import evaluate
from edgec.rewrite import simplify

#: Numbers by their bits, as the text of a model has them: 1e-6 and 1.
SMALL, ONE = 17, 15360
#: Networks of x [3, 5] and a [3, 1], b [3, 1], whose denominators are small.
FORMS = {
    "norm": "n = ReduceL2 <axes = [1]> (x) d = Add (n, e) y = Div (x, d)",
    "quotient": "d = Add (a, e) y = Div (x, d)",
    "by a quotient": "d = Add (a, e) f = Add (b, o) q = Div (d, f) y = Div (x, q)",
    "two quotients": "d = Add (a, e) q = Div (x, d) r = Div (x, d) y = Mul (q, r)",
    "scaled": "d = Add (a, e) s = Mul (d, e) y = Div (t, s)",
}


def network(form: str) -> ModelProto:
    return parse_model(
        f"""<ir_version: 8, opset_import: ["": 13]>
        net (float16[3, 5] x, float16[3, 1] a, float16[3, 1] b) => (float16[3, 5] y)
        <float16 e = {{{SMALL}}}, float16 o = {{{ONE}}}, float16 t = {{0}}> {{ {FORMS[form]} }}"""
    )


@pytest.mark.parametrize("form", [*FORMS])
def test_small_denominators_stay_denominators(form: str) -> None:
    graph = import_model(network(form))
    x = np.array([[0] * 5, [1e-6] * 5, [1, 2, 3, 4, 5]], np.float16)
    small = np.array([[0], [1e-6], [2]], np.float16)
    inputs = {"x": x, "a": small, "b": np.ones((3, 1), np.float16)}
    want, got = (evaluate.run(g, inputs)["y"] for g in (graph, simplify(graph)[0]))
    assert np.isfinite(want).any()
    np.testing.assert_allclose(got, want, rtol=4e-3, atol=1e-7)


def test_compiled_norms_of_nothing_are_nothing() -> None:
    found = edgec.build(network("norm"))
    x = np.zeros((3, 5), np.float16)
    ones = np.ones((3, 1), np.float16)
    assert not found.run({"x": x, "a": ones, "b": ones})["y"].any()
