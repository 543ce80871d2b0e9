"""Answers of commands beside their schemas."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match

from edgec.report.answers.frame import Refused
from edgec.report.answers.json_schema import schema_of_type
from edgec.report.answers.table import ANSWERS


@cache
def _validator(kind: Any) -> Draft202012Validator:
    return Draft202012Validator(schema_of_type(kind))


def faults(record: dict[str, Any], kind: Any) -> str | None:
    """The first difference of a record from the schema of a type; None where there is none."""
    plain = json.loads(json.dumps(record))
    found = best_match(_validator(kind).iter_errors(plain))
    return None if found is None else f"{kind.__name__}: at {found.json_path}: {found.message[:300]}"


def refuse_other(record: dict[str, Any]) -> None:
    """Raises AssertionError for an answer that has none of the schemas of its command."""
    name = record.get("command")
    assert name == "edgec" or name in ANSWERS, f"there is no command {name}"
    kinds = [Refused] if "error" in record else ANSWERS.get(str(name), ())
    found = [faults(record, kind) for kind in kinds]
    assert None in found, "\n".join(map(str, found))
