"""Entries of the zoo's catalog: one network each, by its source, exporter, operator set and variant."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

#: The seed of the draw that the page is of.
SEED = 23


@dataclass(frozen=True)
class Entry:
    """One network. ``model`` is its name at the source, ``variant`` what is done to the exported file."""

    source: str
    model: str
    family: str
    exporter: str
    opset: int = 0
    variant: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        parts = [self.source, self.model, self.exporter if self.opset else "", str(self.opset or ""), self.variant]
        stem = "-".join(p for p in parts if p).removesuffix(self.suffix)
        return stem.replace("/", "_").replace(":", "-")

    @property
    def base(self) -> Entry:
        """The entry whose file this one is a variant of."""
        return Entry(self.source, self.model, self.family, self.exporter, self.opset, "", self.settings)

    @property
    def suffix(self) -> str:
        return ".tflite" if self.model.endswith(".tflite") or self.exporter == "tflite" else ".onnx"


def save(entries: Iterable[Entry], path: Path) -> None:
    path.write_text("".join(json.dumps(asdict(e)) + "\n" for e in entries), encoding="utf-8")


def load(path: Path) -> list[Entry]:
    return [Entry(**json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]


def mixed(groups: Sequence[Sequence[Entry]]) -> list[Entry]:
    """All entries of all groups in an order of which every prefix has its share of each group.

    A group is shuffled; every family of it comes once before any comes twice.
    """
    ranked: list[tuple[float, int, Entry]] = []
    for number, group in enumerate(groups):
        chance = random.Random(f"{SEED} {number}")
        seen: dict[str, int] = {}
        shuffled = chance.sample(list(group), len(group))
        turns = [(seen.setdefault(e.family, 0), seen.update({e.family: seen[e.family] + 1})) for e in shuffled]
        order = sorted(range(len(shuffled)), key=lambda k: turns[k][0])
        ranked += [((place + 0.5) / len(group), number, shuffled[k]) for place, k in enumerate(order)]
    return [entry for _, _, entry in sorted(ranked, key=lambda r: r[:2])]
