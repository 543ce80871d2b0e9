"""Corrections: each leaves the function as it is or lowers the error that calibration data show."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from chance import RANDOM

from edgec import ops
from edgec.compress import CORRECTIONS, Request, bias, compress, gptq, scales
from edgec.compress.calibrate import samples
from edgec.compress.calibration import calibrated, nearest, noise, weight_scale
from edgec.compress.dynamic import dynamic
from edgec.compress.layers import Arrays, layers_of, results
from edgec.compress.quantize import quantized
from edgec.compress.readers import readers_of
from edgec.ir.evaluate import run
from edgec.ir.graph import Graph, constant, placeholder
from edgec.ir.types import Type
from edgec.rewrite import simplify
from edgec.rewrite.measure import is_widening
from tests.compress.compressible import PLAIN, data, hostile, uneven

UNEVEN = uneven()


def compressed(graph: Graph, drawn: list[Arrays]) -> Graph:
    layers = layers_of(graph)
    return quantized(graph, layers, calibrated(graph, layers, drawn, "minmax"))


@pytest.mark.parametrize("way", ["equalize", "smooth"])
def test_moved_scales_leave_the_function_and_lower_the_noise(way: str, tmp_path: Path) -> None:
    drawn = list(samples(data(UNEVEN, tmp_path), UNEVEN))
    moved = scales.rescaled(UNEVEN, drawn, "minmax", [way])
    assert set(moved.taken.values()) == {way}
    before, after = results(UNEVEN, drawn), results(moved.graph, drawn)
    assert noise([b["y"] for b in before], [a["y"] for a in after]) < 1e-10
    assert len(simplify(moved.graph)[0].operations()) == len(UNEVEN.operations())


def test_scales_pass_bounds_and_stop_at_what_is_not_linear() -> None:
    x = placeholder("x", Type("f32", (1, 3, 6, 6)))
    w = [constant(RANDOM.standard_normal((3, 3, 3, 3)).astype(np.float32)) for _ in range(2)]
    drawn = [{"x": RANDOM.standard_normal((1, 3, 6, 6)).astype(np.float32)} for _ in range(3)]
    zero, six = (constant(np.array(v, np.float32)) for v in (0, 6))
    y = ops.node("conv", x, w[0], **PLAIN)
    for between, passes in (
        (ops.node("min", ops.node("max", y, zero), six), True),
        (ops.node("tanh", y), False),
        (ops.node("exp", ops.node("max", y, zero)), False),
    ):
        graph = Graph((x,), (("y", ops.node("conv", between, w[1], **PLAIN)),))
        readers = readers_of(graph)
        assert readers[between].is_alone
        s = scales._ones(between, readers[between].layers)
        carried = scales._carried(between, s, graph)
        assert (carried is not None) == passes
        if carried is not None:
            changed = scales._applied(graph, readers, {between: s})
            assert noise([r["y"] for r in results(graph, drawn)], [r["y"] for r in results(changed, drawn)]) < 1e-10


@pytest.mark.parametrize("kind", ["matmul", "pruned", "conv", "strided", "depthwise"])
def test_gptq_rounds_better_than_the_nearest(kind: str) -> None:
    """The operand's elements depend on one another, which is what the rounding makes use of; zeros stay zeros."""
    better, plain = zip(*(rounded_both_ways(kind) for _ in range(6)))  # one layer alone may have no luck
    assert sum(better) < 0.8 * sum(plain)


def rounded_both_ways(kind: str) -> tuple[float, float]:
    """The noise of a layer that is drawn: as it is rounded, and to the nearest."""
    if kind in ("matmul", "pruned"):
        x = placeholder("x", Type("f32", (64, 24)))
        weights = RANDOM.standard_normal((24, 7)) * (RANDOM.random((24, 7)) < (0.5 if kind == "pruned" else 1))
        node = ops.node("matmul", x, constant(weights.astype(np.float32)))
        values = RANDOM.standard_normal((64, 6)) @ RANDOM.standard_normal((6, 24))
    else:
        x = placeholder("x", Type("f32", (2, 4, 9, 9)))
        groups, per = (4, 1) if kind == "depthwise" else (1, 4)
        w = constant(RANDOM.standard_normal((8, per, 3, 3)).astype(np.float32))
        steps = (2, 1) if kind == "strided" else (1, 1)
        node = ops.node("conv", x, w, strides=steps, dilations=(1, 2), groups=groups)
        values = np.cumsum(RANDOM.standard_normal((2, 4, 9, 9)), axis=2)
    (layer,) = layers_of(Graph((x,), (("y", node),)))
    operand = values.astype(np.float32)
    scale = weight_scale(layer) * 8  # coarse, so that rounding shows
    wanted = layer.computed(operand, layer.weights)
    q = gptq.rounded(layer, [operand], scale)
    assert q is not None and q.shape == layer.weights.shape and (q == np.rint(q)).all()
    assert not q[layer.weights == 0].any()
    better, plain = (layer.computed(operand, (v * scale).astype(np.float32)) for v in (q, nearest(layer, scale)))
    return noise([wanted], [better]), noise([wanted], [plain])


def test_what_others_read_too_is_divided_where_it_is_multiplied() -> None:
    """A residual behind a normalization, as in transformers: channels of very different sizes."""
    x = placeholder("x", Type("f32", (1, 6, 16)))
    w = [constant(RANDOM.standard_normal((16, 16)).astype(np.float32) / 4) for _ in range(2)]
    wide = constant((np.float32(2.0) ** np.arange(-8, 8)).astype(np.float32))
    y = ops.node("mul", ops.node("tanh", x), wide)
    first = ops.node("matmul", ops.node("reshape", y, shape=(6, 16)), w[0])
    second = ops.node("add", ops.node("reshape", first, shape=(1, 6, 16)), y)
    graph = Graph((x,), (("y", ops.node("matmul", second, w[1])),))
    drawn = [{"x": RANDOM.standard_normal((1, 6, 16)).astype(np.float32)} for _ in range(8)]
    moved = scales.rescaled(graph, drawn, "minmax", ["smooth"])
    assert moved.taken
    before, after = ([r["y"] for r in results(g, drawn)] for g in (graph, moved.graph))
    assert noise(before, after) < 1e-10
    plain, better = ([r["y"] for r in results(compressed(g, drawn), drawn)] for g in (graph, moved.graph))
    assert noise(before, better) < 0.5 * noise(before, plain)
    narrow, _ = simplify(compressed(moved.graph, drawn))
    assert all(is_widening(a) for n in narrow.operations() if n.op == "matmul" for a in n.args)


def test_bias_correction_takes_the_mean_off() -> None:
    x = placeholder("x", Type("f32", (1, 3, 6, 6)))
    node = ops.node("conv", x, constant(RANDOM.standard_normal((5, 3, 3, 3)).astype(np.float32)), **PLAIN)
    (layer,) = layers_of(Graph((x,), (("y", node),)))
    wanted = [RANDOM.standard_normal((1, 5, 4, 4)).astype(np.float32) for _ in range(3)]
    off = RANDOM.standard_normal((1, 5, 1, 1)).astype(np.float32)
    assert np.allclose(bias.shift(layer, wanted, [w - off for w in wanted]), off, atol=1e-6)


def test_corrections_are_taken_where_they_help(tmp_path: Path) -> None:
    path = data(UNEVEN, tmp_path)
    noises = {}
    for corrections in ((), CORRECTIONS):
        report = compress(UNEVEN, Request("int8", path, corrections=corrections)).report
        assert report is not None
        noises[corrections] = sum(row.noise for row in report.layers)
        taken = {c for row in report.layers for c in row.corrections}
        assert taken <= set(corrections) and bool(taken) == bool(corrections)
    assert noises[tuple(CORRECTIONS)] < 0.5 * noises[()]
    drawn = compress(UNEVEN, Request("int8")).report  # data that are drawn are not like the real ones
    assert drawn is not None and not any(row.corrections for row in drawn.layers)


def test_dynamic_products_are_of_bytes_and_stand_outliers(tmp_path: Path) -> None:
    graph, _ = hostile()
    narrow, _ = simplify(compress(graph, Request("int8-dynamic")).graph)
    products = [n for n in narrow.operations() if n.op in ("conv", "matmul")]
    assert len(products) == 5
    assert all(is_widening(a) for n in products for a in n.args)
    x = placeholder("x", Type("f32", (4, 32)))
    w = constant(RANDOM.standard_normal((32, 9)).astype(np.float32))
    rows = Graph((x,), (("y", ops.node("matmul", x, w)),))
    narrow, _ = simplify(dynamic(rows, layers_of(rows)))
    values = RANDOM.standard_normal((4, 32)).astype(np.float32) * np.float32([[1], [1e4], [1e-4], [0]])
    wanted, got = (run(g, {"x": values})["y"] for g in (rows, narrow))
    for a, b in zip(wanted, got):  # a row of outliers is nobody else's
        assert np.abs(a - b).max() <= 0.03 * np.abs(a).max()


def test_noise_is_a_share_of_the_signal() -> None:
    ones, nothing = np.ones(4, np.float32), np.zeros(4, np.float32)
    assert noise([ones], [ones]) == 0 and noise([nothing], [nothing]) == 0
    assert noise([nothing], [ones]) == 1 and noise([ones], [nothing]) == 1
    assert noise([2 * ones, ones], [ones, ones]) == pytest.approx(4 / 20)
