"""Devices of a farm: the error, the time and the problems of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.text import Text

from edgec.bench.farm import Outcome
from edgec.report.record import Record, head
from edgec.report.terminal import duration, table
from edgec.text import counted


def record(outcomes: Sequence[Outcome]) -> Record:
    """The outcome of every device; ``ok`` when all are right."""
    return {**head("device farm"), "ok": all(o.ok for o in outcomes), "devices": [asdict(o) for o in outcomes]}


def draw(found: Record) -> RenderableType:
    """A line a device, then the errors of those that were lost."""
    drawn = table("device", "", ">tuned", ">relative error", ">a run", ">took")
    for d in found["devices"]:
        verdict = "[green]ok[/]" if d["ok"] else "[red]lost[/]" if d["error"] else "[red]wrong[/]"
        error = "" if d["max_rel"] is None else f"{d['max_rel']:.1e}"
        time = "" if d["median_ms"] is None else duration(d["median_ms"])
        tuned = "" if d["measured"] is None else str(d["measured"])
        drawn.add_row(escape(d["place"]), verdict, tuned, error, time, f"{d['seconds']:.1f} s")
    lost = [Text(f"{d['place']}: {d['error']}", style="red") for d in found["devices"] if d["error"]]
    done = sum(d["ok"] for d in found["devices"])
    return Group(drawn, f"{done} of {counted(len(found['devices']), 'device')} are right", *lost)
