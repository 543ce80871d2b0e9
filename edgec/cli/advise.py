"""The command `edgec advise`: which options pay for a model on a device."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

from edgec.cli.command import Answer, Asked, command
from edgec.cli.shared import ModelPath
from edgec.options import Settings
from edgec.report.progress import shown


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""

    @command(app)
    def advise(
        settings: Settings,
        asked: Asked,
        model: ModelPath = ".",
        link: Annotated[
            Optional[str],
            typer.Option("--link", metavar="LINK", help="Check and time there: 'device' is what its file says."),
        ] = None,
        seconds: Annotated[float, typer.Option("--seconds", help="How long to try options, at most.")] = 300.0,
        out: Annotated[
            Optional[Path], typer.Option("--out", "-o", metavar="FILE", help="Write a page with a chart too (.html).")
        ] = None,
    ) -> Answer:
        """Try every option that MODEL may gain from on its device, and tell time, error and bytes of each.

        It names the command lines that no other one beats, the kernels that cost most, and changes of the model itself
        that would pay.
        """
        from edgec.advise.advise import advise as advised
        from edgec.artifact.folder import refuse_existing
        from edgec.report import advise as report

        if out is not None:
            refuse_existing(out)
        with shown() as progress:
            found = advised(model, link=link, seconds=seconds, progress=progress, **settings)
        record = {**report.record(found, asked), "model": model, "page": str(out) if out is not None else None}
        if out is not None:
            report.write(record, out)
        return Answer(record, report.draw)
