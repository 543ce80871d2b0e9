"""Tokenizer: the words of texts, or their letters, as scikit-learn's exporter takes texts apart."""

from __future__ import annotations

import re
from math import prod

import numpy as np

from edgec.frontend.onnx.call import Call, onnx
from edgec.frontend.onnx.operators.microsoft.domain import MICROSOFT
from edgec.frontend.onnx.operators.strings import cut
from edgec.frontend.onnx.regular import table
from edgec.frontend.onnx.strings import Strings, of_one_width, rows_of
from edgec.frontend.values import Value, constant, emit, iota, select

#: A pattern of one letter: a class, a kind, any, or the letter itself.
_LETTER = r"\[\^?\]?(?:\\.|\[:\w+:\]|[^\]\\])*\]|\\.|\.|[^\\\[\](){}*+?|^$.]"
#: That of a word: such letters, one, one or more, two or more, or some number of them or more.
_MORE = r"\+|\{\d+,\}|(?P=letter)\+"
_WORD = re.compile(rf"(?:\(\?u\))?(?P<start>\\b)?(?P<letter>{_LETTER})(?P<more>{_MORE})?(?P<end>\\b)?")
#: Bytes of UTF-8 behind the first one of a letter, and what begins letters of two to four bytes.
_BEHIND = slice(0x80, 0xC0)
_FIRST = (slice(0xC2, 0xE0), slice(0xE0, 0xF0), slice(0xF0, 0xF5))


@onnx("Tokenizer", domain=MICROSOFT)
def tokenizer(call: Call) -> Strings:
    """Tokens [.., D] of texts [..], of which the longest list has D; shorter ones end with ``pad_value``."""
    x = call.strings(0)
    if call.attribute("mark", 0):
        raise call.error("marks at the ends of texts are not supported", "export with mark=0")
    shortest = call.attribute("mincharnum", 1)
    pattern, separators = call.attribute("tokenexp", ""), call.attribute("separators", ())
    if pattern == "." or list(separators) == [""]:
        letters, apart = np.arange(256) > 0, True
    elif pattern:
        letters, fewest, apart = _word(call, pattern)
        shortest = max(shortest, fewest)
    else:
        letters, apart = np.arange(256) > 0, False
        for separator in separators:
            if not re.fullmatch(_LETTER, separator):
                raise call.error(f"the separator '{separator}' is not one letter", "take a tokenexp instead")
            letters &= ~_letters(call, separator)
    texts = Strings(x.rows.reshape(prod(x.shape), x.width))
    part, counts = _numbered(texts.rows, letters, apart)
    most = x.width if apart else (x.width + 1) // 2
    if shortest > 1:
        part, counts = _without_short(texts.rows, part, most, shortest)
    found = Strings(cut(texts, part, most))
    pad = Strings(constant(rows_of(np.array(call.attribute("pad_value", ""), object))))
    rows, padding = of_one_width([found, pad])
    is_there = iota(most, 1, 3) < counts.reshape(*counts.shape, 1, 1)
    rows = call.counted(select(is_there, rows, padding), counts.reduce("max", [0], keep=False), 1)
    return Strings(rows.reshape(*x.shape, rows.shape[1], rows.shape[2]))


def _word(call: Call, pattern: str) -> tuple[np.ndarray, int, bool]:
    """The bytes [256] of a pattern's letters, the fewest letters of a word, and whether each is a word of its own."""
    form = _WORD.fullmatch(pattern)
    if form is None or (bool(form["start"] or form["end"]) and form["letter"] != r"\w"):
        hint = "it takes letters of one kind, as [a-z]+, and a kind alone, as ."
        raise call.error(f"tokenexp '{pattern}' is not supported", hint)
    more = form["more"] or ""
    if (form["start"] or form["end"]) and not more:
        raise call.error(f"tokenexp '{pattern}' is not supported", "it takes words, as [a-z]+")
    fewest = int(more[1:-2]) if more.startswith("{") else 1 if more in ("", "+") else 2
    return _letters(call, form["letter"]), fewest, not more


def _letters(call: Call, pattern: str) -> np.ndarray:
    """Whether each byte [256] is of a letter that the pattern of one letter matches."""
    following, matches = table(pattern)
    is_one = matches[following[0]]
    beyond = []
    for behind, first in enumerate(_FIRST, 1):
        ends = following[0][first]
        for _ in range(behind):
            ends = np.unique(following[np.unique(ends)][:, _BEHIND])
        beyond.append(matches[ends])
    every = np.concatenate(beyond)
    if every.any() and not every.all():
        raise call.error(f"'{pattern}' tells letters beyond ASCII apart", "name ASCII letters alone")
    found = np.where(np.arange(256) < 128, is_one, every.all())
    found[0] = False
    return np.asarray(found, np.bool_)


def _numbered(rows: Value, letters: np.ndarray, apart: bool) -> tuple[Value, Value]:
    """For each byte [text, byte] the number of its token, -1 for none, and how many [text] there are."""
    inside = constant(letters).gather(rows.cast("i64"), 0)
    if apart:
        begins = inside & ((rows < 0x80) | (rows >= 0xC0))
    else:
        before = inside.cast("i64").pad([0, 1], [0, -1])
        begins = inside & before.equals(0)
    begun = emit("prefix", begins.cast("i64"), combine="add", axis=1, exclusive=False, reverse=False)
    return select(inside, begun - 1, -1), begun.reduce("max", [1], keep=False)


def _without_short(rows: Value, part: Value, most: int, shortest: int) -> tuple[Value, Value]:
    """Likewise, without tokens of fewer letters than ``shortest``."""
    begins = (rows < 0x80) | (rows >= 0xC0)
    mine = part.unsqueeze(1).equals(iota(most, 1, 3)) & begins.unsqueeze(1)
    stays = mine.cast("i64").sum([2], keep=False) >= shortest  # [text, token]
    numbers = emit("prefix", stays.cast("i64"), combine="add", axis=1, exclusive=False, reverse=False)
    placed = select(stays, numbers - 1, -1)
    own = emit("gather_elements", placed, select(part >= 0, part, 0), axis=1)
    return select(part >= 0, own, -1), numbers.reduce("max", [1], keep=False)
