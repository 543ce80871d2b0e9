"""The command `edgec bench`: times of a model, or of a language model that was built before."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

from edgec import api
from edgec.bench.language import bench_language_model, peers_of
from edgec.cli.command import Answer, command
from edgec.cli.config import is_built
from edgec.cli.shared import Seconds
from edgec.errors import UsageError
from edgec.options import Settings
from edgec.report import bench as bench_report
from edgec.report import language as language_report
from edgec.report.progress import shown


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""

    @command(app)
    def bench(
        settings: Settings,
        model: Annotated[
            str,
            typer.Argument(metavar="[MODEL]", help="A model, a folder with an edgec.toml, or a built language model."),
        ] = ".",
        vs: Annotated[
            Optional[str],
            typer.Option(
                "--vs",
                metavar="PEER",
                help="Time in turns with: onnxruntime, or litert; of a language model, with commas, "
                "llama.cpp[=FILE], onnxruntime-genai=DIR, openvino-genai[=PATH].",
            ),
        ] = None,
        seconds: Seconds = 2.0,
        rounds: Annotated[Optional[int], typer.Option(help="Turns each one gets: 5, or 3 of a language model.")] = None,
        prompt: Annotated[
            Optional[int], typer.Option(metavar="N", help="Tokens of the prompt of a built language model: 512.")
        ] = None,
        tokens: Annotated[
            Optional[int], typer.Option(metavar="N", help="Tokens that it generates after them: 128.")
        ] = None,
        python: Annotated[
            Optional[str], typer.Option("--python", metavar="PYTHON", help="The Python that has its peers.")
        ] = None,
    ) -> Answer:
        """Time what MODEL compiles to, alone or beside a peer; a built language model as it is."""
        if is_built(model):
            folder = Path(model)
            with shown() as progress:
                decoding = bench_language_model(
                    folder, prompt=prompt, tokens=tokens,
                    threads=settings.get("threads", 1), rounds=3 if rounds is None else rounds,
                    peers=peers_of(vs or "", folder), python=python, progress=progress,
                )  # fmt: skip
            ok = not any(s.error for s in decoding.speeds)
            return Answer(language_report.record(decoding), language_report.draw, ok)
        for name, given in (("--prompt", prompt), ("--tokens", tokens), ("--python", python)):
            if given is not None:
                hint = "edgec build MODEL -o DIR, then edgec bench DIR"
                raise UsageError("is for the folder of a built language model", hint=hint, where=name)
        with shown() as progress:
            turns = 5 if rounds is None else rounds
            benched = api.bench(model, vs=vs, seconds=seconds, rounds=turns, progress=progress, **settings)
        return Answer(bench_report.record(benched, str(settings["device"])), bench_report.draw)
