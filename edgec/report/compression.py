"""Layers of a compressed network: the precision of each, its share of the error, and why others stayed floats."""

from __future__ import annotations

from dataclasses import asdict

from rich.console import RenderableType
from rich.markup import escape

from edgec.compress.report import Report
from edgec.report.record import Record
from edgec.report.terminal import table
from edgec.text import counted, printable

#: Layers that a terminal shows, of those with the largest errors.
SHOWN = 12


def record(report: Report | None) -> Record | None:
    """The precision, error and corrections of every layer; None for a network that was not compressed."""
    if report is None:
        return None
    layers = [{**asdict(row), "name": printable(row.name)} for row in report.layers]
    return {**asdict(report), "layers": layers}


def draw(found: Record) -> tuple[RenderableType, ...]:
    """Layers that stayed floats, with the reason, then those with the largest share of the error."""
    layers = found["layers"]
    int8, bf16 = (sum(row["precision"] == p for row in layers) for p in ("int8", "bf16"))
    title = f"{found['precision']}: {int8} of {counted(len(layers), 'layer')} in bytes"
    title += f", {bf16} in bf16" if bf16 else ""
    if found["max_loss"] is not None:
        title += f"; {found['max_loss'].partition('=')[0]} {found['value']:.4g}, at most {found['max_loss']}"
    title += "; calibrated on random inputs" if found["drawn"] else ""
    drawn = table("layer", "in", ">share of error", ">gain", "corrections, or why not", title=title)
    first = sorted(layers, key=lambda row: (not row["reason"], -row["share"]))
    for row in first[:SHOWN]:
        why = row["reason"] or ", ".join(row["corrections"])
        gain = f"{row['gain_us']:.1f} us"
        drawn.add_row(escape(row["name"]), row["precision"], f"{row['share']:.1%}", gain, escape(why))
    rest = [f"and {len(layers) - SHOWN} more (--json has them all)"] if len(layers) > SHOWN else []
    return (drawn, *rest)
