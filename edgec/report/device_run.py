"""Samples that were run on a device: the file with its outputs, and the time of each."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from rich.console import RenderableType
from rich.markup import escape

from edgec.report.record import Record, head
from edgec.report.terminal import duration, pairs
from edgec.text import counted


def record(path: str, outputs: Mapping[str, np.ndarray], milliseconds: list[float]) -> Record:
    """``path`` is the file that the outputs were written to."""
    shapes = {name: {"dtype": str(a.dtype), "shape": list(a.shape)} for name, a in outputs.items()}
    return {**head("device run"), "file": path, "outputs": shapes, "milliseconds": milliseconds}


def draw(found: Record) -> RenderableType:
    """The file, the shapes of the outputs and the median time."""
    rows: list[tuple[str, RenderableType]] = [("written to", escape(found["file"]))]
    for name, port in found["outputs"].items():
        rows.append(("output", escape(f"{name}: {port['dtype']}{port['shape']}")))
    times = sorted(found["milliseconds"])
    rows.append(("time", f"{duration(times[len(times) // 2])} a run, {counted(len(times), 'sample')}"))
    return pairs(rows)
