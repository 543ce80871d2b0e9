"""A fitted device: its costs, and how well they foretell kernels that were left out."""

from __future__ import annotations

from dataclasses import asdict

from rich.console import Group, RenderableType
from rich.markup import escape

from edgec.report.record import Record, head
from edgec.report.terminal import table
from edgec.text import counted
from edgec.tune.fit.fit import Fitted


def record(done: Fitted) -> Record:
    """Everything that is known of the fit; errors are fractions."""
    found = {**asdict(done), "file": str(done.file), "record": str(done.record)}
    return {**head("device fit"), **found, "kept": list(done.kept)}


def draw(found: Record) -> RenderableType:
    """The errors before and after, the constants, and what stays to be done."""
    drawn = table("on kernels left out", ">before", ">fitted")
    before, after = found["before"], found["after"]
    for key, words in (
        ("median", "price off, median"),
        ("ninth", "price off, nine in ten below"),
        ("tiles", "time lost to tiles"),
    ):
        if after[key] is not None:
            drawn.add_row(words, f"{100 * before[key]:.0f} %", f"{100 * after[key]:.0f} %")
    costs = table("cost", ">fitted")
    for name, values in found["costs"].items():
        for key, value in values.items():
            costs.add_row(escape(f"{name}.{key}"), f"{value:g}")
    lines = [f"{found['kernels']} kernels timed in {found['seconds']:.0f} s, {found['held_out']} of them left out"]
    if found["left"]:
        lines.append(f"{counted(found['left'], 'network')} not timed for lack of time: more --seconds")
    if found["kept"]:
        lines.append(f"no kernel tells anything of {', '.join(found['kept'])}")
    lines += [f"the device file is {found['file']}", f"its times are in {found['record']}"]
    return Group(drawn, costs, *map(escape, lines))
