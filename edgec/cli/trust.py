"""`edgec trust`: the user's word on an edgec.toml, and what it is about."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from edgec.cli import config, trusted
from edgec.cli.command import Answer, command
from edgec.report.record import Record, head

if TYPE_CHECKING:
    from rich.console import RenderableType


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""

    @command(app)
    def trust(
        folder: Annotated[
            Path, typer.Argument(metavar="DIR", help="A folder with an edgec.toml, or the file itself.")
        ] = Path(),
        revoke: Annotated[bool, typer.Option("--revoke", help="Take the trust back.")] = False,
    ) -> Answer:
        """Trust what an edgec.toml runs, reaches or writes outside of its folder, and show it."""
        found = config.load(folder)
        trusted.trust(found, not revoke)
        said = trusted.statements(found)
        return Answer({**head("trust"), "file": str(found.path), "trusted": not revoke, "lines": said}, _draw)


def _draw(record: Record) -> RenderableType:
    from rich.console import Group
    from rich.markup import escape

    from edgec.report.terminal import table

    if not record["lines"]:
        return f"nothing in {record['file']} needs trust\n"
    drawn = table("line", "value")
    for place, value in record["lines"].items():
        drawn.add_row(escape(place), escape(json.dumps(value, default=str)))
    said = "trusted are" if record["trusted"] else "no longer trusted are"
    return Group(f"{said} these lines of {escape(record['file'])}", "", drawn)
