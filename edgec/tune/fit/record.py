"""The record of a fit's measurements: a line of JSON for each network that was timed, so that a fit goes on after it.

The first line says what was timed: the device's facts, the compiler, the version of edgec and the link. A record of
anything else is refused. A last line that was cut off is left out.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgec import files
from edgec.errors import UsageError

#: Version of the file.
SCHEMA = 1
#: Seconds of a kernel that a clock can have told.
LEAST, MOST = 1e-10, 1e3
#: Bytes of a record that anybody could have written.
LARGEST = 64 << 20


@dataclass
class Record:
    """Seconds of kernels by their names, in a file that grows by a line a network."""

    path: Path
    target: str
    seconds: dict[str, float]

    @classmethod
    def opened(cls, path: Path, target: str) -> Record:
        """The record at ``path``, or a new one for ``target``. Raises UsageError for that of another target."""
        if not path.exists():
            return cls(path, target, {})
        with files.system():
            if path.stat().st_size > LARGEST:
                raise UsageError("this is no record of a fit", hint=_HINT, where=str(path))
            lines = path.read_bytes().decode(errors="replace").split("\n")
        head = _parsed(lines[0])
        if head.get("edgec_fit") != SCHEMA:
            raise UsageError("this is no record of a fit", hint=_HINT, where=str(path))
        if head.get("target") != target:
            hint = f"remove it, or name another file: rm {path}"
            what = "the record is of another device, compiler, link or version of edgec"
            raise UsageError(what, hint=hint, where=str(path))
        seconds: dict[str, float] = {}
        for line in lines[1:]:
            found = _parsed(line).get("seconds")
            if isinstance(found, dict):
                seconds |= {str(name): float(s) for name, s in found.items() if is_time(s)}
        return cls(path, target, seconds)

    def add(self, found: Mapping[str, float]) -> None:
        """Keep the times of a network, in memory and in the file. Raises UsageError where it cannot be written."""
        head = "" if self.path.exists() else json.dumps({"edgec_fit": SCHEMA, "target": self.target})
        with files.writing(self.path), self.path.open("a", encoding="utf-8") as file:
            file.write(f"{head}\n{json.dumps({'seconds': dict(found)})}")  # behind a line that may be cut off
        self.seconds.update(found)


_HINT = "name another file for the result: its record is beside it"


def is_time(seconds: object) -> bool:
    """Could a clock have told it?"""
    return type(seconds) in (int, float) and LEAST <= float(str(seconds)) <= MOST


def _parsed(line: str) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
