"""Bands of constant masks: the least that holds all that any head sees, and whether it is all that they see."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from small_graphs import value

from edgec.ir.graph import constant
from edgec.schedule.gpu.attention_gradients import band_of


def mask_of(seen: np.ndarray, number: float = 0.0) -> np.ndarray:
    return np.where(seen, number, -np.inf).astype(np.float32)


@pytest.mark.parametrize(("queries", "keys"), [(1, 1), (4, 4), (3, 6), (6, 3)])
def test_every_band(queries: int, keys: int) -> None:
    apart = np.arange(keys) - np.arange(queries)[:, None]
    for low, high in product(range(-queries, keys + 1), repeat=2):
        seen = (apart >= low) & (apart <= high)
        found = band_of(constant(mask_of(seen)), queries, keys)
        if seen.all():
            assert found is None
            continue
        assert found is not None and found.is_all
        inside = (apart >= found.low) & (apart <= found.high)
        assert np.array_equal(inside, seen)
        if seen.any():
            assert (found.low, found.high) == (apart[seen].min(), apart[seen].max())


def test_masks_that_are_more_than_a_band() -> None:
    """Holes, numbers, and heads that see other keys."""
    seen = np.tril(np.ones((5, 5), bool))
    holes = seen.copy()
    holes[3, 1] = False
    heads = np.stack([seen, np.tril(seen, -1)])
    for mask in (mask_of(holes), mask_of(seen, 1.0), mask_of(heads)):
        found = band_of(constant(mask), 5, 5)
        assert found is not None and (found.low, found.high) == (-4, 0)
        assert not found.is_all


def test_what_is_no_mask_of_these_rows() -> None:
    mask = mask_of(np.tril(np.ones((5, 5), bool)))
    assert band_of(value("m", 5, 5), 5, 5) is None and band_of(constant(mask), 4, 5) is None
    assert band_of(constant(mask), 5, 4) is None and band_of(constant(mask[:0]), 5, 5) is None
    assert band_of(constant(mask[None, None]), 5, 5) == band_of(constant(mask), 5, 5) is not None
