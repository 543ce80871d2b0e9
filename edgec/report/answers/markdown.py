"""Tables of all keys for the guide (docs/guide/json.md), from the same types as the schemas."""

from __future__ import annotations

import dataclasses
import json
import types
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints, is_typeddict

from edgec.report.answers.frame import Answered, Refused
from edgec.report.answers.table import ANSWERS

_WORDS: Mapping[Any, str] = {
    bool: "boolean", int: "integer", float: "number", str: "string", type(None): "`null`", Any: "anything",
}  # fmt: skip


def tables() -> str:
    """A section for each answer, then one for each record inside of answers."""
    written = _Tables()
    lines = ["## Every object", "", *written.rows(Answered)]
    lines += ["", "A command that fails prints an object with these keys, and the first three of the above.", ""]
    lines += written.rows(Refused, set(get_type_hints(Answered)))
    for names, kinds in _sections().items():
        lines += ["", f"## {', '.join(names)}"]
        for kind in kinds:
            lines += ["", *_said(kind), "", *written.rows(kind, set(get_type_hints(Answered)))]
    lines += [
        "",
        "## Records",
        "",
        "Objects inside of answers, by the names that the schemas use.",
    ]
    done: set[str] = set()
    while rest := [kind for name, kind in sorted(written.records.items()) if name not in done]:
        for kind in rest:
            done.add(kind.__name__)
            lines += ["", f"### {kind.__name__}", "", *_said(kind), "", *written.rows(kind)]
    return "\n".join(lines) + "\n"


def _sections() -> dict[tuple[str, ...], tuple[Any, ...]]:
    """Commands with the same answers have one section."""
    found: dict[tuple[Any, ...], list[str]] = {}
    for command, kinds in ANSWERS.items():
        found.setdefault(kinds, []).append(command)
    return {tuple(names): kinds for kinds, names in found.items()}


def _said(kind: Any) -> list[str]:
    """The first line of what a type says of itself."""
    return [(kind.__doc__ or "").strip().splitlines()[0]] if kind.__doc__ else []


class _Tables:
    """Tables, and the records that they name."""

    def __init__(self) -> None:
        self.records: dict[str, Any] = {}

    def rows(self, kind: Any, without: Iterable[str] = ()) -> list[str]:
        """The table of a record, without some of its keys."""
        lines = ["| key | type | meaning |", "|---|---|---|"]
        optional: frozenset[str] = getattr(kind, "__optional_keys__", frozenset())
        for key, hint in get_type_hints(kind, include_extras=True).items():
            if key in without:
                continue
            annotated = get_origin(hint) is Annotated
            meaning = next((m for m in get_args(hint)[1:] if isinstance(m, str)), "") if annotated else ""
            plain = get_args(hint)[0] if annotated else hint
            may = "; may be missing" if key in optional else ""
            lines.append(f"| `{key}` | {self._type(plain)}{may} | {meaning} |")
        return lines

    def _type(self, kind: Any) -> str:
        """A type in words, with links to records."""
        origin, inside = get_origin(kind), get_args(kind)
        if origin is Annotated:
            return self._type(inside[0])
        if kind in _WORDS:
            return _WORDS[kind]
        if origin is Literal:
            return " or ".join(f"`{json.dumps(value)}`" for value in inside)
        if origin in (Union, types.UnionType):
            return " or ".join(self._type(part) for part in inside)
        if origin is tuple and inside[-1] is not Ellipsis:
            return f"list of {len(inside)}: {', '.join(self._type(part) for part in inside)}"
        if isinstance(origin, type) and issubclass(origin, Mapping):
            return f"object of {self._type(inside[1])} by name"
        if isinstance(origin, type) and issubclass(origin, Iterable):
            return f"list of {self._type(inside[0])}"
        if dataclasses.is_dataclass(kind):  # a table of a device file
            return "object"
        if not is_typeddict(kind):
            raise TypeError(f"{kind} has no words")
        self.records[kind.__name__] = kind
        return f"[{kind.__name__}](#{kind.__name__.lower()})"
