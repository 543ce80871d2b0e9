"""Rows of the page on training steps, and the file that keeps them, so that a run goes on where another ended."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from edgec.check.training import TrainingChecked


@dataclass(frozen=True)
class Held:
    """A training of one kind: its bytes as counted, as resident in a process of its own (0 where that was not
    measured), and the 10th percentile of a step in milliseconds by threads."""

    name: str
    bytes: int
    resident: int = 0
    ms: dict[int, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Row:
    """A network at a batch: its check over ``steps``, the losses of PyTorch in fp32, and what edgec and its peers take;
    or why it is not trained. ``curves`` are losses of edgec and of PyTorch, where they are drawn."""

    name: str
    batch: int
    checked: TrainingChecked | None = None
    steps: int = 0
    single: float = 0.0
    held: Sequence[Held] = ()
    refused: str = ""
    curves: Sequence[Sequence[float]] = ()

    @property
    def is_right(self) -> bool:
        return self.checked is not None and self.checked.ok


class Rows:
    """The rows of a file of JSON lines, by network and batch: those that ``code`` was measured for, the last of each.

    A row is written as soon as a part of it is measured; a line that a killed run left unfinished is passed over.
    """

    def __init__(self, path: Path | None, code: str) -> None:
        self.path, self.code = path, code
        self.found: dict[tuple[str, int], Row] = {}
        if path is None or not path.is_file():
            return
        text = path.read_text(encoding="utf-8")
        if text and not text.endswith("\n"):
            path.write_text(f"{text}\n", encoding="utf-8")
        for line in text.splitlines():
            try:
                entry = json.loads(line)
            except ValueError:
                continue
            if entry.pop("code") == code:
                self.found[entry["name"], entry["batch"]] = _row(entry)

    def put(self, row: Row) -> None:
        """Keep a row, in the file as well."""
        self.found[row.name, row.batch] = row
        if self.path is not None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"code": self.code, **asdict(row)}) + "\n")


def code_of(root: Path) -> str:
    """A digest of the compiler: the package, its rules, templates and devices."""
    found = hashlib.sha256()
    for folder in ("edgec", "rewrite_rules", "codegen_templates", "devices"):
        for path in sorted((root / folder).rglob("*")):
            if path.is_file() and path.suffix != ".pyc":
                found.update(f"{path.relative_to(root)}\n".encode() + path.read_bytes())
    return found.hexdigest()[:16]


def _row(entry: Mapping[str, Any]) -> Row:
    checked = entry["checked"] and TrainingChecked(**{**entry["checked"], "bounds": tuple(entry["checked"]["bounds"])})
    held = tuple(Held(**{**h, "ms": {int(n): ms for n, ms in h["ms"].items()}}) for h in entry["held"])
    return Row(**{**entry, "checked": checked, "held": held, "curves": tuple(entry["curves"])})
