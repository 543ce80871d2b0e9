"""Names of files in a built folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

#: The lock file; only a folder that contains one is overwritten.
LOCK = "edgec.lock"


def is_built(model: Any) -> bool:
    """True for the path of a folder that edgec built."""
    return isinstance(model, (str, Path)) and (Path(model) / LOCK).is_file()
