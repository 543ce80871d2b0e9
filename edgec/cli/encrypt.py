"""`edgec encrypt`: the weights of a built folder, encrypted for delivery."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from edgec.cli.command import Answer, command
from edgec.report.record import Record, head

if TYPE_CHECKING:
    from rich.console import RenderableType


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""

    @command(app)
    def encrypt(
        folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder of edgec build --weights file.")],
        key: Annotated[Path, typer.Option("--key", metavar="FILE", help="A key: 32 bytes, or 64 hex digits.")],
    ) -> Answer:
        """Encrypt the weights of a build by AES-256, and write the C that opens them."""
        from edgec.artifact import encrypt as sealing

        made = sealing.encrypt(folder, key)
        sources = [str(path) for path in made.sources]
        return Answer({**head("encrypt"), "folder": str(folder), "file": str(made.file), "sources": sources}, _draw)


def _draw(record: Record) -> RenderableType:
    from rich.markup import escape

    told = f"opened by {', '.join(Path(path).name for path in record['sources'])}, with -lcrypto"
    return f"{escape(record['file'])}, {escape(told)}\n"
