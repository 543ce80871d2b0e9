"""Upper and lower case of letters in rows of UTF-8 bytes, a letter at a time as the C library changes them.

Letters of one and two bytes (Latin, Greek, Cyrillic, Armenian) are changed; of longer ones, those pass that have no
case: signs, most scripts of Asia, pictures.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np

from edgec.frontend.values import Value, constant, select

#: Code points of two bytes of UTF-8, and the first of those bytes.
_PAIRS, _LEAD = range(0x80, 0x800), 0xC2


def changed(rows: Value, action: str) -> Value:
    """Rows of bytes (u8) [.., width] in the case of ``action``, LOWER or UPPER."""
    first, second, _ = _tables(action)
    begin = 0x41 if action == "LOWER" else 0x61
    is_letter = (rows >= begin) & (rows < begin + 26)
    ascii_ = select(is_letter, rows + 32 if action == "LOWER" else rows - 32, rows)
    leads, code = _pairs(rows)
    before, code_before = (_moved(v, -1) for v in (leads.cast("u8"), code))
    second_byte = select(before > 0, constant(second).gather(code_before, 0), ascii_)
    return select(leads, constant(first).gather(code, 0), second_byte)


def is_possible(rows: Value, action: str) -> Value:
    """Whether [] the case of all letters in rows of bytes is known, and changes the length of none."""
    _, _, refused = _tables(action)
    leads, code = _pairs(rows)
    following = _moved(rows, 1)
    signs = rows.equals(0xE2) & (following < 0x84)
    scripts = rows.equals(0xE0) | ((rows >= 0xE3) & (rows < 0xEE) & (~rows.equals(0xEA) | (following >= 0xB0)))
    pictures = rows.equals(0xF0) & following.equals(0x9F)
    is_known = (rows < 0xE0) | signs | scripts | pictures
    return (is_known & ~(leads & constant(refused).gather(code, 0))).reduce("and", range(rows.rank), keep=False)


def _pairs(rows: Value) -> tuple[Value, Value]:
    """For each byte whether it begins a letter of two, and the letter's number (i64; 0 elsewhere)."""
    leads = (rows >= _LEAD) & (rows < 0xE0)
    code = (rows.cast("i64") - _LEAD) * 64 + (_moved(rows, 1).cast("i64") - 0x80)
    return leads, select(leads & (code >= 0) & (code < len(_PAIRS)), code, 0)


def _moved(rows: Value, by: int) -> Value:
    """What stands ``by`` places behind each element of the last dimension; 0 where there is nothing."""
    last = [0] * (rows.rank - 1)
    return rows.pad([*last, max(-by, 0)], [*last, max(by, 0)]).part(
        rows.rank - 1, max(by, 0), rows.shape[-1] + max(by, 0)
    )


@cache
def _tables(action: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The bytes of each letter of two bytes in another case (u8), and whether it has others than two there."""
    change: Callable[[str], str] = str.lower if action == "LOWER" else str.upper
    first, second = (np.zeros(len(_PAIRS), np.uint8) for _ in range(2))
    refused = np.zeros(len(_PAIRS), np.bool_)
    for k, code in enumerate(_PAIRS):
        letter = chr(code)
        other = change(letter)
        refused[k] = (len(other) == 1 and len(other.encode()) != 2) or letter == "\u0130"
        kept = letter if refused[k] or len(other) != 1 else other
        first[k], second[k] = kept.encode()
    return first, second, refused
