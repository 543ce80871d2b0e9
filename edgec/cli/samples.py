"""`edgec samples`: a folder of pictures or sounds as the arrays that other commands take."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from edgec import files
from edgec.cli.command import Answer, command
from edgec.errors import UsageError
from edgec.options import Settings
from edgec.report.progress import shown
from edgec.report.record import Record, head
from edgec.text import printable

if TYPE_CHECKING:
    from rich.console import RenderableType


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""

    @command(app)
    def samples(
        settings: Settings,
        model: Annotated[str, typer.Argument(metavar="MODEL", help="A model, or an edgec.toml.")],
        folder: Annotated[
            Path, typer.Argument(metavar="DIR", help="Pictures or WAV files, or a folder of each class.")
        ],
        out: Annotated[
            Optional[Path], typer.Option("--out", "-o", metavar="FILE", help="File to write: DIR.npz here.")
        ] = None,
        input: Annotated[
            Optional[str], typer.Option("--input", metavar="NAME", help="Input that they are for.")
        ] = None,
        most: Annotated[Optional[int], typer.Option("--most", min=1, help="Draw so many of them.")] = None,
        seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of the draw.")] = 0,
    ) -> Answer:
        """Make the arrays that --calibrate, --data, --retrain and --inputs take out of a folder of files."""
        from edgec import pipeline
        from edgec.media.folder import samples as gather
        from edgec.options import resolve
        from edgec.pipeline.context import Context

        place = out if out is not None else Path(f"{folder.resolve().name}.npz")
        if place.exists():
            hint = "name another one with -o, or remove it"
            raise UsageError("the file is there, so nothing was written", hint=hint, where=printable(str(place)))
        options = resolve(settings)
        graph = pipeline.run(model, Context(options), until="import")["import"]
        with shown() as progress:
            found = gather(graph, folder, options.way, input, most, seed, progress)
        files.replace(place, files.npz(found.arrays))
        named, file = (shlex.quote(str(p)) for p in (model, place))
        pre = f" --pre {shlex.quote(str(settings['pre']))}" if settings.get("pre") else ""
        then = [f"edgec build {named}{pre} --quantize int8 --calibrate {file}"]
        then += [f"edgec check {named}{pre} --data {file}"] if found.classes else []
        record = {
            **head("samples"), "model": model, "folder": str(folder), "file": str(place), "preparation": found.told,
            "arrays": {n: {"dtype": a.dtype.name, "shape": list(a.shape)} for n, a in found.arrays.items()},
            "classes": list(found.classes), "next": then,
        }  # fmt: skip
        return Answer(record, _draw)


def _draw(record: Record) -> RenderableType:
    from rich.markup import escape

    arrays = "\n".join(f"  {n}  {a['dtype']}{a['shape']}" for n, a in record["arrays"].items())
    classes = f"\n  labels of {len(record['classes'])} classes, in order of their names" if record["classes"] else ""
    lines = "\n".join(f"  {line}" for line in record["next"])
    return escape(f"{record['file']}  {record['preparation']}\n{arrays}{classes}\nnext\n{lines}")
