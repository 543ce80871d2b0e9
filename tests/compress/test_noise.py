"""Small measures of compression, against numpy and at their corners."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from edgec.compress.calibration import noise

VALUES = arrays(np.float32, (3, 4), elements=st.integers(-8, 8).map(float))


@given(st.lists(st.tuples(VALUES, VALUES), min_size=1, max_size=3))
def test_noise_is_the_error_over_the_signal(pairs: list[tuple[np.ndarray, np.ndarray]]) -> None:
    wanted, got = ([p[k] for p in pairs] for k in (0, 1))
    error, signal = np.square(np.subtract(wanted, got)).sum(), np.square(wanted).sum()
    assert noise(wanted, got) == pytest.approx(error / signal if signal else float(error != 0))
    assert noise(wanted, wanted) == 0


def test_noise_of_what_should_be_nothing() -> None:
    nothing = np.zeros((2, 2), np.float32)
    assert noise([nothing], [nothing]) == 0.0 and noise([nothing], [nothing - 1]) == 1.0
