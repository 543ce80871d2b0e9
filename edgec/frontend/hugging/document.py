"""JSON files that nobody vouches for: bounded in size, no name given twice, values of the type that is expected."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from os import fstat
from pathlib import Path
from typing import Any

from edgec.errors import ModelError, UsageError
from edgec.text import printable
from edgec.untrusted import regular

#: A file of more bytes is none that describes a model or a vocabulary.
MOST_BYTES = 1 << 26
_LARGEST = 1 << 53


@dataclass(frozen=True)
class Document:
    """An object of a JSON file; ``where`` names the file in errors."""

    values: Mapping[str, Any]
    where: str

    def has(self, name: str) -> bool:
        """Is there a value other than null?"""
        return self.values.get(name) is not None

    def value(self, name: str, kind: type | tuple[type, ...], default: Any = None) -> Any:
        """A value; raises ModelError where it is missing, or of another type."""
        found = self.values.get(name)
        found = default if found is None else found
        if found is None:
            raise ModelError(f"there is no '{printable(name)}'", where=self.where)
        is_truth_for_number = isinstance(found, bool) and kind in (int, float, (int, float))
        if not isinstance(found, kind) or is_truth_for_number:
            shown = printable(json.dumps(found))[:80]
            raise ModelError(f"'{printable(name)}' is {shown}, which is no such value", where=self.where)
        return found

    def integer(self, name: str, default: int | None = None) -> int:
        found = int(self.value(name, int, default))
        if abs(found) > _LARGEST:
            raise ModelError(f"'{printable(name)}' is larger than any number of a model", where=self.where)
        return found

    def number(self, name: str, default: float | None = None) -> float:
        found = self.value(name, (int, float), default)
        if abs(found) > _LARGEST:
            raise ModelError(f"'{printable(name)}' is larger than any number of a model", where=self.where)
        return float(found)

    def text(self, name: str, default: str | None = None) -> str:
        return str(self.value(name, str, default))

    def flag(self, name: str, default: bool = False) -> bool:
        return bool(self.value(name, bool, default))

    def part(self, name: str) -> Document:
        """The object of that name; an empty one where there is none."""
        return Document(self.value(name, dict, {}), self.where)

    def parts(self, name: str) -> list[Document]:
        """The list of objects of that name; an empty one where there is none."""
        found = self.value(name, list, [])
        if not all(isinstance(entry, dict) for entry in found):
            raise ModelError(f"'{printable(name)}' is no list of objects", where=self.where)
        return [Document(entry, self.where) for entry in found]


def parsed(content: bytes, where: str) -> Document:
    """The object that JSON text describes; raises ModelError for anything else."""
    if len(content) > MOST_BYTES:
        raise ModelError(f"{len(content)} bytes are more than a description has", where=where)
    try:
        found = json.loads(content, object_pairs_hook=_once, parse_constant=_no_number, parse_float=_finite)
    except ModelError as error:
        error.where = error.where or where
        raise
    except (ValueError, RecursionError) as error:
        shown = printable(str(error) or type(error).__name__)[:200]
        raise ModelError(f"no JSON: {shown}", hint="copy or download it again", where=where) from None
    if not isinstance(found, dict):
        raise ModelError("the JSON is no object", where=where)
    return Document(found, where)


def opened(path: Path) -> Document:
    """`parsed` of a file; raises UsageError where it cannot be read."""
    where = printable(str(path))
    try:
        with regular(path).open("rb") as file:
            size = min(fstat(file.fileno()).st_size, MOST_BYTES) + 1  # no buffer is larger than the file
            return parsed(file.read(size), where)
    except OSError as error:
        raise UsageError(f"cannot read the model: {error.strerror or error}", where=where) from None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ModelError(f"the name '{printable(twice)}' is given twice")
    return found


def _no_number(text: str) -> Any:
    raise ModelError(f"{text} is no number of JSON")


def _finite(text: str) -> float:
    if not isfinite(found := float(text)):
        raise ModelError(f"{printable(text)[:40]} is too large a number")
    return found
