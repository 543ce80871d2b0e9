"""The score of a network on labeled samples, and that of its reference."""

from __future__ import annotations

from dataclasses import asdict

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.text import Text

from edgec.check.score import Scored
from edgec.report.record import Record, head
from edgec.report.terminal import table, verdict
from edgec.text import counted


def record(scored: Scored) -> Record:
    """The score of every variant of the network, in percent."""
    return {**head("check"), **asdict(scored)}


def draw(found: Record) -> RenderableType:
    """Each variant as percent, and its distance from the first in points."""
    first = found["variants"][0]
    title = f"{found['metric']} of '{found['output']}' on {counted(found['samples'], 'sample')}, labels of "
    title += str(found["labels"])
    drawn = table("", ">percent", ">points", ">agrees", title=title)
    for v in found["variants"]:
        apart = "" if v is first else f"{v['value'] - first['value']:+.2f}"
        drawn.add_row(escape(v["name"]), f"{v['value']:.2f}", apart, f"{v['agrees']:.1f}%")
    notes = [Text(note, style="dim") for note in found["notes"]]
    return Group(drawn, *notes, "", verdict(found["ok"]))
