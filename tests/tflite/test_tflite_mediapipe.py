"""MediaPipe's own operators, which LiteRT's interpreter does not have: against their definition, element by element."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
from chance import RANDOM
from small_tflite import File

import edgec
from edgec.errors import ModelError
from edgec.frontend.tflite import import_tflite, parse
from edgec.ir import evaluate

SAME, VALID = 1, 2


def window(padding: int, strides: tuple[int, int], extents: tuple[int, int]) -> bytes:
    return struct.pack("<8i", padding, strides[1], strides[0], extents[1], extents[0], 0, 0, 0)


def pooling(shape: tuple[int, ...], result: tuple[int, ...], options: bytes, there_and_back: bool = False) -> bytes:
    f = File()
    g = f.main
    x, y, places = g.input("f32", shape, "x"), g.tensor("f32", result, "y"), g.tensor("f32", result, "places")
    g.op("MaxPoolingWithArgmax2D", [x], [y, places], custom=options)
    for one in (y, places):
        g.output(one)
    if there_and_back:
        back = g.tensor("f32", shape, "back")
        g.op("MaxUnpooling2D", [y, places], [back], custom=options)
        g.output(back)
    return f.content()


def pooled(x: np.ndarray, padding: int, strides: tuple[int, int], extents: tuple[int, int]) -> list[np.ndarray]:
    """One window after the other."""
    n, *have, channels = x.shape
    sizes = [-(-h // s) if padding == SAME else (h - e) // s + 1 for h, s, e in zip(have, strides, extents)]
    before = [max((m - 1) * s + e - h, 0) // 2 for m, s, e, h in zip(sizes, strides, extents, have)]
    y, places = (np.zeros((n, *sizes, channels), np.float32) for _ in range(2))
    for b, i, j, c in np.ndindex(y.shape):
        best = -np.inf
        for a, d in np.ndindex(*extents):
            row, column = i * strides[0] - before[0] + a, j * strides[1] - before[1] + d
            if 0 <= row < have[0] and 0 <= column < have[1] and x[b, row, column, c] > best:
                best = y[b, i, j, c] = x[b, row, column, c]
                places[b, i, j, c] = a * extents[1] + d + 0.1
    return [y, places]


@pytest.mark.parametrize(
    ("shape", "padding", "strides", "extents"),
    [
        ((2, 6, 8, 3), VALID, (2, 2), (2, 2)),
        ((1, 7, 9, 2), SAME, (2, 3), (3, 4)),
        ((1, 5, 7, 1), VALID, (1, 2), (3, 2)),
    ],
)
def test_greatest_elements_and_their_places(
    shape: tuple[int, ...], padding: int, strides: tuple[int, int], extents: tuple[int, int]
) -> None:
    x = RANDOM.integers(-3, 3, shape).astype(np.float32)  # with equal ones
    y, places = pooled(x, padding, strides, extents)
    got = evaluate.run(import_tflite(parse(pooling(shape, y.shape, window(padding, strides, extents)))), {"x": x})
    np.testing.assert_array_equal(got["y"], y)
    np.testing.assert_array_equal(got["places"], places)


def test_there_and_back_compiled(tmp_path: Path) -> None:
    path, shape = tmp_path / "net.tflite", (1, 6, 9, 4)
    path.write_bytes(pooling(shape, (1, 3, 3, 4), window(VALID, (2, 3), (2, 3)), there_and_back=True))
    x = RANDOM.standard_normal(shape).astype(np.float32)
    y, places = pooled(x, VALID, (2, 3), (2, 3))
    got = edgec.build(path, tmp_path / "built").network.run({"x": x})
    np.testing.assert_array_equal(got["y"], y)
    np.testing.assert_array_equal(got["places"], places)
    np.testing.assert_array_equal(got["back"], np.where(x == y.repeat(2, 1).repeat(3, 2), x, 0))


def test_options_that_are_cut_off() -> None:
    with pytest.raises(ModelError, match="cut off"):
        import_tflite(parse(pooling((1, 4, 4, 1), (1, 2, 2, 1), b"\1\0\0\0")))
