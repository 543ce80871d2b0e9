"""Corners of boxes from centers and sizes, as the definition of the detection's post-processing says."""

from __future__ import annotations

import numpy as np
from small_graphs import graph, value

from edgec.execute.executor import run_graph
from edgec.frontend.tflite.operators.detection import _corners
from edgec.frontend.values import Value


def test_corners_of_boxes() -> None:
    random = np.random.default_rng(4)
    codes, anchors = random.standard_normal((2, 9, 4)).astype(np.float32)
    options = {"y_scale": 10.0, "x_scale": 5.0, "h_scale": 4.0, "w_scale": 2.0}
    found = _corners(Value(value("b", 9, 4)), Value(value("a", 9, 4)), options)
    (got,) = run_graph(graph(found.node), {"b": codes, "a": anchors}).values()
    y = codes[:, 0] / 10 * anchors[:, 2] + anchors[:, 0]
    x = codes[:, 1] / 5 * anchors[:, 3] + anchors[:, 1]
    h, w = np.exp(codes[:, 2] / 4) * anchors[:, 2], np.exp(codes[:, 3] / 2) * anchors[:, 3]
    want = np.stack([y - h / 2, x - w / 2, y + h / 2, x + w / 2], 1)
    np.testing.assert_allclose(got, want, rtol=1e-5)
