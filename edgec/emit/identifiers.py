"""C identifiers made from a model's own text."""

from __future__ import annotations

import re

_WORDS = """
alignas alignof and asm auto bitand bitor bool break case catch char class compl const constexpr continue decltype
default delete do double else enum explicit export extern false float for friend goto if inline int long mutable
namespace new noexcept not nullptr operator or private protected public register restrict return short signed sizeof
static struct switch template this throw true try typedef typeid typename typeof union unsigned using virtual void
volatile while xor
int8_t int16_t int32_t int64_t size_t uint8_t uint16_t uint32_t uint64_t
altivec eof errno i386 infinity linux mips nan null pixel sparc sun stderr stdin stdout unix vector
"""
#: What no variable can be called: words of C and C++, types, macros that are always there.
_TAKEN_WORDS = frozenset(_WORDS.split())
#: Names that a parameter of the network would share with variables beside it.
_NEIGHBORS = frozenset(["arena", "call", "pool", "session", "stream", "task", "thread", "threads", "weights"])


def identifier(text: str, taken: set[str], fallback: str, prefix: str = "EC") -> str:
    """A C identifier made from a model's own text, unique among ``taken``, that begins like nothing of the sources'."""
    name = re.sub(r"[^0-9A-Za-z]+", "_", text).strip("_")[:40] or fallback
    is_macro = re.fullmatch(r"[A-Z0-9_]+_(MAX|MIN|C|WIDTH)", name)  # of stdint.h
    is_ours = name.upper().startswith(("EC_", f"{prefix.upper()}_"))
    if not name[0].isalpha() or name.lower() in _TAKEN_WORDS | _NEIGHBORS or is_ours or is_macro:
        name = f"{fallback}_{name}"
    base, k = name, 2
    while name.upper() in taken:  # in capitals it is part of the names of macros
        name, k = f"{base}_{k}", k + 1
    taken.add(name.upper())
    return name


def is_free(name: str) -> bool:
    """Is a text in small letters an identifier that no macro, keyword or name of the runtime looks like?"""
    is_word = re.fullmatch(r"[a-z][a-z0-9_]*", name) is not None
    return is_word and name not in _TAKEN_WORDS and not name.startswith("ec_")
