"""Tokens of the text of records, with the number of the line that each is on."""

from __future__ import annotations

import json
import re
from typing import NamedTuple, NoReturn

from edgec.errors import ModelError

_TOKEN = re.compile(
    r"""(?P<space>[ \t\r\n]+|\#[^\n]*) | (?P<string>"(?:[^"\\\n]|\\.)*") | (?P<node>\d*%(?:\w+|"(?:[^"\\\n]|\\.)*"))
        | (?P<part>\$\d+) | (?P<digest>@\w+) | (?P<number>\d+(?:\.\d+)?(?:e[+-]?\d+)?)
        | (?P<word>[A-Za-z_]\w*) | (?P<mark>//|==|!=|<=|>=|\.\.|[-+*/%<>()\[\]{},:=.|`])""",
    re.VERBOSE | re.ASCII,
)
#: Longer numbers are no sizes, offsets or floats.
_DIGITS = 64


class Token(NamedTuple):
    """One token: ``kind`` is string, node, part, digest, number, word, mark or end."""

    kind: str
    text: str
    line: int


class Tokens:
    """A position in the tokens of a text, whose first line has the number ``line``."""

    def __init__(self, text: str, line: int = 1) -> None:
        self.items: list[Token] = []
        self.position = 0
        place = 0
        while place < len(text):
            found = _TOKEN.match(text, place)
            if found is None:
                raise ModelError(f"cannot read '{text[place : place + 40].splitlines()[0]}'", where=f"line {line}")
            kind = str(found.lastgroup)
            if kind != "space":
                self.items.append(Token(kind, found[0], line))
            line += found[0].count("\n")
            place = found.end()
        self.end = Token("end", "the end of the text", line)

    @property
    def now(self) -> Token:
        return self.items[self.position] if self.position < len(self.items) else self.end

    def after(self, steps: int = 1) -> Token:
        """The token so many steps after this one."""
        place = self.position + steps
        return self.items[place] if place < len(self.items) else self.end

    def next(self) -> Token:
        token = self.now
        self.position += 1
        return token

    def is_at(self, text: str) -> bool:
        return self.now.kind in ("mark", "word") and self.now.text == text

    def accept(self, text: str) -> bool:
        found = self.is_at(text)
        self.position += found
        return found

    def expect(self, text: str) -> None:
        if not self.accept(text):
            raise self.error(f"expected '{text}' and found {shortened(self.now.text)}")

    def error(self, message: str) -> ModelError:
        """An error with the number of the present line."""
        return ModelError(message, where=f"line {self.now.line}")

    def fail(self, message: str) -> NoReturn:
        """Raise that error."""
        raise self.error(message)

    def string(self) -> str:
        if self.now.kind != "string":
            raise self.error(f"expected a string and found {shortened(self.now.text)}")
        return self.quoted(self.next().text)

    def quoted(self, text: str) -> str:
        try:
            return str(json.loads(text))
        except ValueError:
            raise self.error(f"cannot read the string {shortened(text)}") from None

    def word(self) -> str:
        if self.now.kind != "word":
            raise self.error(f"expected a word and found {shortened(self.now.text)}")
        return self.next().text

    def number(self) -> int | float:
        """A number, or ``inf`` or ``nan``, with or without a minus sign."""
        is_negative = self.accept("-")
        if self.now.text in ("inf", "nan") and self.now.kind == "word":
            value: int | float = float(self.next().text)
        elif self.now.kind == "number" and len(self.now.text) <= _DIGITS:
            text = self.next().text
            value = int(text) if text.isdigit() else float(text)
        else:
            raise self.error(f"expected a number and found {shortened(self.now.text)}")
        return -value if is_negative else value


def shortened(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:40]}..."
