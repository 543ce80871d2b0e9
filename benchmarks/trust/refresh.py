"""The copy of the project brought up to date, with what is recorded of its lines: those that moved are followed."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

from benchmarks import ROOT
from benchmarks.trust.mutants import SOURCES

#: Folders beside those of the package that test runs read.
OTHERS = ("tests", "benchmarks", "codegen_templates", "devices", "docs", "apps")
_IGNORED = shutil.ignore_patterns("__pycache__")


def refresh(copy: Path, records: Path, root: Path = ROOT) -> None:
    """The copy as the project is now; records of test files that changed are forgotten."""
    moved = {name: moves(*texts) for name, texts in _changed(copy, root, SOURCES).items()}
    stale = {name.replace("/", "-").removesuffix(".py") for name in _changed(copy, root, ("tests",))}
    for path in records.glob("*.json"):
        if path.stem in stale:
            path.unlink()
        elif moved:
            record = json.loads(path.read_text(encoding="utf-8"))
            path.write_text(json.dumps(followed(record, moved)), encoding="utf-8")
    for name in (*SOURCES, *OTHERS):
        for gone in (p for p in (copy / name).rglob("*.py") if not (root / p.relative_to(copy)).is_file()):
            gone.unlink()
        if (root / name).is_dir():
            shutil.copytree(root / name, copy / name, ignore=_IGNORED, dirs_exist_ok=True, symlinks=True)


def moves(before: str, after: str) -> dict[int, int]:
    """The new number of each line that is still there."""
    old, new = before.splitlines(), after.splitlines()
    blocks = SequenceMatcher(None, old, new, autojunk=False).get_matching_blocks()
    return {block.a + k + 1: block.b + k + 1 for block in blocks for k in range(block.size)}


def followed(record: dict[str, Any], moved: Mapping[str, Mapping[int, int]]) -> dict[str, Any]:
    """A record of one test file with the lines where they are now."""
    lines = {
        file: {moved[file][int(n)]: tests for n, tests in by_line.items() if int(n) in moved[file]}
        if file in moved
        else by_line
        for file, by_line in record["lines"].items()
    }
    return {**record, "lines": lines}


def _changed(copy: Path, root: Path, folders: tuple[str, ...]) -> dict[str, tuple[str, str]]:
    """Files whose texts differ, relative to the project, with both texts; "" where one is not there."""
    found = {}
    for name in folders:
        paths = {p.relative_to(tree) for tree in (copy, root) for p in (tree / name).rglob("*.py")}
        for path in sorted(paths):
            texts = tuple(p.read_text(encoding="utf-8") if p.is_file() else "" for p in (copy / path, root / path))
            if texts[0] != texts[1]:
                found[path.as_posix()] = (texts[0], texts[1])
    return found
