"""Regular expressions of most of RE2's syntax as tables: from a state and a byte of UTF-8 to the next state.

A pattern becomes an automaton with choices, and that one without, so that matching takes one step a byte whatever the
pattern.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from edgec.errors import ModelError
from edgec.frontend.onnx.automaton import WORD, Automaton, table_of

#: Repetitions that a pattern may ask for.
_MOST_REPEATS = 1000
_ASCII = frozenset(range(1, 128))
_CLASSES = {"d": frozenset(b"0123456789"), "w": WORD, "s": frozenset(b"\t\n\f\r ")}
_SIGNS = {"t": 9, "n": 10, "v": 11, "f": 12, "r": 13, "a": 7}
_NAMED = {
    "alpha": WORD - frozenset(b"0123456789_"), "digit": _CLASSES["d"], "alnum": WORD - frozenset(b"_"),
    "lower": frozenset(b"abcdefghijklmnopqrstuvwxyz"), "upper": frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ"),
    "space": frozenset(b"\t\n\v\f\r "), "blank": frozenset(b"\t "), "word": WORD,
    "xdigit": frozenset(b"0123456789abcdefABCDEF"), "cntrl": frozenset([*range(1, 32), 127]),
    "print": frozenset(range(32, 127)), "graph": frozenset(range(33, 127)),
    "punct": frozenset(range(33, 127)) - WORD | frozenset(b"_"),
}  # fmt: skip
#: Code points beyond ASCII as bytes: the first, and how many follow.
_LONGER = ((range(0xC2, 0xE0), 1), (range(0xE0, 0xF0), 2), (range(0xF0, 0xF5), 3))
_FOLLOWING = frozenset(range(0x80, 0xC0))


def table(pattern: str) -> tuple[np.ndarray, np.ndarray]:
    """The next states [states, 256] of a pattern that a whole string has to match, up to its first zero.

    Also the states [states] that are a match where the string ends. The first state is that of the beginning.

    Raises ModelError for syntax that is not supported here, and for automata that are too large.
    """
    return table_of(_Parser(pattern).automaton())


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdigit()


@dataclass(frozen=True)
class _Piece:
    """A part of the automaton, from one node to another."""

    start: int
    end: int


class _Parser:
    """Recursive descent through a pattern; the pieces are built as they are read."""

    def __init__(self, pattern: str) -> None:
        self.text, self.at, self.depth, self.a = pattern, 0, 0, Automaton()
        self.any_line = False
        while self.text.startswith("(?s)", self.at):
            self.any_line, self.at = True, self.at + 4

    def automaton(self) -> Automaton:
        start, end = self.a.node(), self.a.node()
        whole = self.choice()
        if self.at < len(self.text):
            raise self.wrong("a ) without its (")
        self.a.freely_to[start].append((None, whole.start))
        self.a.freely_to[whole.end].append((None, end))
        return self.a

    def wrong(self, what: str) -> ModelError:
        told = f"{what} in a regular expression is not supported here, at character {self.at}"
        return ModelError(told, hint="most of RE2's syntax is: docs/guide/support.md")

    def peek(self) -> str:
        return self.text[self.at : self.at + 1]

    def take(self) -> str:
        if self.at >= len(self.text):
            raise self.wrong("an early end")
        self.at += 1
        return self.text[self.at - 1]

    def found(self, sign: str) -> bool:
        here = self.text.startswith(sign, self.at)
        self.at += len(sign) if here else 0
        return here

    # ---- pieces

    def piece(self) -> _Piece:
        return _Piece(self.a.node(), self.a.node())

    def empty(self, condition: str | None = None) -> _Piece:
        p = self.piece()
        self.a.freely_to[p.start].append((condition, p.end))
        return p

    def one_of(self, taken: frozenset[int], beyond: bool = False) -> _Piece:
        """One byte of ASCII, or (``beyond``) a code point beyond it."""
        p = self.piece()
        self.a.reads(p.start, taken, p.end)
        for first, more in _LONGER if beyond else ():
            here, reading = p.start, frozenset(first)
            for _ in range(more):
                following = self.a.node()
                self.a.reads(here, reading, following)
                here, reading = following, _FOLLOWING
            self.a.reads(here, reading, p.end)
        return p

    def join(self, parts: Iterable[_Piece]) -> _Piece:
        whole = self.empty()
        for p in parts:
            self.a.freely_to[whole.end].append((None, p.start))
            whole = _Piece(whole.start, p.end)
        return whole

    # ---- syntax

    def choice(self) -> _Piece:
        self.depth += 1
        if self.depth > 50:
            raise self.wrong("too many brackets")
        p = self.piece()
        while True:
            part = self.sequence()
            self.a.freely_to[p.start].append((None, part.start))
            self.a.freely_to[part.end].append((None, p.end))
            if not self.found("|"):
                self.depth -= 1
                return p

    def sequence(self) -> _Piece:
        parts = []
        while self.peek() not in ("", "|", ")"):
            parts.append(self.repeated())
        return self.join(parts)

    def repeated(self) -> _Piece:
        begin = self.at
        p = self.atom()
        after = self.at
        if self.peek() not in ("*", "+", "?", "{"):
            return p
        least, most = self.amount()
        if self.at == after:  # a brace that is no amount
            return p
        if self.peek() in ("*", "+", "{") or (self.found("?") and self.peek() in ("*", "+", "?", "{")):
            raise self.wrong("a repetition of a repetition")
        stop, parts = self.at, [p]
        for _ in range(1, max(least, 1 if most is None else most)):  # each copy is read again
            self.at = begin
            parts.append(self.atom())
        self.at = stop
        if most == 0:
            return self.empty()
        if most is None:
            last = parts[-1]
            self.a.freely_to[last.end].append((None, last.start))
        whole = self.join(parts)
        for k, part in enumerate(parts):
            if k >= least:
                self.a.freely_to[part.start].append((None, whole.end))
        return whole

    def amount(self) -> tuple[int, int | None]:
        """The least and the most repetitions (None: any number)."""
        sign = self.take()
        if sign != "{":
            return {"*": (0, None), "+": (1, None), "?": (0, 1)}[sign]
        body, brace, _ = self.text[self.at :].partition("}")
        low, comma, high = body.partition(",")
        if not brace or not _is_count(low) or not (_is_count(high) or not high):
            self.at -= 1
            return 1, 1
        if max(len(low), len(high)) > 9:
            raise self.wrong("a repetition of more than nine digits")
        least, most = int(low), int(high) if high else None if comma else int(low)
        if max(least, most or 0) > _MOST_REPEATS or (most is not None and most < least):
            raise self.wrong(f"a repetition of {{{body}}}")
        self.at += len(body) + 1
        return least, most

    def atom(self) -> _Piece:
        sign = self.take()
        if sign == "(":
            return self.group()
        if sign == "[":
            return self.bracket()
        if sign == "\\":
            return self.escape()
        if sign == ".":
            return self.one_of(_ASCII if self.any_line else _ASCII - {10}, beyond=True)
        if sign in "^$":
            return self.empty(sign)
        if sign in "*+?":
            raise self.wrong("a repetition of nothing")
        return self.join(self.one_of(frozenset([byte])) for byte in sign.encode())

    def group(self) -> _Piece:
        if self.found("?"):
            named = self.found("P<") or self.found("<")
            if named:
                name, _, _ = self.text[self.at :].partition(">")
                self.at += len(name) + 1
            if not name.isidentifier() if named else not self.found(":"):
                raise self.wrong("flags, or a group of an unknown kind,")
        p = self.choice()
        if not self.found(")"):
            raise self.wrong("a ( without its )")
        return p

    def escape(self) -> _Piece:
        sign = self.take()
        if sign in "AzbB":
            return self.empty({"A": "^", "z": "$"}.get(sign, sign))
        if sign.lower() in _CLASSES:
            taken = _CLASSES[sign.lower()]
            return self.one_of(taken) if sign.islower() else self.one_of(_ASCII - taken, beyond=True)
        return self.one_of(frozenset([self.byte(sign)]))

    def byte(self, sign: str) -> int:
        """The character of ASCII that stands behind a backslash."""
        if sign == "x":
            digits = self.take() + self.take()
            if not all(c in "0123456789abcdefABCDEF" for c in digits) or not 0 < int(digits, 16) < 128:
                raise self.wrong(f"the character \\x{digits}")
            return int(digits, 16)
        if sign in _SIGNS:
            return _SIGNS[sign]
        if not sign.isascii() or sign.isalnum():
            raise self.wrong(f"an unknown \\{sign}")
        return ord(sign)

    def bracket(self) -> _Piece:
        refused, taken, beyond, is_first = self.found("^"), set[int](), False, True
        while is_first or self.peek() != "]":
            is_first = False
            if self.found("[:"):
                name, _, _ = self.text[self.at :].partition(":]")
                if name.lstrip("^") not in _NAMED:
                    raise self.wrong(f"an unknown class [:{name[:20]}:]")
                self.at += len(name) + 2
                members = _NAMED[name.lstrip("^")]
                taken |= _ASCII - members if name.startswith("^") else members
                beyond |= name.startswith("^")
                continue
            sign = self.take()
            if sign == "\\" and self.peek().lower() in (*_CLASSES,):
                sign = self.take()
                taken |= _CLASSES[sign] if sign.islower() else _ASCII - _CLASSES[sign.lower()]
                beyond |= sign.isupper()
                continue
            low = high = self.member(sign)
            if self.peek() == "-" and self.text[self.at + 1 : self.at + 2] not in ("]", ""):
                self.take()
                high = self.member(self.take())
            if high < low:
                raise self.wrong("a range that ends before it begins")
            taken |= set(range(low, high + 1))
        self.take()
        return self.one_of(frozenset(_ASCII - taken if refused else taken), beyond != refused)

    def member(self, sign: str) -> int:
        if sign == "\\":
            return self.byte(self.take())
        if not sign.isascii() or sign == "\0":
            raise self.wrong("a class with a character beyond ASCII")
        return ord(sign)
