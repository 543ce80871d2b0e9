"""JSON Schemas (draft 2020-12) of types: typed dictionaries, dataclasses as `asdict` writes them, unions, lists."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints, is_typeddict

from edgec.errors import UsageError
from edgec.report.answers.frame import Refused
from edgec.report.answers.table import ANSWERS
from edgec.text import one_of

DRAFT = "https://json-schema.org/draft/2020-12/schema"
_PLAIN: Mapping[Any, str] = {
    bool: "boolean", int: "integer", float: "number", str: "string", type(None): "null",
}  # fmt: skip


def schema_of(command: str) -> dict[str, Any]:
    """The schema of what a command prints with `--json`. Raises UsageError for a command that there is not."""
    if command not in ANSWERS:
        raise UsageError(f"there is no command '{command}'", hint=one_of(command, ANSWERS))
    return _document(f"edgec {command}", _answers(command, definitions := Definitions()), definitions)


def schema_of_all() -> dict[str, Any]:
    """The schema of whatever a command prints with `--json`."""
    definitions = Definitions()
    found = [part for command in ANSWERS for part in _answers(command, definitions)]
    found.append({**definitions.of(Refused), "properties": {"command": {"const": "edgec"}}})  # no command was named
    return _document("edgec", found, definitions)


def schema_of_type(kind: Any) -> dict[str, Any]:
    """The schema of one type."""
    return _document(kind.__name__, [(definitions := Definitions()).of(kind)], definitions)


def _answers(command: str, definitions: Definitions) -> list[dict[str, Any]]:
    """The schema of all answers of a command, each of which has the name of the command."""
    named = {"properties": {"command": {"const": command}}}
    return [{**definitions.of(kind), **named} for kind in (*ANSWERS[command], Refused)]


def _document(title: str, answers: Sequence[dict[str, Any]], definitions: Definitions) -> dict[str, Any]:
    """A whole schema."""
    whole = answers[0] if len(answers) == 1 else {"anyOf": list(answers)}
    return {"$schema": DRAFT, "title": title, **whole, "$defs": dict(sorted(definitions.found.items()))}


class Definitions:
    """Schemas of the records that were met, by the names of their types."""

    def __init__(self) -> None:
        self.found: dict[str, dict[str, Any]] = {}
        self._types: dict[str, Any] = {}

    def of(self, kind: Any, is_written: bool = False) -> dict[str, Any]:
        """The schema of a type.

        A number of a dataclass ``is_written`` as null where it is not finite; a typed dictionary says so itself.
        """
        origin, inside = get_origin(kind), get_args(kind)
        if origin is Annotated:
            meaning = next((m for m in inside[1:] if isinstance(m, str)), None)
            found = self.of(inside[0], is_written)
            return found if meaning is None else {**found, "description": meaning}
        if kind is Any:
            return {}
        if kind is float and is_written:
            return {"type": ["number", "null"]}
        if kind in _PLAIN:
            return {"type": _PLAIN[kind]}
        if origin is Literal:
            return {"const": inside[0]} if len(inside) == 1 else {"enum": list(inside)}
        if origin in (Union, types.UnionType):
            return _one_of([self.of(part, is_written) for part in inside])
        if origin is tuple and inside[-1] is not Ellipsis:
            parts = [self.of(part, is_written) for part in inside]
            return {"type": "array", "prefixItems": parts, "minItems": len(parts), "maxItems": len(parts)}
        if isinstance(origin, type) and issubclass(origin, Mapping):
            return {"type": "object", "additionalProperties": self.of(inside[1], is_written)}
        if isinstance(origin, type) and issubclass(origin, Iterable):
            return {"type": "array", "items": self.of(inside[0], is_written)}
        return self._record(kind)

    def _record(self, kind: Any) -> dict[str, Any]:
        """A reference to the schema of a record. Raises TypeError for a type that is none."""
        if not (is_typeddict(kind) or dataclasses.is_dataclass(kind)):
            raise TypeError(f"{kind} has no schema")
        name = kind.__name__
        if self._types.setdefault(name, kind) is not kind:
            raise TypeError(f"two types are called {name}")
        if name not in self.found:
            self.found[name] = {}  # a record may hold others of its kind
            hints = get_type_hints(kind, include_extras=True)
            is_dataclass = dataclasses.is_dataclass(kind)
            required = [f.name for f in dataclasses.fields(kind)] if is_dataclass else kind.__required_keys__
            self.found[name] = {
                "type": "object",
                "properties": {key: self.of(hint, is_dataclass) for key, hint in hints.items()},
                "required": [key for key in hints if key in required],
                "additionalProperties": False,
            }
        return {"$ref": f"#/$defs/{name}"}


def _one_of(parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """A value of any of several schemas."""
    if all(list(part) == ["type"] and isinstance(part["type"], str) for part in parts):
        return {"type": [part["type"] for part in parts]}
    return {"anyOf": list(parts)}
