"""Names out of a model are untrusted text: how they are shown, and how they become identifiers."""

from __future__ import annotations

import re
from collections.abc import Iterable

_C_KEYWORDS = frozenset(
    {
        "alignas", "alignof", "auto", "bool", "break", "case", "char", "const", "continue", "default", "do",
        "double", "else", "enum", "extern", "false", "float", "for", "goto", "if", "inline", "int", "long",
        "main", "register", "restrict", "return", "short", "signed", "sizeof", "static", "struct", "switch",
        "true", "typedef", "union", "unsigned", "void", "volatile", "while",
    }
)  # fmt: skip


def printable(text: str, limit: int = 120) -> str:
    """One line that a terminal and a C comment can show whatever ``text`` holds."""
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii", "replace") for c in text)
    shown = shown.encode("utf-8", "backslashreplace").decode("utf-8").replace("*/", "* /").replace("/*", "/ *")
    return shown if len(shown) <= limit else f"{shown[: limit - 3]}..."


def listed(names: Iterable[str], limit: int = 10) -> str:
    """'a', 'b', 'c' and how many more."""
    names = list(names)
    shown = ", ".join(f"'{printable(n)}'" for n in names[:limit])
    return f"{shown} and {len(names) - limit} more" if len(names) > limit else shown


def as_argument(path: str) -> str:
    """A path that no program takes for an option."""
    return f"./{path}" if path.startswith("-") else path


def identifier(text: str, fallback: str = "net") -> str:
    """A C identifier that resembles ``text``."""
    word = re.sub(r"[^0-9A-Za-z]+", "_", text).strip("_")[:60]
    if not word:
        return fallback
    return f"{fallback}_{word}" if word[0].isdigit() or word in _C_KEYWORDS else word
