"""Pools of regions and of windows beside onnxruntime, where coordinates and sizes are drawn from a coarse lattice.

On it edges are whole and half pixels, regions end before they begin or lie outside, and windows fit exactly or not.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import onnx
import pytest
from small_models import model, node, tensor_input, weights

from edgec.errors import ModelError
from edgec.execute.executor import run_graph
from edgec.frontend.onnx import import_model

ort = pytest.importorskip("onnxruntime")
X = np.random.default_rng(1).standard_normal((2, 3, 6, 7)).astype(np.float32)


def theirs(proto: onnx.ModelProto, inputs: dict[str, np.ndarray]) -> np.ndarray | None:
    """onnxruntime's result; None where it refuses the model."""
    proto.ir_version = 8
    settings = ort.SessionOptions()
    settings.log_severity_level = 4
    try:
        session = ort.InferenceSession(proto.SerializeToString(), settings, providers=["CPUExecutionProvider"])
        found: np.ndarray = session.run(None, inputs)[0]
        return found
    except Exception:  # its errors share no base class
        return None


def ours(proto: onnx.ModelProto, inputs: dict[str, np.ndarray]) -> np.ndarray | None:
    try:
        return run_graph(import_model(proto), inputs)["y"]
    except ModelError:
        return None


def regions(count: int, seed: int) -> np.ndarray:
    """Corners on half pixels, from a little outside of the picture; some regions are empty or turned over."""
    return np.random.default_rng(seed).integers(-3, 16, (count, 4)).astype(np.float32) / 2


@pytest.mark.parametrize("cells", [(1, 1), (2, 3), (7, 5)])
@pytest.mark.parametrize("scale", [1.0, 0.5])
def test_largest_of_regions(cells: tuple[int, int], scale: float) -> None:
    rois = np.concatenate(
        [np.arange(40).reshape(-1, 1) % 2, np.sort(regions(40, 3).reshape(40, 2, 2), 1).reshape(40, 4)], 1
    )
    op = node("MaxRoiPool", ["x", "r"], ["y"], pooled_shape=cells, spatial_scale=scale)
    proto = model([op], [tensor_input("x", X.shape), tensor_input("r", rois.shape)])
    inputs = {"x": X, "r": rois.astype(np.float32)}
    got, want = ours(proto, inputs), theirs(proto, inputs)
    assert got is not None and want is not None
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("width", [1, 2, 5, 8])
def test_largest_of_regions_as_wide_as_the_picture(width: int) -> None:
    """From the narrowest to the widest, of which two runs of a power of two cover each."""
    x = np.random.default_rng(3).standard_normal((2, 3, 4, width)).astype(np.float32)
    rois = np.float32(
        [(k % 2, a, 0, b, 3) for k, (a, b) in enumerate((a, b) for b in range(width) for a in range(b + 1))]
    )
    op = node("MaxRoiPool", ["x", "r"], ["y"], pooled_shape=(2, 1))
    proto = model([op], [tensor_input("x", x.shape), tensor_input("r", rois.shape)])
    inputs = {"x": x, "r": rois}
    got, want = ours(proto, inputs), theirs(proto, inputs)
    assert got is not None and want is not None
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(
    ("op", "told", "region", "pixels"),
    [
        ("MaxRoiPool", {"pooled_shape": (2, 2)}, [0, 3, 4, 10, 9], {3, 4}),
        ("RoiAlign", {"output_height": 2, "output_width": 2}, [3, 4, 10, 9], {3, 4, 5}),
    ],
)
def test_cells_read_no_more_of_a_picture_than_the_largest_has(
    op: str, told: dict[str, Any], region: list[int], pixels: set[int]
) -> None:
    """Not every cell every pixel: how many is a size that the regions give."""
    inputs = {"x": np.zeros((1, 1, 16, 64), np.float32), "r": np.float32([region])}
    made = node(op, ["x", "r", *(["b"] if op == "RoiAlign" else [])], ["y"], **told)
    types = [tensor_input(n, a.shape) for n, a in inputs.items()]
    graph = import_model(model([made], types, initializers=[weights("b", np.array([0]))], opset=16))
    sizes = replace(graph, outputs=tuple((str(k), n) for k, (_, n) in enumerate(graph.sizes)))
    assert {int(v) for v in run_graph(sizes, inputs).values()} == pixels


@pytest.mark.parametrize("mode", ["avg", "max"])
@pytest.mark.parametrize("transformation", ["half_pixel", "output_half_pixel"])
def test_aligned_regions(mode: str, transformation: str) -> None:
    """Samples at -1 and at the size of the picture exactly still count, and none beyond."""
    op = node(
        "RoiAlign", ["x", "r", "b"], ["y"], mode=mode, coordinate_transformation_mode=transformation,
        output_height=2, output_width=2, sampling_ratio=1,
    )  # fmt: skip
    rois = np.concatenate([regions(60, 5), [[-3, -3, 1, 1], [5, 4, 9, 8], [-2, -2, 0, 0], [4.5, 3.5, 8.5, 7.5]]])
    numbers = (np.arange(64) % 2).astype(np.int64)
    proto = model(
        [op],
        [tensor_input("x", X.shape), tensor_input("r", rois.shape)],
        initializers=[weights("b", numbers)],
        opset=16,
    )
    inputs = {"x": X, "r": rois.astype(np.float32)}
    got, want = ours(proto, inputs), theirs(proto, inputs)
    assert got is not None and want is not None
    if mode == "avg":  # the largest of weighted neighbors is computed otherwise there
        np.testing.assert_allclose(got, want, atol=1e-6)
    else:
        assert got.shape == want.shape and np.isfinite(got).all()


@pytest.mark.parametrize("transformation", ["half_pixel", "output_half_pixel"])
@pytest.mark.parametrize("pictures", [1, 2])
def test_regions_with_as_many_samples_as_they_have_pixels(pictures: int, transformation: str) -> None:
    """Sampling ratio 0; an empty region has no sample, or one pixel. onnxruntime fails where one is turned over."""
    op = node(
        "RoiAlign", ["x", "r", "b"], ["y"], coordinate_transformation_mode=transformation,
        output_height=2, output_width=3, spatial_scale=0.75,
    )  # fmt: skip
    rois = np.concatenate([regions(60, 6), [[-3, -3, 1, 1], [5, 4, 9, 8], [0, 0, 17, 15], [4.5, 3.5, 4.5, 3.5]]])
    rois = np.sort(rois.reshape(64, 2, 2), 1).reshape(64, 4)
    proto = model(
        [op],
        [tensor_input("x", X[:pictures].shape), tensor_input("r", rois.shape)],
        initializers=[weights("b", (np.arange(64) % pictures).astype(np.int64))],
        opset=16,
    )
    inputs = {"x": X[:pictures], "r": rois.astype(np.float32)}
    got, want = ours(proto, inputs), theirs(proto, inputs)
    assert got is not None and want is not None
    np.testing.assert_allclose(got, want, atol=1e-6)


@pytest.mark.parametrize("op", ["MaxPool", "AveragePool"])
def test_windows_of_every_small_size(op: str) -> None:
    """Sizes, strides, dilations and paddings up to a few: both give the same numbers, or both refuse."""
    refused = 0
    for size, kernel, stride, dilation, after, ceil in product((3, 4), (1, 2, 3), (1, 2, 5), (1, 2), (0, 1), (0, 1)):
        if (dilation > 1 and op == "AveragePool") or (after and kernel == 1):
            continue
        attributes = {} if op == "AveragePool" else {"dilations": [dilation]}
        made = node(
            op, ["x"], ["y"], kernel_shape=[kernel], strides=[stride], pads=[0, after], ceil_mode=ceil, **attributes
        )
        inputs = {"x": X[:1, :, 0, :size]}
        proto = model([made], [tensor_input("x", inputs["x"].shape)], opset=13)
        got, want = ours(proto, inputs), theirs(proto, inputs)
        assert (got is None) == (want is None), (size, kernel, stride, dilation, after, ceil)
        refused += got is None
        is_within = dilation * (kernel - 1) + 1 <= size + after  # else onnxruntime rounds a negative quotient up
        if got is not None and want is not None and is_within:
            np.testing.assert_allclose(got, want, atol=1e-6, err_msg=str((size, kernel, stride, dilation, after, ceil)))
    assert refused or op == "AveragePool"
