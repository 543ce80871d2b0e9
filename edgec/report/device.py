"""Facts of a device."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
    is_gpu = found["language"] != "c"
    return pairs(list(_rows({key: value for key, value in found.items() if key != "gpu" or is_gpu})))


def _rows(facts: Record, table: str = "") -> Iterator[tuple[str, RenderableType]]:
    """(name, text) of facts that are known; costs and figures that were measured are a line a table."""
    for key, value in facts.items():
        if isinstance(value, dict) and (key == "measured" or table == "costs"):
            value = ", ".join(f"{k} {v:g}" for k, v in value.items())
        elif isinstance(value, dict):
            yield from _rows(value, key)
            continue
        elif isinstance(value, (list, tuple)):
            value = " ".join(map(str, value))
        elif key.endswith("_bytes") and value and key != "vector_bytes":
            value = size(value)
        if value not in ("", 0, None):
            yield f"{table} {key}".lstrip(), escape(str(value))


def draw_list(records: Sequence[Record]) -> RenderableType:
    """A line a device."""
    drawn = table("device", "architecture", ">vectors", ">cores", "description")
    for r in records:
        drawn.add_row(r["name"], r["arch"], f"{r['vector_bytes']} B", str(r["cores"]), escape(r["description"]))
    return drawn
