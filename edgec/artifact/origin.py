"""The origin of a built folder: where its model was, and the options that were asked for, beside the artefact.

It is no part of the artefact, whose bytes do not depend on where anything lies: paths are relative to the folder.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from edgec import files
from edgec.artifact.folder import ORIGIN, read_lock
from edgec.errors import UsageError
from edgec.options import OPTIONS, Settings
from edgec.options.said import said, told_again
from edgec.untrusted import read_json

#: Elements of an array that are noted.
_MOST_VALUES = 64
#: Facts of a lock that are options, and the keywords that ask for them.
_OF_LOCK = {
    "device": "device", "threads": "threads", "name": "name", "shapes": "shapes", "dims": "dims", "states": "states",
    "loops": "loops", "numeric": "numeric", "fuse": "fuse",
}  # fmt: skip


def write_origin(folder: Path, model: str | Path, settings: Settings) -> None:
    """Note the model and the settings; nothing is written for settings that no text holds, such as arrays."""
    if any(not _is_text(settings.get(key)) for key in settings):
        return
    files.replace(folder / ORIGIN, json.dumps(said(settings, model, folder), indent=1, sort_keys=True) + "\n")


def _is_text(value: Any) -> bool:
    if isinstance(value, Mapping):
        return all(_is_text(v) for v in value.values())
    if isinstance(value, (list, tuple, frozenset, set, range)):
        return all(_is_text(v) for v in value)
    if isinstance(value, (np.ndarray, np.generic)):
        return value.size <= _MOST_VALUES
    return value is None or isinstance(value, (str, int, float, bool, Path))


def read_origin(folder: Path, lock: Mapping[str, Any]) -> tuple[Path | None, dict[str, Any]]:
    """The model of a built folder, where that is known, and the settings to ask for the build again.

    Of a folder without notes, the settings are those that its lock has. Raises UsageError for notes that are none of
    ours, or that name code to run, which only the caller may do.
    """
    path = folder / ORIGIN
    if not path.is_file():
        return None, {keyword: lock[key] for key, keyword in _OF_LOCK.items() if lock.get(key)}
    found = read_json(path)
    if not isinstance(found, dict) or not isinstance(found.get("model"), str):
        raise UsageError("does not say what the folder was built from", hint="build it again", where=str(path))
    return Path(os.path.normpath(folder / found["model"])), told_again(found, folder, str(path))


def reopens(folder: Path) -> bool:
    """Is a built folder all that its model can be checked by again: no code of the user's, and no training step?"""
    lock = read_lock(folder)
    if not (folder / ORIGIN).is_file() or "training" in lock:
        return False
    return not code_of(read_origin(folder, lock)[1])


def code_of(settings: Mapping[str, Any]) -> list[str]:
    """The keywords of settings whose values name programs, code of the user's own, or files to write."""
    named = []
    for key, value in settings.items():
        values = value if isinstance(value, (list, tuple)) else (value,)
        if any(v is not None and (OPTIONS[key].writes or OPTIONS[key].runs(str(v))) for v in values):
            named.append(key)
    return named
