"""The list of known reasons for skipped tests."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest_plugins = ("pytester",)


@pytest.mark.parametrize(("reason", "passes"), [("pip install torch", True), ("not today", False)])
def test_a_new_reason_fails_where_that_is_asked_for(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, reason: str, passes: bool
) -> None:
    folder = str(Path(__file__).parents[1])
    pytester.makepyfile(
        f"import pytest\n\n\ndef test_one():\n    pytest.skip({reason!r})\n\n\ndef test_two():\n    pass\n"
    )
    monkeypatch.setenv("PYTHONPATH", folder)
    asked = pytester.runpytest_subprocess("-p", "skips", "--known-skips")
    assert (asked.ret == 0) == passes
    asked.stdout.fnmatch_lines([f"*1  {reason}*"])
    assert pytester.runpytest_subprocess("-p", "skips").ret == 0
