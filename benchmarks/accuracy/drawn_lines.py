"""Lines of text for tokenizers, the same in every run: mixed scripts, emoji, all kinds of blanks; and broken UTF-8."""

from __future__ import annotations

import unicodedata

import numpy as np

_SCRIPTS = (
    (0x20, 0x7E), (0xA0, 0x24F), (0x370, 0x5FF), (0x600, 0x6FF), (0x900, 0xDFF), (0x1100, 0x11FF), (0x2000, 0x27BF),
    (0x3000, 0x30FF), (0x4E00, 0x9FFF), (0xAC00, 0xD7A3), (0x1F300, 0x1FAFF), (0x300, 0x36F), (0xFF00, 0xFFEF),
)  # fmt: skip
_WORDS = (
    "the", "of", "and", "I'm", "it's", "we'll", "they'VE", "2026", "12345", "3.14", "hello", "World", "naïve", "can't",
    "x++", "foo(bar)", "int main(void) {", "https://example.org/a?b=c", "\U0001f600", "\U0001f469\u200d\U0001f467",
    "①②Ⅷ", "٣٤", "Straße", "東京", "Привет", "नमस्ते",
)  # fmt: skip
_BLANKS = (" ", "  ", "\n", "\n\n", "\t", " \n ", "\r\n", "   \u3000", "\u00a0", "\u2028")


def lines(count: int) -> list[bytes]:
    """``count`` lines in UTF-8."""
    draw = np.random.default_rng(24)
    return [_line(draw).encode() for _ in range(count)]


def broken(count: int) -> list[bytes]:
    """``count`` lines with one to three bytes put somewhere that are no UTF-8."""
    draw = np.random.default_rng(42)
    found = []
    for raw in lines(count):
        at = int(draw.integers(0, len(raw) + 1))
        found.append(
            raw[:at] + draw.integers(0x80, 0x100, int(draw.integers(1, 4)), dtype=np.uint8).tobytes() + raw[at:]
        )
    return found


def _line(draw: np.random.Generator) -> str:
    out = ""
    for _ in range(int(draw.integers(1, 14))):
        kind = draw.random()
        if kind < 0.45:
            out += _WORDS[int(draw.integers(0, len(_WORDS)))]
        elif kind < 0.6:
            out += _BLANKS[int(draw.integers(0, len(_BLANKS)))] * int(draw.integers(1, 4))
        else:
            low, high = _SCRIPTS[int(draw.integers(0, len(_SCRIPTS)))]
            codes = map(chr, draw.integers(low, high + 1, int(draw.integers(1, 9))).tolist())
            out += "".join(c for c in codes if unicodedata.category(c) not in ("Cn", "Cs"))
        out += " " * int(draw.integers(0, 2))
    return out
