"""Built folders whose model can be checked by again: with notes, without code of the user's, and no training step."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from edgec.artifact import origin


@pytest.mark.parametrize("has_notes", [False, True])
@pytest.mark.parametrize("lock", [{}, {"training": {}}, {"threads": 2}])
@pytest.mark.parametrize("settings", [{}, {"threads": 2}, {"operators": ("folder",)}, {"retrain_state": "f"}])
def test_reopened(
    has_notes: bool, lock: dict[str, Any], settings: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if has_notes:
        (tmp_path / origin.ORIGIN).write_text("{}")
    monkeypatch.setattr(origin, "read_lock", lambda folder: lock)
    monkeypatch.setattr(origin, "read_origin", lambda folder, found: (folder / "m.onnx", settings))
    named = origin.code_of(settings)
    assert bool(named) == bool(settings.keys() - {"threads"})
    assert origin.reopens(tmp_path) == (has_notes and "training" not in lock and not named)
