"""The table that the tokenizer in C reads: a vocabulary as arrays, hash tables and ranges of characters.

It is as `codegen_templates/language/ec_tokenizer.c` has it: a head of 32-bit words, then the arrays, each aligned to
four bytes, little-endian.
"""

from __future__ import annotations

import base64
import struct
import sys
import unicodedata
import zlib
from collections.abc import Callable, Iterable, Sequence
from functools import cache

import numpy as np

from edgec.errors import ModelError
from edgec.frontend.language.vocabulary import BYTE, CONTROL, UNUSED, USER, Vocabulary

MAGIC = 0x4B544345
_HEAD = 32
_NONE = 0xFFFFFFFF
#: What Unicode calls white space, beside the separators.
_SPACES = frozenset("\t\n\x0b\x0c\r\x85")


def table_of(vocabulary: Vocabulary) -> bytes:
    """The table of a vocabulary; raises ModelError where special tokens have no text."""
    v = vocabulary
    count = len(v.texts)
    starts = np.concatenate([[0], np.cumsum([len(t) for t in v.texts])])
    specials = [k for k, kind in enumerate(v.kinds) if kind in (CONTROL, USER) and v.texts[k]]
    specials.sort(key=lambda k: (-len(v.texts[k]), k))
    named = [k for k, kind in enumerate(v.kinds) if kind not in (CONTROL, BYTE, UNUSED) and v.texts[k]]
    flags = v.has_characters | v.prefix_space << 1 | v.adds_begin << 2 | v.whole_pieces << 3
    words = {
        0: MAGIC,
        2: count,
        3: flags,
        4: v.splitter,
        5: _or_none(v.begin),
        6: _or_none(v.end),
        7: _or_none(v.unknown),
    }
    data: list[bytes] = []
    size = 4 * _HEAD

    def add(field: int, content: bytes) -> None:
        nonlocal size
        words[field] = size
        padded = content + b"\0" * (-len(content) % 4)
        data.append(padded)
        size += len(padded)

    def add_ranges(field: int, name: str) -> None:
        ranges = _ranges(name)
        words[field + 1] = len(ranges)
        add(field, np.asarray(ranges, "<u4").tobytes())

    pairs, words[12] = _pair_table(v)
    texts, words[14] = _text_table(v.texts, named)
    add(8, starts.astype("<u4").tobytes())
    add(9, b"".join(v.texts))
    add(10, (np.asarray(v.byte_tokens, np.int64) & _NONE).astype("<u4").tobytes())
    add(11, pairs)
    add(13, texts)
    add(15, np.asarray(specials, "<u4").tobytes())
    words[16] = len(specials)
    for field, name in ((17, "letters"), (19, "numbers"), (21, "spaces")):
        add_ranges(field, name)
    add(23, bytes(v.kinds))
    ends = sorted({*v.ends, *(() if v.end is None else (v.end,))})
    add(24, np.asarray(ends, "<u4").tobytes())
    words[25] = len(ends)
    words[1] = size
    if size >= 1 << 31:
        raise ModelError(f"the vocabulary of {count} tokens is too large for a table")
    return struct.pack(f"<{_HEAD}I", *(words.get(k, 0) for k in range(_HEAD))) + b"".join(data)


def written(table: bytes) -> str:
    """A table as text, for the metadata of a graph."""
    return base64.b85encode(zlib.compress(table, 6)).decode("ascii")


def read(text: str) -> bytes:
    """The table that `written` wrote."""
    return zlib.decompress(base64.b85decode(text))


def _or_none(token: int | None) -> int:
    return _NONE if token is None else token


def _mixed(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The hash of pairs, as in C."""
    a, b = a.astype(np.uint64), b.astype(np.uint64)
    h = (a * 0x9E3779B1 & _NONE) ^ ((b * 0x85EBCA6B + 0x7F4A7C15) & _NONE)
    h ^= h >> np.uint64(15)
    h = h * 0x2C1B3C6D & _NONE
    return np.asarray(h ^ h >> np.uint64(13))


def _capacity(count: int) -> int:
    """A power of two that leaves half of a hash table free."""
    return 1 << max(1, (2 * count).bit_length())


def _slots(hashes: Iterable[int], capacity: int) -> list[int]:
    """The slot of every key in a table with linear probing."""
    taken = bytearray(capacity)
    found = []
    for h in hashes:
        at = int(h) & (capacity - 1)
        while taken[at]:
            at = (at + 1) & (capacity - 1)
        taken[at] = 1
        found.append(at)
    return found


def _pair_table(v: Vocabulary) -> tuple[bytes, int]:
    """Entries (left, right, rank, merged token), and the mask of a hash."""
    capacity = _capacity(len(v.pairs))
    entries = np.full((capacity, 4), _NONE, "<u4")
    if v.pairs:
        keys, values = np.array([*v.pairs], np.int64), np.array([*v.pairs.values()], np.int64)
        entries[_slots(_mixed(keys[:, 0], keys[:, 1]).tolist(), capacity)] = np.concatenate([keys, values], axis=1)
    return entries.tobytes(), capacity - 1


def _text_table(texts: Sequence[bytes], named: Sequence[int]) -> tuple[bytes, int]:
    """Tokens by the hash of their text; of two with one text, the first."""
    first: dict[bytes, int] = {}
    for k in named:
        first.setdefault(texts[k], k)
    capacity = _capacity(len(first))
    entries = np.full(capacity, _NONE, "<u4")
    entries[_slots(map(_fnv, first), capacity)] = [*first.values()]
    return entries.tobytes(), capacity - 1


def _fnv(text: bytes) -> int:
    h = 2166136261
    for byte in text:
        h = (h ^ byte) * 16777619 & _NONE
    return h


@cache
def _ranges(name: str) -> list[tuple[int, int]]:
    """Ranges of characters, from Python's own tables: both ends are in."""
    tests: dict[str, Callable[[str, str], bool]] = {
        "letters": lambda c, kind: kind[0] == "L",
        "numbers": lambda c, kind: kind[0] == "N",
        "spaces": lambda c, kind: kind[0] == "Z" or c in _SPACES,
    }
    found: list[tuple[int, int]] = []
    for code in range(sys.maxunicode + 1):
        c = chr(code)
        if tests[name](c, unicodedata.category(c)):
            if found and found[-1][1] == code - 1:
                found[-1] = found[-1][0], code
            else:
                found.append((code, code))
    return found
