"""Observers of ranges: what each loses, by histograms that are counted by hand."""

from __future__ import annotations

import numpy as np
import pytest

from edgec.compress import observe


def test_a_histogram_that_levels_can_tell_loses_nothing() -> None:
    """Two bins a level, as full as one another or with one of them empty: no information is lost within the range."""
    counts = np.tile([6, 6, 5, 0], 128)
    centers = np.linspace(-1, 1, counts.size)
    assert observe._divergence(counts, centers, -1, 1) == pytest.approx(0, abs=1e-12)
    assert observe._divergence(np.tile([9, 3], 256), centers, -1, 1) > 0.1  # uneven within a level
    clipped = observe._divergence(counts, centers, -0.5, 0.5)
    assert clipped > 0.1 and observe._divergence(counts, centers, 2, 3) == np.inf


def test_what_is_clipped_counts_at_the_ends() -> None:
    """The reference keeps all values; the candidate does not have those outside: the loss is that of the two ends."""
    counts, centers = np.full(512, 4), np.linspace(-1, 1, 512)
    inside = (np.abs(centers) <= 0.75).sum()
    outside = (512 - inside) / 2 * 4
    p = np.full(inside, 4.0)
    p[[0, -1]] += outside
    p /= p.sum()
    wanted = float(np.sum(p * np.log(p * inside)))
    assert observe._divergence(counts, centers, -0.75, 0.75) == pytest.approx(wanted)


def test_ranges_of_the_observers() -> None:
    values = np.random.default_rng(1).standard_normal(40000)
    values[0], values[1] = -40, 30
    assert observe.minmax(values) == (-40, 30)
    low, high = observe.percentile(values)
    assert (low, high) == tuple(np.percentile(values, [0.01, 99.99]))
    for find in (observe.least_error, observe.entropy):
        low, high = find(values)
        assert low / -40 == pytest.approx(high / 30) and 0.3 <= low / -40 < 1  # a part of the whole range
    even = np.linspace(-1, 1, 4096)
    assert observe.least_error(even) == (-1, 1) and observe.entropy(even) == pytest.approx((-1, 1))
    assert observe.sampled(np.arange(10), 4).tolist() == [0, 3, 6, 9] and observe.sampled(even) is not even
    assert observe.quantized(np.array([-9, -1, 0.0101, 0.4, 9]), -1.28, 1.27).tolist() == pytest.approx(
        [-1.28, -1, 0.01, 0.4, 1.27]
    )
