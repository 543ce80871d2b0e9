"""Numbers that compression rests on, each beside what its definition says: steps, levels, ranges, codes, figures."""

from __future__ import annotations

import numpy as np
import pytest
from chance import RANDOM
from hypothesis import given, settings
from hypothesis import strategies as st

from edgec.compress.equalize import shared
from edgec.compress.four_bits import SHARES, coded, rounded
from edgec.compress.max_loss import cosine, max_abs, max_rel, top1_drop
from edgec.compress.observe import OBSERVERS, entropy, least_error, percentile, quantized, sampled, scale_and_zero
from edgec.compress.prune.levels import furthest
from edgec.compress.prune.scheme import Scheme, fits, kept, parsed
from edgec.compress.report import largest
from edgec.compress.search import most
from edgec.errors import UsageError

ENDS = st.floats(-1000, 1000, width=32)


@settings(max_examples=60, deadline=None)
@given(ENDS, ENDS)
def test_a_range_is_covered_to_half_a_step_and_zero_is_a_level(a: float, b: float) -> None:
    low, high = min(a, b, 0.0), max(a, b, 0.0)
    scale, zero = scale_and_zero(low, high)
    assert 0 <= zero <= 255 and scale > 0
    if high - low > 1e-30:
        assert scale == np.float32((high - low) / 255)
        assert (0 - zero) * scale <= low + 0.51 * scale and (255 - zero) * scale >= high - 0.51 * scale
    values = np.linspace(low, high, 37)
    levels = quantized(values, low, high)
    assert np.abs(levels - values).max() <= 0.501 * scale + 1e-30
    assert np.array_equal(quantized(levels, low, high), levels)
    assert quantized(np.zeros(1), low, high)[0] == 0
    assert len(np.unique(quantized(np.linspace(2 * low, 2 * high, 5000), low, high))) <= 256


def test_steps_of_ranges_without_extent() -> None:
    assert scale_and_zero(0.0, 0.0) == (1.0, 0)
    assert scale_and_zero(1.0, 255.0) == (1.0, 0)
    assert scale_and_zero(-255.0, -3.0) == (1.0, 255)
    assert scale_and_zero(-51.0, 204.0) == (1.0, 51)
    assert quantized(np.array([0.5, 1.5, 2.5, -1.0, 300.0]), 0.0, 255.0).tolist() == [0, 2, 2, 0, 255]


def test_observers_of_known_values() -> None:
    values = np.arange(-1000, 9001) / 1000.0
    assert OBSERVERS["minmax"](values) == (-1.0, 9.0)
    low, high = percentile(values)
    assert low == pytest.approx(-0.999) and high == pytest.approx(8.999)
    assert sampled(np.arange(10), 5).tolist() == [0, 2, 4, 6, 8]
    assert sampled(np.arange(10), 10).tolist() == list(range(10))
    assert sampled(np.arange(11), 10).tolist() == [0, 2, 4, 6, 8, 10]


def test_observers_that_search_cut_outliers_and_nothing_else() -> None:
    even = np.linspace(-1, 1, 4096)
    assert least_error(even) == pytest.approx((-1.0, 1.0), rel=0.02)
    assert entropy(even) == pytest.approx((-1.0, 1.0), rel=0.02)
    wave = np.sin(np.arange(40000.0))
    tailed = np.concatenate([wave, [2.0], [-2.0]])
    parts = np.linspace(1.0, 0.3, 71)
    steps = [np.float32(4 * part / 255) for part in parts]
    near = [(np.clip(np.rint(tailed / s) + 128, 0, 255) - 128) * s for s in steps]
    best = parts[np.argmin([np.mean((x - tailed) ** 2) for x in near])]
    assert 0.5 < best < 0.95 and least_error(tailed) == pytest.approx((-2 * best, 2 * best))
    low, high = entropy(np.concatenate([wave, [8.0], [-4.0]]))
    assert high == pytest.approx(-2 * low) and 1.5 < high < 5


@pytest.mark.parametrize("axis", [0, 1])
def test_codes_of_four_bits_lose_least(axis: int) -> None:
    group = 8
    w = RANDOM.standard_normal((16, 24)).astype(np.float32)
    w[:8, :8] = 0
    codes, scales = coded(w, axis, group)
    shape = [16, 24]
    shape[axis] //= group
    whole = codes.astype(np.int32)
    assert codes.shape == w.shape and scales.shape == tuple(shape)
    assert whole.min() >= -8 and whole.max() <= 7 and not whole[:8, :8].any()
    got = rounded(w, axis, group)
    assert np.array_equal(got, whole.astype(np.float32) * np.repeat(scales, group, axis))
    for k in range(shape[axis]):
        part, near = (np.moveaxis(x, axis, -1)[..., k * group : (k + 1) * group] for x in (w, got))
        for row, chosen in zip(part, near):
            far = row[np.abs(row).argmax()]
            tried = [far * np.float32(-share / 8) or np.float32(1) for share in SHARES]
            errors = [np.square(np.clip(np.rint(row / s), -8, 7) * s - row).sum() for s in tried]
            assert np.square(chosen - row).sum() == pytest.approx(min(errors), rel=1e-4, abs=1e-9)


def test_shared_scales() -> None:
    reached, weights = np.array([4.0, 16.0, 1.0]), np.array([1.0, 4.0, 4.0])
    assert shared(reached, weights, 0.5) == pytest.approx(np.sqrt(reached / weights) / 2)
    assert shared(reached, weights, 1.0) == pytest.approx(reached / 16)
    asleep = shared(np.array([8.0, 8.0, 0.0]), np.ones(3), 1.0)
    assert asleep == pytest.approx([1, 1, 0.25])
    assert shared(np.array([512.0, 0.0, 0.0]), np.ones(3), 1.0) == pytest.approx([1, 1 / 256, 1 / 256])


def outputs(*rows: list[float]) -> list[dict[str, np.ndarray]]:
    return [{"y": np.array(row, np.float32)} for row in rows]


def test_figures_of_loss() -> None:
    wanted, got = outputs([1.0, 2.0, 4.0], [0.0, 3.0, 1.0]), outputs([1.0, 2.5, 4.0], [0.0, 1.0, 2.0])
    assert max_abs(wanted, got) == 2.0
    assert max_rel(wanted, got) == 0.5
    assert cosine(wanted, got) == pytest.approx(5 / np.sqrt(10 * 5))
    assert top1_drop(wanted, got) == 50.0
    assert top1_drop(wanted, got, [np.array(2), np.array(1)]) == 50.0
    assert top1_drop(wanted, got, [np.array(2), np.array(0)]) == 0.0
    assert max_abs(wanted, wanted) == max_rel(wanted, wanted) == top1_drop(wanted, wanted) == 0.0


def test_largest_contributors() -> None:
    parts = [("a", 1.0), ("b", 5.0), ("c", 2.0), ("d", 2.0)]
    assert largest(parts, 10.0) == "b (50%), c (20%), d (20%)"
    assert largest(parts, 0.0, 1) == "b"


@pytest.mark.parametrize(("count", "limit"), [(n, k) for n in range(20) for k in range(n + 1)])
def test_the_most_that_hold(count: int, limit: int) -> None:
    asked = []

    def holds(k: int) -> bool:
        asked.append(k)
        return k <= limit

    assert most(count, holds) == limit
    assert furthest(count, holds, 100) == limit and all(1 <= k <= count for k in asked)
    assert furthest(count, holds, 1) in (0, count)


def test_schemes_by_their_text() -> None:
    for text in ("vector", "vector=4", "block=8x4", "pattern=4of9", "2:4", "channel"):
        scheme = parsed(text, 16)
        assert str(scheme) == (text if text != "vector" else str(parsed("vector=16", 8)))
    assert parsed("block=8x4", 16) == Scheme("block", 8, 4)
    assert parsed("2:4", 16) == Scheme("nm", 16, 1, 2, 4)
    assert parsed("pattern=4of9", 8) == Scheme("pattern", 8, 1, 4, 9)
    for text in ("vector=0", "block=0x4", "block=4x0", "4:4", "0:4", "pattern=9of9", "pattern=0of9", "round"):
        with pytest.raises(UsageError):
            parsed(text, 16)
    assert fits(parsed("pattern=4of9", 8), 9) and not fits(parsed("pattern=4of9", 8), 1)
    assert fits(parsed("vector", 8), 1)


def test_what_stays_is_the_best() -> None:
    scores = np.array([[3.0, 1.0, 2.0, 8.0], [7.0, 0.5, 6.0, 5.0]])
    assert kept(scores, Scheme("vector", 4), 1, 0.5).tolist() == [[0, 0, 0, 1], [1, 0, 1, 1]]
    assert kept(scores, Scheme("vector", 4), 1, 1.0).tolist() == [[0, 0, 0, 1], [0, 0, 0, 0]]
    assert kept(scores, Scheme("block", 4, 2), 1, 0.5).tolist() == [[0, 0, 1, 1], [0, 0, 1, 1]]
    assert kept(scores, Scheme("nm", 4, 1, 2, 4), 1, 0.5).tolist() == [[1, 0, 0, 1], [1, 0, 1, 0]]
    assert kept(scores, Scheme("pattern", 4, 1, 1, 2), 2, 0.5).tolist() == [[1, 0, 0, 1], [1, 0, 1, 0]]
    assert kept(scores, Scheme("pattern", 4, 1, 1, 2), 2, 0.75).tolist() == [[0, 0, 0, 1], [1, 0, 0, 0]]
