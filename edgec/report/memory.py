"""Memory of a device, as a terminal shows it: bytes that a network needs of it (`edgec.report.fit`)."""

from __future__ import annotations

from rich.console import RenderableType
from rich.markup import escape
from rich.text import Text

from edgec.report.record import Record
from edgec.report.terminal import size


def draw_rows(record: Record) -> list[tuple[str, RenderableType]]:
    """Names and texts for `pairs`: RAM and flash, where the device's are known; stripes; the largest values."""
    rows: list[tuple[str, RenderableType]] = []
    for name, what in (("ram", "arena, inputs and outputs"), ("flash", "weights; code comes on top")):
        need = record[name]
        if need["fits"] is not None:
            text = f"{size(need['bytes'])} of {size(need['of'])}: {what}"
            mark = Text(text) if need["fits"] else Text(f"{text}: DOES NOT FIT", style="bold red")
            rows.append((name.upper() if name == "ram" else name, mark))
    if (stripes := record["stripes"]) is not None:
        until = "x".join(map(str, stripes["shape"]))
        more = f"{stripes['work'] - 1:.0%} more arithmetic, {size(stripes['ram_without'])} of RAM without"
        rows.append(("", f"in {stripes['count']} stripes up to {until}: {more}"))
    if record["ram"]["fits"] is False:
        for value in record["largest"]:
            rows.append(
                ("", f"{size(value['bytes'])} for what {escape(', '.join(value['nodes'])) or 'a border'} gives")
            )
    return rows
