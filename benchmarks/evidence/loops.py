"""Bounds of every loop in the generated C of a network, as tools for worst-case execution times take them.

A line a loop: file, line, the most iterations of one entry, and the form that gives them:

- ``constant``: ``for (i = 0; i < 8; i += 2)``, exact unless the loop is left early;
- ``share``: tasks that threads divide; one thread alone has all of them;
- ``chunk``: tiles of one task, of which the last one may have fewer;
- ``lanes``: whole vectors of a row, at most one for each of its elements;
- ``open``: none of these, and no bound.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

#: Loops over what threads share, in the function that they are in.
_SHARE = re.compile(r"const ec_int first = (\d+) \* thread / threads, last = \1 \* \(thread \+ 1\) / threads;")
#: Tiles of a task of several.
_CHUNK = re.compile(r"const ec_int end = ec_min_int\(\(chunk \+ 1\) \* (\d+), (\d+)\);")
_LOOP = re.compile(r"\b(for|while|do|goto)\b")
_FOR = re.compile(r"for \((?P<begin>[^;]*); (?P<test>[^;]*); (?P<step>[^;)]*)\)")
_BEGIN = re.compile(r"(?:[\w ]+ )?(\w+) = (\w+)")
_STEP = re.compile(r"\+\+(\w+)|(\w+) \+= (\w+)")


@dataclass(frozen=True)
class Loop:
    """One loop; ``bound`` is None where its form is ``open``."""

    file: str
    line: int
    bound: int | None
    form: str

    def __str__(self) -> str:
        return f"{self.file}\t{self.line}\t{'' if self.bound is None else self.bound}\t{self.form}"


def loops(folder: Path, name: str) -> list[Loop]:
    """The loops of the network's own C in a built folder, in the order of files and lines."""
    files = [folder / f"{name}.c", *sorted(folder.glob(f"{name}_kernels_*.c"))]
    return [loop for path in files for loop in _of_file(path.name, path.read_text(encoding="utf-8"))]


def _of_file(file: str, text: str) -> Iterator[Loop]:
    shared, tiles = None, None
    comment = re.compile(r"/\*.*?\*/", re.DOTALL)
    plain = comment.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)
    for number, line in enumerate(plain.splitlines(), 1):
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
            bound, form = _bound(head, shared, tiles) if head is not None else (None, "open")
            yield Loop(file, number, bound, form)


def _bound(head: re.Match[str], shared: int | None, tiles: re.Match[str] | None) -> tuple[int | None, str]:
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
    if begin[2].isdigit() and test[1].isdigit() and pace.isdigit() and int(pace):
        return max(0, -(-(int(test[1]) - int(begin[2])) // int(pace))), "constant"
    return None, "open"
