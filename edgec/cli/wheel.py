"""`edgec wheel`: a Python package of a built folder, for this system or another one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from edgec.cli.command import Answer, command
from edgec.report.record import Record, head

if TYPE_CHECKING:
    from rich.console import RenderableType


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""

    @command(app)
    def wheel(
        folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder that edgec build wrote.")],
        target: Annotated[
            str, typer.Option("--target", metavar="SYSTEM", help="manylinux, musllinux, macos or windows.")
        ] = "manylinux",
        out: Annotated[
            Optional[Path],
            typer.Option("--out", "-o", metavar="DIR", help="Folder for the wheel, if not that of the build."),
        ] = None,
    ) -> Answer:
        """Compile the C of a build for a system, and pack it into a wheel for pip."""
        from edgec.artifact import wheel as wheels

        made = wheels.wheel(folder, target, out)
        record = {**head("wheel"), "folder": str(folder), "file": str(made.file), "tag": made.tag, "needs": made.needs}
        return Answer(record, _draw)


def _draw(record: Record) -> RenderableType:
    from rich.markup import escape

    needs = f"; needs {record['needs']}" if record["needs"] else ""
    return f"{escape(record['file'])}{needs}\n"
