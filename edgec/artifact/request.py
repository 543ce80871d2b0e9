"""The name of a build by the words that asked for it: a model's path, its bytes and settings, before anything is read.

A compiler cache calls this its direct mode: what was found out about a build the last time (`Known`) is taken again
where all of these are the same, so that neither the model is parsed nor the options are resolved.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path
from typing import Any

from edgec.artifact.cache import digest_of
from edgec.artifact.fingerprint import plain, stamp, surroundings
from edgec.device.compilers import compiler_for, runs_here
from edgec.device.load import load_device
from edgec.errors import EdgecError
from edgec.options import OPTIONS


def request(model: str, settings: Mapping[str, Any], **more: Any) -> str | None:
    """A hash of a model's content and path, the settings, this machine, the compiler and edgec; and of ``more``.

    None where the model is no single file, a setting names a file or a folder of its own, which the hash would not
    see into, or the code does not run here.
    """
    given = {key: value for key, value in settings.items() if value not in (OPTIONS[key].default, None, (), {})}
    path = Path(model)
    try:
        if not path.is_file() or "loss" in given or any(map(_names_a_file, _texts(given.values()))):
            return None
        device = load_device(str(settings.get("device") or OPTIONS["device"].default))
        wanted = settings.get("compiler")
        if not runs_here(device, wanted):
            return None
        asked = {
            "model": [os.path.realpath(path), str(path), digest_of(path)],
            "settings": given,
            "device": asdict(device),
            "around": surroundings(compiler_for(device, wanted), settings.get("profiles") is not False),
            **more,
        }
        return "request-" + sha256(json.dumps(asked, sort_keys=True, default=plain).encode()).hexdigest()
    except (EdgecError, OSError, TypeError, ValueError):  # the usual way says what is wrong
        return None


def stamps(files: Iterable[Path]) -> dict[str, Any]:
    """Stamps of files by their absolute paths, of those that are not there too: equal ones tell of no change."""
    return {str(path.absolute()): stamp(path) for path in files}


def _texts(values: Iterable[Any]) -> Iterable[str]:
    """All strings and paths in settings, those in lists and tables too."""
    for value in values:
        if isinstance(value, (str, Path)):
            yield str(value)
        elif isinstance(value, Mapping):
            yield from _texts(value.values())
        elif isinstance(value, (list, tuple, set, frozenset)):
            yield from _texts(value)


def _names_a_file(text: str) -> bool:
    return bool(text) and os.path.exists(text)
