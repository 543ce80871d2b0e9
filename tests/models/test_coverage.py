"""Every model that has to work, as benchmarks/coverage.py runs it; those that are not here are skipped."""

from __future__ import annotations

import cover_made  # noqa: F401  (they register)
import cover_pictures  # noqa: F401
import cover_sound  # noqa: F401
import cover_text  # noqa: F401
import pytest
from cover import CASES, Missing

pytestmark = pytest.mark.usefixtures("compiled_quickly")


@pytest.mark.parametrize("name", CASES)
def test_as_onnxruntime(name: str) -> None:
    try:
        row = CASES[name]()
    except Missing as reason:
        pytest.skip(str(reason))
    assert row.error <= row.bound, row
    assert row.same == row.decisions, row
