"""Fourier transforms and complex tensors between them and real results, against the interpreter."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from small_tflite import File, options

import edgec
from edgec.check.litert import LitertReference
from edgec.errors import ModelError
from edgec.execute.samples import random_inputs
from edgec.frontend.tflite import import_tflite, parse
from edgec.ir import evaluate


def spectrum(shape: tuple[int, ...], lengths: tuple[int, int], part: str, moved: bool = False) -> bytes:
    """One part of the transform of x; ``moved``: reshaped, squeezed and extended before it is taken."""
    f = File()
    g = f.main
    x, size = g.input("f32", shape, "x"), g.const(lengths)
    result = (*shape[:-2], lengths[0], lengths[1] // 2 + 1)
    y = g.tensor("complex", result)
    g.op("RFFT2D", [x, size], [y], options("Rfft2d"))
    if moved:
        flat = (1, int(np.prod(result[:-1])), result[-1])
        wide, narrow = (1, 1, *flat[1:]), flat
        steps = [g.tensor("complex", s) for s in (flat, wide, narrow)]
        g.op("RESHAPE", [y, g.const([1, -1, result[-1]])], [steps[0]], options("Reshape"))
        g.op("EXPAND_DIMS", [steps[0], g.const([-3])], [steps[1]], options("ExpandDims"))
        g.op("SQUEEZE", [steps[1]], [steps[2]], options("Squeeze", squeezeDims=[1]))
        y, result = steps[2], narrow
    out = g.tensor("f32", result, "y")
    g.op(part, [y], [out], options("Cast") if part == "CAST" else None)
    g.output(out)
    return f.content()


CASES: dict[str, Callable[[], bytes]] = {
    "one dimension": lambda: spectrum((3, 5, 1, 64), (1, 64), "COMPLEX_ABS"),
    "two dimensions": lambda: spectrum((2, 8, 16), (8, 16), "COMPLEX_ABS"),
    "real part": lambda: spectrum((2, 4, 8), (4, 8), "REAL"),
    "imaginary part": lambda: spectrum((2, 4, 8), (4, 8), "IMAG"),
    "the real part by a cast": lambda: spectrum((3, 1, 32), (1, 32), "CAST"),
    "moved": lambda: spectrum((3, 5, 1, 16), (1, 16), "COMPLEX_ABS", moved=True),
}


@pytest.mark.parametrize("name", CASES)
def test_agrees_with_the_interpreter(name: str) -> None:
    model = parse(CASES[name]())
    reference, graph = LitertReference(model), import_tflite(model)
    for seed in range(2):
        inputs = random_inputs(graph, seed)
        want, got = reference.run(inputs)["y"], evaluate.run(graph, inputs)["y"]
        assert got.shape == want.shape
        np.testing.assert_allclose(got, want, rtol=0, atol=1e-4 * np.abs(want).max())


def test_compiled(tmp_path: Path) -> None:
    path = tmp_path / "net.tflite"
    path.write_bytes(CASES["moved"]())
    assert edgec.check(edgec.build(path, tmp_path / "built")).ok


def test_other_operators_take_no_complex_operands() -> None:
    with pytest.raises(ModelError, match="complex"):
        import_tflite(parse(spectrum((2, 4, 8), (4, 8), "ABS")))
