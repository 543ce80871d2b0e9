"""Names in the folder of a divided network, and of what its workers are told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

#: The manifest; only a folder that contains one is overwritten by a division.
MANIFEST = "edgec-divided.json"
#: The environment variable with the secret that workers and coordinator share.
SECRET = "EDGEC_WORKER_SECRET"


def is_divided(model: Any) -> bool:
    """True for the path of a folder with a divided network."""
    return isinstance(model, (str, Path)) and (Path(model) / MANIFEST).is_file()
