"""`edgec profiles`: the times of kernels that tuning measured."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from edgec.cli.command import Answer, CommandGroup, command

app = typer.Typer(cls=CommandGroup, help="Times of kernels, measured by edgec tune.", no_args_is_help=True)


@command(app, "list")
def list_profiles() -> Answer:
    """List every time in the profile database."""
    from edgec.report import profiles
    from edgec.tune.database import Profiles

    return Answer(profiles.listed(Profiles()), profiles.draw_list)


@command(app, "export")
def export_profiles(file: Annotated[Path, typer.Argument(metavar="FILE", help="JSON file to write.")]) -> Answer:
    """Write the profile database to FILE, for another machine or for safe keeping."""
    from edgec.artifact.folder import refuse_existing
    from edgec.report import profiles
    from edgec.tune.database import Profiles

    refuse_existing(file)
    return Answer(profiles.exported(Profiles(), file), profiles.draw_moved)


@command(app, "import")
def import_profiles(file: Annotated[Path, typer.Argument(metavar="FILE", help="What was exported.")]) -> Answer:
    """Take the times in FILE into the profile database."""
    from edgec.report import profiles
    from edgec.tune.database import Profiles

    return Answer(profiles.imported(Profiles(), file), profiles.draw_moved)


@command(app, "clear")
def clear_profiles() -> Answer:
    """Forget every time in the profile database."""
    from edgec.report import profiles
    from edgec.tune.database import Profiles

    return Answer(profiles.cleared(Profiles()), profiles.draw_moved)
