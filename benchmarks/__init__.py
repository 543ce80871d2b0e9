"""Benchmarks, run from the root of the repository as `python -m benchmarks.NAME`; README.md lists them."""

from __future__ import annotations

import os
from pathlib import Path

#: The root of the repository.
ROOT = Path(__file__).resolve().parents[1]


def environment() -> dict[str, str]:
    """The environment of a child process that imports this package, whatever its Python and its working directory."""
    return {**os.environ, "PYTHONPATH": str(ROOT)}
