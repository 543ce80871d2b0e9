"""The bar of progress in a notebook: drawn where its package is there, and nothing where it would only warn."""

from __future__ import annotations

import sys
from types import ModuleType
from unittest.mock import MagicMock

import pytest

from edgec import progress as told
from edgec.report import progress


@pytest.mark.parametrize("has_widgets", [False, True])
def test_a_notebook_has_a_bar_if_it_can_draw_one(has_widgets: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "IPython", ModuleType("IPython"))
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    monkeypatch.setattr("rich.progress.Progress", MagicMock())
    monkeypatch.setattr(progress, "find_spec", lambda name: MagicMock() if has_widgets else None)
    with progress.shown() as shown:
        assert (shown is not told.silent) == has_widgets
