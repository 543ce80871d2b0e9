"""The transforms behind Winograd's method, and when it is taken."""

from __future__ import annotations

import numpy as np
import pytest
from chance import RANDOM
from compiled import program_of, target
from small_graphs import conv, graph, pad, relu, value, weights

from edgec.fuse import plan
from edgec.schedule.build import schedule
from edgec.schedule.contract.cook_toom import PAIRS, Toom
from edgec.schedule.contract.winograd import Winograd
from edgec.schedule.options import ScheduleOptions

FORMS = [Toom(n - r + 1, r) for n in PAIRS for r in (2, 3, 5) if n - r + 1 >= 2]


@pytest.mark.parametrize("toom", FORMS, ids=str)
def test_transforms_are_a_convolution(toom: Toom) -> None:
    inputs, taps = RANDOM.standard_normal(toom.inputs), RANDOM.standard_normal(toom.taps)
    got = toom.of_products @ ((toom.of_taps @ taps) * (toom.of_inputs @ inputs))
    np.testing.assert_allclose(got, np.correlate(inputs, taps), atol=1e-13 * np.abs(taps).sum() * 10)


def test_errors_are_those_that_are_stated() -> None:
    """Root mean square beside a direct sum in fp32, nested over two dimensions, over 32 channels."""
    for toom, bound in ((Toom(2, 3), 1.2), (Toom(4, 3), 3.0), (Toom(2, 5), 2.5)):
        assert error(toom) < bound * error(None, toom), toom


def error(toom: Toom | None, like: Toom | None = None) -> float:
    form = toom or like
    assert form is not None
    random, n, r, m = np.random.default_rng(5), form.inputs, form.taps, form.outputs
    x = np.maximum(random.standard_normal((40, 32, n, n)), 0).astype(np.float32)
    w = random.standard_normal((8, 32, r, r)).astype(np.float32)
    windows = np.lib.stride_tricks.sliding_window_view(x, (r, r), (2, 3))
    exact = np.einsum("bcijkl,ockl->boij", windows.astype(np.float64), w.astype(np.float64))
    got = np.zeros((40, 8, m, m), np.float32)
    if toom is None:
        for c in range(32):
            for k in range(r):
                for l in range(r):
                    got += windows[:, None, c, :, :, k, l] * w[None, :, c, k, l, None, None]
    else:
        products = np.zeros((40, 8, n, n), np.float32)
        moved = _twice(toom.of_inputs, x)
        kernels = _twice(toom.of_taps, w.astype(np.float64)).astype(np.float32)
        for c in range(32):
            products += moved[:, None, c] * kernels[None, :, c]
        got = _twice(toom.of_products, products)
    return float(np.sqrt(np.mean((got - exact) ** 2)))


def _twice(matrix: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Both last dimensions, each in the type of ``values``."""
    narrow = matrix.astype(values.dtype)
    return (narrow @ (values @ narrow.T)).astype(values.dtype)


def chosen(c: int, o: int, h: int, w: int, numeric: str = "reassociates", device: str = "host") -> list[str]:
    x = relu(conv(value("x", 1, 4, h, w), weights(c, 4, 1, 1)))
    g = graph(conv(relu(conv(pad(x, 1, 1), weights(o, c, 3, 3))), weights(8, o, 1, 1)))
    program = schedule(plan(g), target(device).device, ScheduleOptions(numeric=numeric))  # type: ignore[arg-type]
    return [k.main.template for k in program.kernels]


def test_it_is_taken_where_it_pays() -> None:
    assert "winograd" in chosen(64, 64, 28, 28, device="x86_64_avx2")
    assert "winograd" not in chosen(4, 4, 28, 28, device="x86_64_avx2")  # transforms would cost more than they save
    assert "winograd" not in chosen(64, 64, 2, 1, device="x86_64_avx2")


def test_exact_sums_are_taken_as_they_stand() -> None:
    assert "winograd" not in chosen(64, 64, 28, 28, "exact", "x86_64_avx2")


def test_steps_and_gaps_are_left_to_contractions() -> None:
    x = value("x", 1, 32, 20, 20)
    for step, gap in ((2, 1), (1, 2)):
        program = program_of(graph(conv(x, weights(32, 32, 3, 3), step, gap)), target("x86_64_avx2").device)
        assert not any(isinstance(k.main.schedule, Winograd) for k in program.kernels)
