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
    shown = text
    if not text.isprintable():
        shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii", "replace") for c in text)
    shown = shown.encode("utf-8", "backslashreplace").decode("utf-8").replace("*/", "* /").replace("/*", "/ *")
    return shown if len(shown) <= limit else f"{shown[: limit - 3]}..."


def listed(names: Iterable[str], limit: int = 10) -> str:
    """'a', 'b', 'c' and how many more."""
    names = list(names)
    shown = ", ".join(f"'{printable(n)}'" for n in names[:limit])
    return f"{shown} and {len(names) - limit} more" if len(names) > limit else shown


def counted(count: int, noun: str) -> str:
    """'1 kernel', '2 kernels': a number of things that take an s."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def on_threads(numbers: Iterable[int]) -> str:
    """'1 thread', '1 and 4 threads', 'no thread'."""
    told = " and ".join(map(str, numbers))
    return f"{told or 'no'} thread{'s' if told not in ('', '1') else ''}"


def did_you_mean(word: str, known: Iterable[str], otherwise: str, *, most: int = 1, cutoff: float = 0.6) -> str:
    """A hint: the names of ``known`` that ``word`` may have meant, or ``otherwise`` where none is near."""
    from difflib import get_close_matches  # the start does without it

    near = get_close_matches(word, list(known), most, cutoff)
    return f"did you mean {' or '.join(repr(printable(n)) for n in near)}?" if near else otherwise


def one_of(word: str, known: Iterable[str], more: str = "") -> str:
    """A hint: all of a few names, the one that ``word`` may have meant before them, and ``more`` behind them."""
    known = list(known)
    near = did_you_mean(word, known, "")
    return f"{near}{' ' if near else ''}it is one of {', '.join(map(printable, known))}{more}"


def as_argument(path: str) -> str:
    """A path that no program takes for an option."""
    return f"./{path}" if path.startswith("-") else path


def identifier(text: str, fallback: str = "net") -> str:
    """A C identifier that resembles ``text``."""
    word = re.sub(r"[^0-9A-Za-z]+", "_", text).strip("_")[:60]
    if not word:
        return fallback
    return f"{fallback}_{word}" if word[0].isdigit() or word in _C_KEYWORDS else word
