"""The frame of every record: its head, errors, and data made fit for JSON and for a terminal (docs/guide/json.md)."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Any

from edgec.errors import EdgecError
from edgec.text import printable
from edgec.version import __version__

#: Version of all records; it grows when a key changes its meaning or goes.
SCHEMA = 2

Record = dict[str, Any]


def head(command: str) -> Record:
    """The first keys of every record."""
    return {"schema": SCHEMA, "edgec": __version__, "command": command}


def finite(value: Any) -> Any:
    """The same data without infinities and NaN, which JSON has no word for: they become null."""
    if isinstance(value, float):
        return value if isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(k): finite(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(v) for v in value]
    return value


def shown(value: Any) -> Any:
    """The same data fit for a terminal: names out of a model may hold characters that would control it."""
    if isinstance(value, str):
        return "\n".join(printable(line, 10_000) for line in value.split("\n"))
    if isinstance(value, Mapping):
        return {shown(k): shown(v) for k, v in value.items()}
    return [shown(v) for v in value] if isinstance(value, (list, tuple)) else value


def error(command: str, problem: EdgecError) -> Record:
    """The record of a command that failed."""
    details = {"kind": type(problem).__name__, "message": problem.message, "hint": problem.hint, "where": problem.where}
    return {**head(command), "ok": False, "error": details}
