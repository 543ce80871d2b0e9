"""Names of files in a built folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

#: The lock file; only a folder that contains one is overwritten.
LOCK = "edgec.lock"
#: The manifest of a network over several devices, whose parts are built folders below it.
MANIFEST = "edgec-divided.json"


def is_built(model: Any) -> bool:
    """True for the path of a folder that edgec built."""
    return isinstance(model, (str, Path)) and (Path(model) / LOCK).is_file()


def is_divided(model: Any) -> bool:
    """True for the path of a folder with a network that was divided between devices."""
    return isinstance(model, (str, Path)) and (Path(model) / MANIFEST).is_file()


def sealed_names(name: str) -> tuple[str, str, str]:
    """The files of a network with encrypted weights: the weights, and the C that opens them."""
    return f"{name}.weights.enc", f"{name}_encrypted.h", f"{name}_encrypted.c"
