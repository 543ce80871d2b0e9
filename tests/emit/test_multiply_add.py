"""Sums and differences of a product and another operand: the sign and the order that were written."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from chance import RANDOM
from compiled import compile_graphs, program_of, target

from edgec import ops
from edgec.emit.source import generate
from edgec.ir.graph import Graph, Node, placeholder
from edgec.ir.types import Type

#: By name: the product first or last, added, subtracted, or subtracted from.
FORMS = {
    "a*b + c": lambda a, b, c: ops.node("add", ops.node("mul", a, b), c),
    "c + a*b": lambda a, b, c: ops.node("add", c, ops.node("mul", a, b)),
    "a*b - c": lambda a, b, c: ops.node("sub", ops.node("mul", a, b), c),
    "c - a*b": lambda a, b, c: ops.node("sub", c, ops.node("mul", a, b)),
    "a*b - c*a": lambda a, b, c: ops.node("sub", ops.node("mul", a, b), ops.node("mul", c, a)),
    "a*b + c*a": lambda a, b, c: ops.node("add", ops.node("mul", a, b), ops.node("mul", c, a)),
}


def graph(form: str, width: int) -> Graph:
    inputs = [placeholder(name, Type("f32", (3, width))) for name in "abc"]
    result: Node = FORMS[form](*inputs)
    return Graph(tuple(inputs), (("y", result),))


@pytest.mark.parametrize("device", ["host", "x86_64_avx2", "generic"])
def test_products_keep_their_sign(device: str, tmp_path: Path) -> None:
    graphs = {f"{form} {width}": graph(form, width) for form in FORMS for width in (1, 5, 16, 37)}
    drawn = {w: {n: RANDOM.standard_normal((3, w)).astype(np.float32) for n in "abc"} for w in (1, 5, 16, 37)}
    here = target(device)
    for name, network in compile_graphs(graphs, tmp_path, flags=here.flags, device=here.device).items():
        form, _, width = name.rpartition(" ")
        given = drawn[int(width)]
        want = eval(form, {}, {n: array.astype(np.float64) for n, array in given.items()})
        np.testing.assert_allclose(network(given)["y"], want, rtol=1e-6, atol=1e-6, err_msg=name)


def test_lanes_multiply_and_add_in_one_step() -> None:
    """Otherwise the test above would hold nothing but plain subtractions."""
    for form in ("a*b + c", "c + a*b", "c - a*b", "a*b - c*a"):
        assert any("ec_fma(" in f.text for f in generate(program_of(graph(form, 37)), "net").functions), form
