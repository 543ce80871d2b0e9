"""Remainders on lanes: those of the C library, to the bit, in every build of ec_simd.h."""

from __future__ import annotations

import numpy as np
from test_simd import INF, NAN, Shim, assert_identical, f32, shim  # noqa: F401


def test_fmod_is_that_of_c(shim: Shim) -> None:  # noqa: F811
    """Quotients of all sizes, those just below a whole number, and special values: equal to the bit."""
    rng = np.random.default_rng(2)
    values = f32(0, -0.0, 1, -1, 2.5, 0.7, 1e30, -1e-30, 1e-40, INF, -INF, NAN)
    a, b = np.exp(rng.uniform(-5, 5, (2, 200_000))).astype(np.float32)
    whole = rng.integers(1, 2**22, b.size) * b
    x = np.concatenate([a, -a * 1000, whole, np.nextafter(whole, f32(0)), np.repeat(values, values.size), a[:64] * 1e9])
    y = np.concatenate([b, -b, b, b, np.tile(values, values.size), b[:64]])
    x, y = (np.ascontiguousarray(v, np.float32) for v in (x, y))
    with np.errstate(all="ignore"):
        assert_identical(shim.map("fmod", x, y), np.fmod(x, y))
