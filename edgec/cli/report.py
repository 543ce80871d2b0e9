"""Commands to look at builds: `edgec report`, `edgec profile`, `edgec diff`, `edgec serve`."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from edgec.artifact.names import is_built
from edgec.cli.command import Answer, command, settings_of
from edgec.cli.shared import BuiltFrom, OrBuilt, Seconds, refuse_source
from edgec.options import Settings
from edgec.report.progress import shown
from edgec.report.record import Record, head

if TYPE_CHECKING:
    from rich.console import RenderableType

    from edgec.build import Built

Folder = Annotated[Path, typer.Argument(metavar="DIR", help="The folder of a build with a report, or its report.json.")]


def register(app: typer.Typer) -> None:
    """Add the commands to the command line."""

    @command(app)
    def report(folder: Folder = Path()) -> Answer:
        """Write report.html of a build that has a report.json; --json prints the whole document."""
        from edgec import files
        from edgec.report.document import read_document
        from edgec.report.document.build import PAGE
        from edgec.report.page import page

        found = read_document(folder)
        path = (folder.parent if folder.is_file() else folder) / PAGE
        files.replace(path, page(found))

        def draw(record: Record) -> RenderableType:
            return f"{path}\n"

        return Answer(found, draw)

    @command(app)
    def profile(
        settings: Settings,
        model: OrBuilt = ".",
        seconds: Seconds = 0.5,
        trace: Annotated[
            Optional[Path], typer.Option("--trace", metavar="FILE", help="Write it for Chrome's trace viewer.")
        ] = None,
        source: BuiltFrom = None,
    ) -> Answer:
        """Time every kernel of what MODEL compiles to, or of a built folder, in a run on one thread."""
        from edgec import api
        from edgec.cli.train import is_training
        from edgec.report import look
        from edgec.reuse import reopened_step

        refuse_source(source, model)
        with shown() as progress:
            opened: Built | None = None
            if is_training(model):
                opened = reopened_step(Path(model), settings, source, progress)
            elif is_built(model):
                opened = api.reopen(model, source, progress=progress, **settings)
            given: Settings = settings if opened is None else {}
            found = look.profile(opened or model, seconds=seconds, trace=trace, progress=progress, **given)
        return Answer(found, found.draw)

    @command(app)
    def serve(
        folder: Annotated[
            Path, typer.Argument(metavar="DIR", help="A folder with an edgec.toml, or of a build with a report.")
        ] = Path(),
        port: Annotated[int, typer.Option(help="Port on this machine; 0 takes a free one.")] = 0,
    ) -> Answer:
        """Show the report live: toggle decisions, build and measure again; they are kept in edgec.toml."""
        from edgec.serve.server import Server
        from edgec.serve.workbench import Workbench

        path = _configuration(folder)
        with shown() as progress:
            bench = Workbench(path, settings_of, progress)
        with Server(bench, port) as server:
            sys.stderr.write(f"{server.url}  (stop with Ctrl-C; decisions go to {path})\n")
            sys.stderr.flush()
            with contextlib.suppress(KeyboardInterrupt):
                server.serve_forever()
        bench.close()
        return Answer({**head("serve"), "file": str(path), "url": server.url}, lambda r: f"decisions are in {path}\n")

    @command(app, "diff")
    def compare(
        before: Annotated[Path, typer.Argument(metavar="BEFORE", help="The folder of a build with a report.")],
        after: Annotated[Path, typer.Argument(metavar="AFTER", help="The folder of another one.")],
        markdown: Annotated[bool, typer.Option("--markdown", help="Print Markdown, for a pull request.")] = False,
        html: Annotated[Optional[Path], typer.Option("--html", metavar="FILE", help="Write a page too.")] = None,
    ) -> Answer:
        """Compare two builds that have reports: kernels, bytes, latency, error, size."""
        from edgec import files
        from edgec.artifact.folder import refuse_existing
        from edgec.report import diff
        from edgec.report.document import read_document
        from edgec.report.page import diff_page

        if html is not None:
            refuse_existing(html)
        found = diff.diff(read_document(before), read_document(after))
        if html is not None:
            files.replace(html, diff_page(found))
        return Answer(found, diff.markdown if markdown else diff.draw)


def _configuration(folder: Path) -> Path:
    """The edgec.toml of a folder; one is written for a build that has a report and no such file yet."""
    from edgec import files
    from edgec.cli import config, toml_text
    from edgec.report.document import read_document

    path = folder if folder.suffix == ".toml" else folder / config.FILE
    if not path.is_file():
        said = read_document(folder)["settings"]
        files.replace(path, toml_text.dump(config.written(said)))
    return path
