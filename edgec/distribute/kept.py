"""Speeds of links that were measured once, kept for the builds that follow: one JSON file in the user's cache."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from math import inf, isfinite
from pathlib import Path
from typing import Any

from edgec import files
from edgec.distribute.links import Handled
from edgec.distribute.places import Place, Speed
from edgec.errors import EdgecError
from edgec.untrusted import read_json

#: Links that are kept at most; the oldest go first.
MOST = 256


def kept_path() -> Path:
    """The file."""
    return files.user_folder("XDG_CACHE_HOME", ".cache") / "link_speeds.json"


def keep(place: Place, found: Speed | Handled) -> None:
    """Keep the speed of the link to a place. A cache that cannot be written is left as it is."""
    known = {name: entry for name, entry in _entries().items() if name != str(place)}
    known[str(place)] = asdict(found)
    try:
        kept_path().parent.mkdir(parents=True, exist_ok=True)
        files.replace(kept_path(), json.dumps(dict(list(known.items())[-MOST:]), indent=1) + "\n")
    except (OSError, EdgecError):
        return


def kept(place: Place) -> Speed | Handled | None:
    """The speed that was kept; None where there is none, or none that makes sense."""
    entry = _entries().get(str(place))
    if not isinstance(entry, dict):
        return None
    if not place.is_here:
        return _speed(entry)
    whole, hub, frame = _speed(entry.get("whole")), _speed(entry.get("hub")), entry.get("frame_s")
    if whole is None or hub is None or not isinstance(frame, (int, float)) or not 0 <= frame < inf:
        return None
    return Handled(whole, hub, float(frame))


def _entries() -> Mapping[str, Any]:
    try:
        found = read_json(kept_path())
    except (OSError, ValueError, EdgecError):
        return {}
    return found if isinstance(found, dict) else {}


def _speed(entry: Any) -> Speed | None:
    if not isinstance(entry, dict) or set(entry) != {"bytes_per_s", "latency_s"}:
        return None
    if any(type(n) not in (int, float) or not isfinite(n) or n < 0 for n in entry.values()):
        return None
    return Speed(float(entry["bytes_per_s"]), float(entry["latency_s"])) if entry["bytes_per_s"] > 0 else None
