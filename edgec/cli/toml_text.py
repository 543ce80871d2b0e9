"""Plain data as TOML, and one table of a file changed without touching the rest."""

from __future__ import annotations

import sys
from collections.abc import Mapping, MutableMapping
from typing import Any

import tomlkit
from tomlkit.exceptions import TOMLKitError

from edgec.errors import UsageError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


def dump(values: Mapping[str, Any]) -> str:
    """Tables of strings, numbers, truth values, lists and tables; what is empty or None is left out."""
    return tomlkit.dumps(_filled(values))


def replaced(text: str, table: str, values: Mapping[str, Any]) -> str:
    """The text of a file with ``[table]`` changed to hold ``values``; everything else stays, and comments inside too.

    Raises UsageError where the text cannot be changed so that it reads back as meant.
    """
    wanted = _filled(values)
    for edit in (_in_place, _at_the_end):
        try:
            document = tomlkit.parse(text)
            rest = {key: inner for key, inner in document.unwrap().items() if key != table}
            edit(document, table, wanted)
            found = tomlkit.dumps(document)
            if tomllib.loads(found) == ({**rest, table: wanted} if wanted else rest):
                return found
        except (TOMLKitError, ValueError, RecursionError, LookupError, TypeError, AttributeError):  # some are its own
            continue
    raise UsageError(f"the table [{table}] cannot be changed", hint="write it as one table, at the end of the file")


def _in_place(document: Any, table: str, wanted: Mapping[str, Any]) -> None:
    if wanted and isinstance(document.get(table), MutableMapping):
        _change(document[table], wanted)
    else:
        _at_the_end(document, table, wanted)


def _at_the_end(document: Any, table: str, wanted: Mapping[str, Any]) -> None:
    """For the forms of a table that cannot be changed where they are, such as dotted keys: its comments go."""
    document.pop(table, None)
    if wanted:
        document[table] = wanted


def _change(table: Any, values: Mapping[str, Any]) -> None:
    """Change what differs: an entry that stays keeps its comment."""
    for key in [key for key in table if key not in values]:
        del table[key]
    for key, value in values.items():
        if isinstance(value, Mapping) and isinstance(table.get(key), MutableMapping):
            _change(table[key], value)
        elif key not in table or table[key] != value:
            table[key] = value


def _filled(values: Mapping[str, Any]) -> dict[str, Any]:
    """Values that are not empty, in plain types: tables after everything else, as TOML needs them."""
    plain: dict[str, Any] = {}
    tables: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, Mapping):
            if inner := _filled(value):
                tables[str(key)] = inner
        elif value is not None and value != []:
            plain[str(key)] = _plain(value)
    return {**plain, **tables}


def _plain(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_plain(inner) for inner in value]
    return value if isinstance(value, (bool, int, float)) else str(value)
