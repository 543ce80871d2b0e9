"""Sums and products of quantized numbers round as onnxruntime's do: together with the zero point, halves to even."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from chance import RANDOM
from compiled import Compiled, compile_graphs
from small_graphs import graph, value
from test_contrib import Case, bytes_, model_of, one, reference

from edgec import ops
from edgec.frontend.onnx import import_model
from edgec.ir import evaluate
from edgec.ir.graph import constant
from edgec.rewrite import simplify


def _binary(op: str, dtype: type, zero: int, scale: float) -> Case:
    """Scales are powers of two: sums and products are exact, and every second one or so lies between two integers."""
    pairs = [(bytes_(3, 41, dtype=dtype), one(0.25), one(zero, dtype)) for _ in range(2)]
    constants = (1, 2, 4, 5, 6, 7)
    return Case(op, (*pairs[0], *pairs[1], one(scale), one(zero + 1, dtype)), constants=constants)


BINARY = [
    _binary(op, dtype, zero, scale)
    for op, scale in (("QLinearAdd", 0.5), ("QLinearMul", 8.0))
    for dtype, zeros in ((np.uint8, (120, 133)), (np.int8, (-8, 5)))
    for zero in zeros
]


def test_halves_round_with_the_zero_point(tmp_path: Path) -> None:
    models = {str(k): model_of(case) for k, case in enumerate(BINARY)}
    graphs = {k: simplify(import_model(model))[0] for k, (model, _, _) in models.items()}
    for k, net in compile_graphs(graphs, tmp_path).items():
        assert isinstance(net, Compiled)
        model, feeds, names = models[k]
        (want,) = reference(model, feeds, names).values()
        for got in (net(feeds), evaluate.run(import_model(model), feeds)):
            np.testing.assert_array_equal(got["y0"], want, err_msg=str(BINARY[int(k)]))


def test_rounding_that_is_bounded_above_alone(tmp_path: Path) -> None:
    """Sums that are positive have lost their lower bound; what a cast makes of others is as without vectors."""
    bounded = ops.node("min", ops.node("round", value("x", 67)), constant(np.array(255, np.float32)))
    x = RANDOM.uniform(-600, 600, 67).astype(np.float32)
    x[:8] = [0.5, 1.5, 254.5, 255.5, -0.5, -1e6, -(2.0**31), -3e38]
    net = compile_graphs({"net": graph(ops.node("cast", bounded, to="u8"))}, tmp_path)["net"]
    assert isinstance(net, Compiled)
    whole = np.clip(np.rint(x.astype(np.float64)), -(2.0**31), 255).astype(np.int64)
    (got,) = net({"x": x}).values()
    np.testing.assert_array_equal(got, (whole & 255).astype(np.uint8))
