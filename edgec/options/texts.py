"""Options of the form NAME=VALUE: their texts on the command line and in edgec.toml, read and written."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral
from typing import Any

from edgec.errors import UsageError
from edgec.text import printable

#: Extents of an open dimension: least, most, step.
DimensionRange = tuple[int, int, int]


@dataclass(frozen=True)
class Pair:
    """The notation of a value: ``read`` raises ValueError for a text that is none, ``write`` gives what
    edgec.toml holds.

    ``value`` names such a value in an error, ``example`` is what the option looks like, and ``more`` is said behind it.
    """

    option: str
    value: str
    example: str
    read: Callable[[str], Any]
    write: Callable[[Any], Any]
    more: str = ""

    def parse(self, text: str) -> tuple[str, Any]:
        """(name, value) of NAME=VALUE. Raises UsageError for a text that is none."""
        name, equals, rest = text.rpartition("=")
        if not equals or not name:
            raise UsageError(f"cannot read {self.option} '{printable(text)}'", hint=self._hint)
        try:
            return name, self.read(rest)
        except (OSError, ValueError, RecursionError):
            where = f"{self.option} {printable(name)}"
            raise UsageError(f"'{printable(rest)}' is no {self.value}", hint=self._hint, where=where) from None

    @property
    def _hint(self) -> str:
        return f"write {self.option} {self.example}{self.more}"


def _shape(text: str) -> tuple[int, ...]:
    return tuple(int(d) for d in text.split(",") if d.strip())


def _dim(text: str) -> DimensionRange:
    least, most, step = _matched(r"(\d+)(?:\.\.(\d+)(?::(\d+))?)?", text)
    return int(least), int(most or least), int(step or 1)


def dimension_range(given: int | tuple[int, ...] | range) -> DimensionRange:
    """(least, most, step) of one size or a range: Python's own leave out their end, a step of 1 need not be given.

    Raises ValueError for other numbers of numbers.
    """
    if isinstance(given, range):
        return given.start, given.stop - 1, given.step
    if isinstance(given, int | Integral):
        return int(given), int(given), 1
    least, most, step = (*given, 1) if len(given) == 2 else given
    return int(least), int(most), int(step)


def _dim_text(given: int | tuple[int, ...] | range) -> str:
    least, most, step = dimension_range(given)
    return f"{least}..{most}:{step}"


def _value(text: str) -> Any:
    """A number, numbers separated by commas, true or false, nested lists of them, or the name of a .npy file."""
    import numpy as np

    if text.endswith(".npy"):
        from edgec.untrusted import read_array

        return read_array(text)
    words = {"true": True, "false": False}
    if text.startswith("["):
        array = np.asarray(json.loads(text))
    else:
        numbers = [words[w.lower()] if w.lower() in words else json.loads(w) for w in text.split(",")]
        array = np.asarray(numbers[0] if len(numbers) == 1 else numbers)
    if array.dtype.kind not in "iufb":
        raise ValueError(text)
    return array


def _value_text(value: Any) -> str:
    import numpy as np

    return json.dumps(np.asarray(value).tolist())


def _loop(text: str) -> int:
    return int(*_matched(r"(\d+)", text))


def _limit(text: str) -> float:
    most = float(text)
    return int(most) if most.is_integer() else most


def _tile(text: str) -> tuple[int, int]:
    rows, vectors = _matched(r"(\d+)x(\d+)", text)
    return int(rows), int(vectors)


def _matched(pattern: str, text: str) -> tuple[str, ...]:
    found = re.fullmatch(pattern, text)
    if found is None:
        raise ValueError(text)
    return found.groups()


SHAPE = Pair("--shape", "shape", "NAME=1,3,224,224", _shape, lambda shape: list(shape) or "")
DIM = Pair("--dim", "range", "NAME=1..8", _dim, _dim_text, ", or NAME=32..960:32 for multiples of 32")
VALUE = Pair("--value", "value", "NAME=1,2", _value, _value_text, " or NAME=file.npy")
STATE = Pair("--state", "output", "INPUT=OUTPUT", str, str)
LOOP = Pair("--loop", "number", "NODE=16", _loop, int)
LIMIT = Pair("--limits", "limit", "seconds=600", _limit, lambda most: most)
OVERRIDE = Pair("--override", "variant", "'KIND NODE=VARIANT'", str, str)
TILE = Pair("--tile", "tile", "NODE=8x3", _tile, lambda tile: f"{tile[0]}x{tile[1]}", ": 8 rows, 3 vectors")
