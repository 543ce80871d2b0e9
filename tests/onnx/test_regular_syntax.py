"""Regular expressions: every class of characters, and drawn patterns beside Python's."""

from __future__ import annotations

import re
import string
from random import Random

import pytest

from edgec.frontend.onnx.regular import table

ASCII = [chr(code) for code in range(1, 128)]
#: The classes as the C library defines them.
NAMED = {
    "alpha": string.ascii_letters, "digit": string.digits, "alnum": string.ascii_letters + string.digits,
    "lower": string.ascii_lowercase, "upper": string.ascii_uppercase, "space": string.whitespace, "blank": " \t",
    "word": f"{string.ascii_letters}{string.digits}_", "xdigit": string.hexdigits, "punct": string.punctuation,
    "graph": string.ascii_letters + string.digits + string.punctuation,
    "print": f"{string.ascii_letters}{string.digits}{string.punctuation} ",
    "cntrl": "".join(c for c in ASCII if c not in f"{string.printable[:-5]}"),
}  # fmt: skip
#: As RE2 defines them: a vertical tab is no space here.
ESCAPED = {"d": string.digits, "w": NAMED["word"], "s": "\t\n\f\r "}
SIGNS = {r"\t": "\t", r"\n": "\n", r"\v": "\v", r"\f": "\f", r"\r": "\r", r"\a": "\a", r"\x7f": "\x7f", r"\x01": "\x01"}


def matched(pattern: str, word: str) -> bool:
    following, matches = table(pattern)
    return fits(following, matches, word)


def fits(following: object, matches: object, word: str) -> bool:
    state = 0
    for byte in word.encode():
        state = following[state][byte]  # type: ignore[index]
    return bool(matches[state])  # type: ignore[index]


@pytest.mark.parametrize("name", [*NAMED, *ESCAPED])
def test_a_class_has_these_characters_and_no_others(name: str) -> None:
    plain, other = (f"[:{name}:]", f"[:^{name}:]") if name in NAMED else (rf"\{name}", rf"\{name.upper()}")
    members = set({**NAMED, **ESCAPED}[name])
    rest = set(ASCII) - members
    for pattern, wanted in ((f"[{plain}]", members), (f"[{other}]", rest), (f"[^{plain}]", rest)):
        rows = table(pattern)
        assert {c for c in ASCII if fits(*rows, c)} == wanted, pattern
        assert fits(*rows, "é") == (wanted == rest), pattern


def test_signs_behind_a_backslash() -> None:
    for pattern, sign in SIGNS.items():
        assert [c for c in ASCII if matched(pattern, c)] == [sign], pattern
    for sign in string.punctuation:
        assert [c for c in ASCII if matched(f"\\{sign}", c)] == [sign]
    for letter, members in ESCAPED.items():
        assert {c for c in ASCII if matched(f"\\{letter}", c)} == set(members)
        assert {c for c in [*ASCII, "é"] if matched(f"\\{letter.upper()}", c)} == {*ASCII, "é"} - set(members)


def drawn(random: Random, depth: int = 3) -> str:
    """A pattern of all that Python's syntax shares."""
    kind = random.randrange(9 if depth else 4)
    if kind < 3:
        return random.choice(
            ["a", "b", "ab", ".", "[ab]", "[^b]", r"\w", r"\s", "[a-b0]", r"\b", r"\B", "^", "$", "é", "{"]
        )
    inner = drawn(random, depth - 1) if depth else "a"
    if kind < 5:
        return f"{inner}{drawn(random, depth - 1) if depth else 'b'}"
    if kind < 7:
        return f"(?:{inner}|{drawn(random, depth - 1)})"
    count = random.choice(["*", "+", "?", "*?", "{2}", "{1,}", "{0,2}", "{,2}", "{1,3}", "{0}"])
    return f"(?:{inner}){count}"


@pytest.mark.parametrize("seed", range(60))
def test_drawn_patterns_match_what_pythons_do(seed: int) -> None:
    random = Random(seed)
    pattern = drawn(random)
    python = re.compile(pattern.replace("{,2}", r"\{,2\}").replace("$", r"\Z").replace(r"\B", r"(?!\b)"), re.ASCII)
    rows = table(pattern)
    for _ in range(150):
        word = "".join(random.choice("aabb0_ é{\n") for _ in range(random.randrange(7)))
        assert fits(*rows, word) == (python.fullmatch(word) is not None), (pattern, word)


def test_the_bounds_of_what_is_supported() -> None:
    assert matched("a{1000}", "a" * 1000) and not matched("a{1000}", "a" * 999)
    assert matched("(" * 49 + "a" + ")" * 49, "a")
    assert matched("(?s).", "\n") and not matched(".", "\n") and matched("(?s)(?s).", "\n")
    assert matched(r"\x41", "A") and matched("[]a]", "]") and matched("[a-]", "-") and matched("a{,1}", "a{,1}")
    assert matched("(?P<n>a)(?<m>b)(?:c)", "abc") and matched("a|", "") and matched("", "")
