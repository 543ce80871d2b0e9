"""Every model that has to work, as benchmarks/accuracy/coverage.py runs it; those that are not here are skipped."""

from __future__ import annotations

import pytest

from benchmarks.accuracy import cover_images, cover_made, cover_sound, cover_text  # noqa: F401  (they register)
from benchmarks.accuracy.cover import CASES, Missing

pytestmark = pytest.mark.usefixtures("compiled_quickly")


@pytest.mark.parametrize("name", CASES)
def test_as_onnxruntime(name: str) -> None:
    try:
        row = CASES[name]()
    except Missing as reason:
        pytest.skip(str(reason))
    assert row.error <= row.bound, row
    assert row.same == row.decisions, row
