"""The random numbers of all tests.

What a test is made of (graphs, weights, masks) comes from ``RANDOM``, and depends on the test's name and on
``EDGEC_RANDOM_SEED`` alone, whatever ran before it in the same process. What kernels compute with is drawn by ``SEED``:
fresh in every run, unless ``EDGEC_RANDOM_SEED`` says which; a failure names it. With it, hypothesis repeats itself too.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from hypothesis import settings

GIVEN = os.environ.get("EDGEC_RANDOM_SEED")

SEED = int(np.random.SeedSequence().entropy) % 2**32 if GIVEN is None else int(GIVEN)
RANDOM = np.random.default_rng()

settings.register_profile("repeated", derandomize=True)
if GIVEN is not None:
    settings.load_profile("repeated")


def begin(name: str) -> None:
    """From here on ``RANDOM`` gives what it gives to ``name``."""
    fresh = np.random.default_rng([int(GIVEN or 0), zlib.crc32(name.encode())])
    RANDOM.bit_generator.state = fresh.bit_generator.state


@contextmanager
def of(name: str) -> Iterator[None]:
    """``RANDOM`` gives what it gives to ``name``, and goes on behind as if nothing had been: for what is kept."""
    before = RANDOM.bit_generator.state
    begin(name)
    try:
        yield
    finally:
        RANDOM.bit_generator.state = before


begin("")  # for programs that are no tests
