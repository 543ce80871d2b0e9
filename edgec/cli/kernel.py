"""The command `edgec kernel`: one formula as a function."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Optional

import typer

from edgec.cli.command import Answer, command
from edgec.errors import UsageError
from edgec.options import Settings
from edgec.report.progress import shown


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""

    @command(app)
    def kernel(
        settings: Settings,
        formula: Annotated[str, typer.Argument(metavar="FORMULA", help="'f32 y[m,n] = sum(k) a[m,k] * b[k,n]'")],
        size: Annotated[
            Optional[list[str]], typer.Option("--size", metavar="INDEX=N,...", help="How far every index runs.")
        ] = None,
        out: Annotated[
            Optional[Path], typer.Option("--out", "-o", metavar="DIR", help="Folder to write to: kernel-edgec.")
        ] = None,
        compile: Annotated[bool, typer.Option("--compile/--no-compile", help="Compile the shared library too.")] = True,
    ) -> Answer:
        """Compile FORMULA to one function, without a network.

        Operands are the names that are no indices; their shapes follow. sum, prod, max and min combine the term behind
        them; a semicolon separates formulas.
        """
        from edgec import api
        from edgec.frontend.formula import graph_of
        from edgec.report import build as report

        sizes = sizes_of(size or ())
        unused = sorted(set(sizes) - set(re.findall(r"\w+", formula)))
        if unused:
            raise UsageError(f"there is no index '{unused[0]}'", hint="leave out its size", where="--size")
        graph: Any = graph_of(formula, sizes)  # what a build takes that starts behind the import
        folder = out if out is not None else Path("kernel-edgec")
        with shown() as progress:
            built = api.build(graph, folder, start="simplify", compile=compile, progress=progress, **settings)
        found = {**report.record(built), "budgets": [], "report": None, "next": []}
        return Answer(found, lambda r: report.draw(r, "the formula"))


def sizes_of(given: Sequence[str]) -> dict[str, int]:
    """Sizes by index, from texts like ``m=128,n=64``; raises UsageError for others."""
    found: dict[str, int] = {}
    for part in (p for text in given for p in text.split(",")):
        name, equals, number = (p.strip() for p in part.partition("="))
        if not equals or not name.isidentifier() or not number.isdecimal() or len(number) > 12:
            raise UsageError(f"'{part}' is no size of an index", hint="as in --size m=128,n=64", where="--size")
        if name in found:
            raise UsageError(f"'{name}' has two sizes", hint="give each index once", where="--size")
        found[name] = int(number)
    return found
