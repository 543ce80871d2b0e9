"""Plain data as TOML, and one table of a file replaced without touching the rest."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

_BARE = re.compile(r"[A-Za-z0-9_-]+")


def dump(values: Mapping[str, Any], prefix: str = "") -> str:
    """Tables of strings, numbers, truth values, lists and tables; what is empty or None is left out."""
    plain = {k: v for k, v in values.items() if not isinstance(v, Mapping) and v is not None and v != []}
    tables = {k: v for k, v in values.items() if isinstance(v, Mapping) and v}
    lines = [f"{_key(k)} = {_value(v)}" for k, v in plain.items()]
    for key, table in tables.items():
        path = f"{prefix}{_key(key)}"
        inner = dump(table, f"{path}.")
        has_own = any(not isinstance(v, Mapping) for v in table.values())
        lines += ["", f"[{path}]", inner.strip("\n")] if has_own else [inner.rstrip("\n")]
    return "\n".join(lines) + "\n"


def replaced(text: str, table: str, values: Mapping[str, Any]) -> str:
    """The text of a file with ``[table]`` and its inner tables replaced by ``values``, at its end."""
    kept: list[str] = []
    inside = False
    for line in text.splitlines():
        header = re.match(r"\s*\[\[?\s*([^\]]+?)\s*\]", line)
        if header:
            inside = header[1] == table or header[1].startswith(f"{table}.")
        if not inside:
            kept.append(line)
    told = dump({table: values}).strip("\n")
    body = "\n".join(kept).rstrip("\n")
    return f"{body}\n\n{told}\n" if told else f"{body}\n"


def _key(key: str) -> str:
    return key if _BARE.fullmatch(key) else json.dumps(key, ensure_ascii=False)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_value, value))}]"
    return json.dumps(str(value), ensure_ascii=False) if not isinstance(value, (int, float)) else repr(value)
