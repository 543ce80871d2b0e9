"""The program `edgec` that an installation makes is the command line."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

from edgec.cli.main import main

ROOT = Path(__file__).resolve().parents[2]


def test_the_installed_program_is_the_command_line() -> None:
    found = re.search(
        r'^edgec = "([\w.]+):(\w+)"$', (ROOT / "pyproject.toml").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert found is not None
    assert getattr(importlib.import_module(found[1]), found[2]) is main
