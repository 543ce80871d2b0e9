"""The command `edgec tune`: times of kernels, measured and kept for the builds that follow."""

from __future__ import annotations

from typing import Annotated, Optional

import typer

from edgec.cli.command import Answer, command
from edgec.cli.shared import ModelPath
from edgec.errors import UsageError
from edgec.options import Settings
from edgec.report.progress import shown


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""

    @command(app)
    def tune(
        settings: Settings,
        model: ModelPath = ".",
        seconds: Annotated[float, typer.Option("--seconds", help="How long to measure at most.")] = 60.0,
        link: Annotated[
            Optional[str], typer.Option("--link", metavar="LINK", help="Measure there: 'device' is what its file says.")
        ] = None,
        trials: Annotated[
            Optional[int], typer.Option("--trials", min=1, help="Most variants of a matmul to measure on a CPU (64).")
        ] = None,
        seed: Annotated[Optional[int], typer.Option("--seed", min=0, help="Seed of those that are drawn (0).")] = None,
    ) -> Answer:
        """Measure the kernels that fusing MODEL has choices about, and keep their times in the profile database."""
        from edgec import api
        from edgec.report import tune as tune_report
        from edgec.tune.on_device import tune_on_device
        from edgec.tune.search import TRIALS

        if link is not None and (trials, seed) != (None, None):
            raise UsageError("variants over a link are all tried, none is drawn", hint="leave out --trials and --seed")
        with shown() as progress:
            if link is not None:
                done = tune_on_device(model, seconds, link=link, progress=progress, **settings)
            else:
                done = api.tune(model, seconds, seed=seed or 0, trials=trials or TRIALS, progress=progress, **settings)
        return Answer(tune_report.record(done), tune_report.draw)
