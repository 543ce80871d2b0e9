"""Softmax and its relatives: right, and without what their maximum would add."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from compiled import program_of
from small_graphs import layernorm, number, softmax, total, value

from edgec import ops
from edgec.differentiate import gradients
from edgec.ir import evaluate
from edgec.ir.graph import Graph, Node, topological
from edgec.rewrite import simplify
from edgec.schedule.row import Row

Make = Callable[[Node], Node]


def log_softmax(x: Node, *axes: int) -> Node:
    shifted = ops.node("sub", x, total(x, *axes, combine="max"))
    return ops.node("sub", shifted, ops.node("log", total(ops.node("exp", shifted), *axes)))


def log_sum_exp(x: Node, *axes: int) -> Node:
    most = total(x, *axes, combine="max")
    sums = total(ops.node("exp", ops.node("sub", x, most)), *axes)
    return ops.node("add", most, ops.node("log", sums))


def along_another(x: Node, *axes: int) -> Node:
    """A shift that differs from term to term of the sum, so that its gradient counts."""
    shifted = ops.node("sub", x, total(x, 0, combine="add"))
    powers = ops.node("exp", shifted)
    return ops.node("div", powers, total(powers, *axes))


def of_another_sum(x: Node, *axes: int) -> Node:
    powers = ops.node("exp", ops.node("sub", x, total(x, *axes, combine="max")))
    return ops.node("div", ops.node("exp", x), total(powers, *axes))


FORMS = {f.__name__: f for f in (softmax, log_softmax, log_sum_exp, along_another, of_another_sum)}


@pytest.mark.parametrize("axes", [(1,), (0, 2)])
@pytest.mark.parametrize("name", FORMS)
def test_right_in_double_precision(name: str, axes: tuple[int, ...]) -> None:
    x = value("x", 3, 4, 2, dtype="f64")
    y = FORMS[name](x, *axes)
    seed = value("seed", *y.type.shape, dtype="f64")
    (found,) = gradients(y, [x], seed=seed)
    assert found is not None
    random = np.random.default_rng(3)
    point, weights = random.standard_normal(x.type.shape), random.standard_normal(y.type.shape)
    got = evaluate.run(Graph((x, seed), (("g", found),)), {"x": point, "seed": weights})["g"]
    for place in np.ndindex(*x.type.shape):
        step = np.zeros(x.type.shape)
        step[place] = 1e-6
        ends = [evaluate.run(Graph((x,), (("y", y),)), {"x": point + s})["y"] for s in (step, -step)]
        assert got[place] == pytest.approx(np.sum((ends[0] - ends[1]) * weights) / 2e-6, rel=1e-6, abs=1e-8)


@pytest.mark.parametrize("name", ["softmax", "log_softmax", "log_sum_exp"])
def test_nothing_passes_the_maximum(name: str) -> None:
    x = value("x", 3, 4)
    (found,) = gradients(FORMS[name](x, 1), [x])
    assert found is not None
    assert not {n.op for n in topological([found])} & {"eq", "select"}


@pytest.mark.parametrize("make", [softmax, log_softmax, layernorm])
def test_one_row_kernel_backwards(make: Callable[..., Node]) -> None:
    """Backwards, a row is read once: one kernel of rows, whatever is stored of the way forwards."""
    x, seed = value("x", 8, 40), value("seed", 8, 40)
    y = make(x, 1)
    (found,) = gradients(y, [x], seed=seed)
    assert found is not None
    simple, _ = simplify(Graph((x, seed), (("y", y), ("g", found))))
    gradient = simple.outputs[1][1]
    below = {n for n in topological([gradient]) if n is not seed and seed in set(topological([n]))}
    kernels = [k for k in program_of(simple).kernels if below & set(k.block.nodes)]
    assert [type(k.schedule) for k in kernels] == [Row]


def gelu(x: Node, spelling: str) -> Node:
    """x (1 + erf(x / sqrt(2))) / 2 as exporters write it."""
    inner = ops.node("div", x, number(2**0.5)) if spelling == "divided" else ops.node("mul", x, number(2**-0.5))
    gate = ops.node("add", ops.node("erf", inner), number(1.0))
    half = number(0.5)
    if spelling == "half first":
        return ops.node("mul", ops.node("mul", x, half), gate)
    return ops.node("mul", half, ops.node("mul", gate, x))


@pytest.mark.parametrize("spelling", ["divided", "half first", "half last"])
def test_gelu_keeps_nothing_but_its_operand(spelling: str) -> None:
    x = value("x", 3, 50)
    y = gelu(x, spelling)
    (found,) = gradients(y, [x])
    assert found is not None
    point = np.random.default_rng(3).standard_normal((3, 50)).astype(np.float32)
    got = evaluate.run(Graph((x,), (("g", found),)), {"x": point})["g"]
    wide = point.astype(np.float64)
    erf = np.vectorize(math.erf)(wide * 0.5**0.5)
    want = 0.5 * (1 + erf) + wide * np.exp(-0.5 * wide**2) / (2 * np.pi) ** 0.5
    assert np.abs(got - want).max() < 1e-6
    mine, *_ = simplify(Graph((x,), (("y", y), ("g", found))))
    forward = {n for n in topological([dict(mine.outputs)["y"]]) if n.op not in ("input", "const")}
    backward = set(topological([dict(mine.outputs)["g"]]))
    assert forward.isdisjoint(backward)
