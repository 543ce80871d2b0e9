"""Bounds of every loop in the generated C of a network, as tools for worst-case execution times take them.

Those of the network's functions and of the functions of headers that they call, with the most iterations of one entry,
and the form that gives them:

- ``constant``: ``for (i = 0; i < 8; i += 2)``, exact unless the loop is left early;
- ``share``: tasks that threads divide; one thread alone has all of them;
- ``chunk``: tiles of one task, of which the last one may have fewer;
- ``lanes``: whole vectors of a row, at most one for each of its elements;
- ``vector``: the lanes of one vector;
- ``weights``: over all bytes of the weights;
- ``open``: none of these, and no bound.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

#: Loops over what threads share, in the function that they are in.
_SHARE = re.compile(r"const ec_int first = (\d+) \* thread / threads, last = \1 \* \(thread \+ 1\) / threads;")
#: Tiles of a task of several.
_CHUNK = re.compile(r"const ec_int end = ec_min_int\(\(chunk \+ 1\) \* (\d+), (\d+)\);")
_LOOP = re.compile(r"\b(for|while|do|goto)\b")
_FOR = re.compile(r"for \((?P<begin>[^;]*); (?P<test>[^;]*); (?P<step>[^;)]*)\)")
_BEGIN = re.compile(r"(?:[\w ]+ )?(\w+) = (\w+)")
_NAME = re.compile(r"[A-Za-z_]\w*")
_STEP = re.compile(r"\+\+(\w+)|(\w+) \+= (\w+)")


#: The head of a function at the beginning of a line, and of a macro.
_FUNCTION = re.compile(r"^\w[^\n;={}]*?\b(\w+)\((?:[^(){};]|\([^()]*\))*\)\s*\{", re.MULTILINE)
_MACRO = re.compile(r"^#\s*define (\w+)(.*(?:\\\n.*)*)", re.MULTILINE)
_TEXT = re.compile(r"/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"", re.DOTALL)
#: Operations and bytes in the comment before a kernel.
_WORK = re.compile(r"([\d.e+]+) ([kMG]?)FLOP, ([\d.e+]+) ([kMG]?)B: ")
_PREFIX = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9}
_LANES = re.compile(r"^#if EC_VL != (\d+)", re.MULTILINE)


@dataclass(frozen=True)
class Loop:
    """One loop; ``bound`` is None where its form is ``open``."""

    file: str
    line: int
    bound: int | None
    form: str
    function: str = ""

    def __str__(self) -> str:
        return f"{self.file}\t{self.line}\t{'' if self.bound is None else self.bound}\t{self.form}\t{self.function}"


def loops(folder: Path, sources: Sequence[str], weights_bytes: int = 0) -> list[Loop]:
    """The loops of sources in a built folder, and of functions of headers that they call, by file and line.

    ``weights_bytes`` are read by the loop that computes their hash.
    """
    own = {path: _plain((folder / path).read_text(encoding="utf-8")) for path in sources}
    headers = {path.name: _plain(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.h"))}
    told = [_LANES.search(text) for text in own.values()]
    known = {"EC_VL": next((int(found[1]) for found in told if found is not None), 1), "whole": weights_bytes}
    called = _called("\n".join(own.values()), list(headers.values()))
    found = [loop for path, text in own.items() for loop in _of_file(path, text, known)]
    inside = [loop for path, text in headers.items() for loop in _of_file(path, text, known)]
    return found + [loop for loop in inside if loop.function in called]


def work_of(text: str) -> dict[str, tuple[float, float]]:
    """(operations, bytes) of the kernels of a file by their functions, as the comments before them round them."""
    plain, found = _plain(text), {}
    marks = list(_WORK.finditer(text))
    for work, after in zip(marks, [*marks[1:], None]):
        functions = list(_FUNCTION.finditer(plain, work.end(), after.start() if after is not None else len(plain)))
        if functions:  # the last is the kernel, those before it are its parts
            found[functions[-1][1]] = (float(work[1]) * _PREFIX[work[2]], float(work[3]) * _PREFIX[work[4]])
    return found


def _plain(text: str) -> str:
    """The text with spaces for comments and strings, of the same lines."""
    return _TEXT.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)


def _called(text: str, headers: Sequence[str]) -> set[str]:
    """The functions and macros of headers that a text names, and those that these name in turn."""
    inside: dict[str, set[str]] = {}
    for header in headers:
        for head in _FUNCTION.finditer(header):
            body = header[head.end() :].partition("\n}")[0]
            inside.setdefault(head[1], set()).update(_NAME.findall(body))
        for macro in _MACRO.finditer(header):
            inside.setdefault(macro[1], set()).update(_NAME.findall(macro[2]))
    found, waiting = set[str](), set(_NAME.findall(text))
    while waiting:
        found |= waiting
        waiting = {name for known in waiting for name in inside.get(known, ())} - found
    return found


def _of_file(file: str, text: str, known: Mapping[str, int] = {}) -> Iterator[Loop]:
    shared, tiles, function = None, None, ""
    plain = _plain(text)
    heads_of = {plain.count("\n", 0, found.start()) + 1: found[1] for found in _FUNCTION.finditer(plain)}
    for number, line in enumerate(plain.splitlines(), 1):
        function = heads_of.get(number, function)
        if line.startswith("}"):
            shared, tiles = None, None  # the end of a function
        elif (found := _SHARE.search(line)) is not None:
            shared = int(found[1])
        elif (found := _CHUNK.search(line)) is not None:
            tiles = found
        if line.lstrip().startswith("#"):
            continue
        heads = {found.start(): found for found in _FOR.finditer(line)}
        for word in _LOOP.finditer(line):
            head = heads.get(word.start())
            bound, form = _bound(head, shared, tiles, known) if head is not None else (None, "open")
            yield Loop(file, number, bound, form, function)


def _bound(
    head: re.Match[str], shared: int | None, tiles: re.Match[str] | None, known: Mapping[str, int]
) -> tuple[int | None, str]:
    step = _STEP.fullmatch(head["step"])
    if step is None:
        return None, "open"
    name = step[1] or step[2]
    begin = _BEGIN.fullmatch(head["begin"])
    lanes = re.fullmatch(rf"{name} \+ EC_VL <= (\d+)", head["test"])
    if lanes is not None and step[3] == "EC_VL" and (not head["begin"] or (begin and begin[2].isdigit())):
        return int(lanes[1]), "lanes"
    if tiles is not None and step[1] and head["test"] == f"{name} < end":
        is_own = re.fullmatch(rf"(?:[\w ]+ )?{name} = chunk \* {tiles[1]}", head["begin"])
        return (min(int(tiles[1]), int(tiles[2])), "chunk") if is_own else (None, "open")
    test = re.fullmatch(rf"{name} < (\w+)", head["test"])
    if test is None or begin is None or begin[1] != name:
        return None, "open"
    if (begin[2], test[1]) == ("first", "last") and step[1]:
        return shared, "share" if shared is not None else "open"
    pace = step[3] or "1"
    if test[1] in known and begin[2].isdigit() and pace.isdigit() and int(pace):
        form = "vector" if test[1] == "EC_VL" else "weights"
        return max(0, -(-(known[test[1]] - int(begin[2])) // int(pace))), form
    if begin[2].isdigit() and test[1].isdigit() and pace.isdigit() and int(pace):
        return max(0, -(-(int(test[1]) - int(begin[2])) // int(pace))), "constant"
    return None, "open"
