"""Probes: stretches of the package's functions that note that they ran, at hardly any cost in time.

`install` makes imports of the package put a statement before each stretch, a run of statements of which all execute if
the first does, as far as nothing raises. Line numbers stay as they are.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator
from functools import cache
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import Any

from benchmarks.trust.mutants import SOURCES

#: Stretches that there is room for.
ROOM = 1 << 18
#: The name of the flags of all stretches, which code finds among the builtins.
NAME = "__ran__"
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
#: Statements after which the next may not be reached, or that hold others.
_ENDING = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.Try, ast.With, ast.AsyncWith, ast.Match)


class Probes:
    """Flags of stretches, 1 where one ran, and the places of stretches: a file and its lines."""

    def __init__(self) -> None:
        self.ran = bytearray(ROOM)
        self.places: list[tuple[str, tuple[int, ...]]] = []

    def taken(self) -> frozenset[int]:
        """The stretches that ran since the last call."""
        found, at = [], self.ran.find(1)
        while at >= 0:
            found.append(at)
            at = self.ran.find(1, at + 1)
        self.ran[:] = bytes(ROOM)
        return frozenset(found)

    def mark(self, stretches: frozenset[int]) -> None:
        """Say that these ran."""
        for k in stretches:
            self.ran[k] = 1

    def compiled(self, source: bytes, path: str) -> Any:
        """The code of a file with its probes."""
        tree = ast.parse(source, path)
        for node in list(ast.walk(tree)):
            if isinstance(node, _FUNCTIONS):
                told = ast.get_docstring(node, clean=False) is not None
                node.body = [*node.body[:told], *self._probed(node.body[told:], path)]
        return compile(tree, path, "exec", dont_inherit=True)

    def _probed(self, body: list[ast.stmt], path: str) -> list[ast.stmt]:
        """The statements of a function or a block, each stretch with its probe."""
        found: list[ast.stmt] = []
        stretch: list[ast.stmt] = []
        for statement in body:
            stretch.append(statement)
            if isinstance(statement, _ENDING):
                found += [self._probe(stretch, path), *stretch]
                stretch = []
                for block in _blocks(statement):
                    block[:] = self._probed(block, path)
        return [*found, self._probe(stretch, path), *stretch] if stretch else found

    def _probe(self, stretch: list[ast.stmt], path: str) -> ast.stmt:
        self.places.append((path, tuple(sorted({line for s in stretch for line in _lines(s)}))))
        assert len(self.places) <= ROOM
        probe = ast.parse(f"{NAME}[{len(self.places) - 1}] = 1").body[0]
        for node in ast.walk(probe):
            ast.copy_location(node, stretch[0])
        return probe


@cache
def install(root: Path) -> Probes:
    """The probes of all files of the package of a project, from now on where they are imported."""
    roots = tuple(f"{root / source}/" for source in SOURCES)
    probes = Probes()
    setattr(builtins, NAME, probes.ran)
    plain = SourceFileLoader.get_code

    def probed(self: Any, fullname: str) -> Any:
        if not self.path.startswith(roots):
            return plain(self, fullname)
        return probes.compiled(self.get_data(self.path), self.path)

    SourceFileLoader.get_code = probed  # type: ignore[method-assign,assignment]
    return probes


def _blocks(statement: ast.stmt) -> Iterator[list[ast.stmt]]:
    """The lists of statements that a statement holds, but for the functions and classes it defines."""
    for name in ("body", "orelse", "finalbody"):
        if block := getattr(statement, name, None):
            yield block
    for part in (*getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
        yield part.body


def _lines(statement: ast.stmt) -> set[int]:
    """The lines of a statement that no other stretch has."""
    inner = {n for block in _blocks(statement) for s in block for n in range(s.lineno, (s.end_lineno or s.lineno) + 1)}
    first = min((d.lineno for d in getattr(statement, "decorator_list", ())), default=statement.lineno)
    own = set(range(first, (statement.end_lineno or first) + 1)) - inner
    return set(range(first, statement.body[0].lineno)) if isinstance(statement, _FUNCTIONS) else own
