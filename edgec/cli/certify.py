"""The command `edgec certify`: bounds and verdicts that hold for the code that runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

from edgec.cli.command import Answer, command
from edgec.cli.shared import OrBuilt
from edgec.errors import UsageError
from edgec.options import Settings
from edgec.report.progress import shown


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""

    @command(app)
    def certify(
        settings: Settings,
        model: OrBuilt = ".",
        inputs: Annotated[
            Optional[Path], typer.Option("--inputs", metavar="FILE", help="Inputs: .npz by input name, or .npy.")
        ] = None,
        eps: Annotated[
            Optional[str], typer.Option("--eps", metavar="DISTANCE", help="How far from them inputs may be, as 2/255.")
        ] = None,
        norm: Annotated[str, typer.Option("--norm", help="Of the distance: inf (any element), or 2.")] = "inf",
        within: Annotated[
            Optional[str], typer.Option("--within", metavar="LOW:HIGH", help="Numbers that inputs stay between.")
        ] = None,
        property: Annotated[
            Optional[Path], typer.Option("--property", metavar="FILE", help="A .vnnlib file instead.")
        ] = None,
        output: Annotated[
            Optional[str], typer.Option("--output", metavar="NAME", help="The output that has the classes.")
        ] = None,
        radius: Annotated[
            bool, typer.Option("--radius", help="Find the greatest distance that bounds hold for, too.")
        ] = False,
        against: Annotated[
            Optional[str],
            typer.Option("--against", metavar="float", help="Bound the difference from the model in real numbers."),
        ] = None,
        of_build: Annotated[bool, typer.Option("--build", help="The same as --against float.")] = False,
        box: Annotated[
            Optional[str],
            typer.Option("--box", metavar="FILE:DISTANCE", help="For --inputs and --eps in one, as x.npz:0.05."),
        ] = None,
        limit: Annotated[
            Optional[float], typer.Option("--limit", metavar="MOST", help="The difference that is allowed.")
        ] = None,
        any_order: Annotated[
            bool, typer.Option("--any-order", help="Count rounding for sums in any order, not in that of the code.")
        ] = False,
        seconds: Annotated[
            float, typer.Option("--seconds", help="How long to look for the verdict on one input or property, at most.")
        ] = 60.0,
        seed: Annotated[int, typer.Option("--seed", help="Where random inputs of an attack start.")] = 0,
        out: Annotated[
            Optional[Path], typer.Option("--out", "-o", metavar="FILE", help="Write inputs that violate it (.npz).")
        ] = None,
    ) -> Answer:
        """Prove for all inputs near given ones, or of a property, what the compiled MODEL may answer.

        Bounds count the rounding of the code; violations are inputs that were run in it.
        """
        from edgec.artifact.folder import refuse_existing
        from edgec.certify.counterexamples import save
        from edgec.certify.interface import certify as certified
        from edgec.report import certify as report

        if out is not None:
            refuse_existing(out)
            if out.suffix != ".npz":
                raise UsageError("inputs are written as .npz", hint=f"{out.stem}.npz", where="--out")
        with shown() as progress:
            found = certified(
                model, inputs=inputs, eps=eps, norm=norm, within=within, property=property, output=output,
                radius=radius, against="float" if of_build else against, box=box, limit=limit,
                any_order=any_order, seconds=seconds, seed=seed, progress=progress, **settings,
            )  # fmt: skip
        saved = save(found, out) if out is not None else None
        return Answer(report.record(found, saved), report.draw, found.ok)
