"""Facts of a device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from rich.console import RenderableType
from rich.markup import escape

from edgec.device.device import Device
from edgec.report.record import Record
from edgec.report.terminal import pairs, size, table


def record(found: Device) -> Record:
    """Every fact of the device file, and the figures that were measured."""
    return {**asdict(found), "measured": dict(found.measured)}


def draw(found: Record) -> RenderableType:
    """The facts that are known, a line each."""
    rows = []
    for key, value in found.items():
        if isinstance(value, (list, tuple)):
            value = " ".join(map(str, value))
        elif isinstance(value, dict):
            for name, figures in value.items() if key == "costs" else [("", value)]:
                text = ", ".join(f"{k} {v:g}" for k, v in figures.items())
                rows += [(f"{key} {name}".rstrip(), escape(text))] if text else []
            continue
        elif key.endswith("_bytes") and value and key != "vector_bytes":
            value = size(value)
        if value not in ("", 0, None):
            rows.append((key, escape(str(value))))
    return pairs(rows)


def draw_list(records: Sequence[Record]) -> RenderableType:
    """A line a device."""
    drawn = table("device", "architecture", ">vectors", ">cores", "description")
    for r in records:
        drawn.add_row(r["name"], r["arch"], f"{r['vector_bytes']} B", str(r["cores"]), escape(r["description"]))
    return drawn
