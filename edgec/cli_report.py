"""Commands to look at builds: `edgec report`, `edgec diff`, `edgec serve`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import RenderableType

from edgec.command import Answer, command
from edgec.report.document import read_document
from edgec.report.document.build import PAGE
from edgec.report.page import page
from edgec.report.record import Record

Folder = Annotated[Path, typer.Argument(metavar="DIR", help="The folder of a build with a report, or its report.json.")]


def register(app: typer.Typer) -> None:
    """Add the commands to the command line."""

    @command(app)
    def report(folder: Folder = Path()) -> Answer:
        """Write report.html of a build that has a report.json; --json prints the whole document."""
        found = read_document(folder)
        path = (folder.parent if folder.is_file() else folder) / PAGE
        path.write_text(page(found), encoding="utf-8")

        def draw(record: Record) -> RenderableType:
            return f"{path}\n"

        return Answer(found, draw)
