"""Rows of the page on training steps, and the file that keeps them, so that a run goes on where another ended."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from edgec import files
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
    """The rows of a file, by network and batch."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.found: dict[tuple[str, int], Row] = {}
        if path is not None and path.is_file():
            for entry in json.loads(path.read_text()):
                self.found[entry["name"], entry["batch"]] = _row(entry)

    def put(self, row: Row) -> None:
        """Keep a row, in the file as well."""
        self.found[row.name, row.batch] = row
        if self.path is not None:
            files.replace(self.path, json.dumps([asdict(r) for r in self.found.values()], indent=1).encode())


def _row(entry: Mapping[str, Any]) -> Row:
    checked = TrainingChecked(**entry["checked"]) if entry["checked"] else None
    held = [Held(**{**h, "ms": {int(n): ms for n, ms in h["ms"].items()}}) for h in entry["held"]]
    return Row(**{**entry, "checked": checked, "held": held})
