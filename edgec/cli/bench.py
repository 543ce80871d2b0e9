"""The command `edgec bench`: times of a model, or of a network that was built before."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

from edgec.artifact.names import is_built, is_divided
from edgec.cli import divided
from edgec.cli import train as train_verb
from edgec.cli.command import Answer, Asked, command
from edgec.cli.shared import BuiltFrom, OrBuilt, Seconds, refuse_source
from edgec.errors import UsageError
from edgec.options import OPTIONS, Settings
from edgec.report.progress import shown


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""

    @command(app)
    def bench(
        settings: Settings,
        asked: Asked,
        model: OrBuilt = ".",
        vs: Annotated[
            Optional[str],
            typer.Option(
                "--vs",
                metavar="PEER",
                help="Time in turns with: onnxruntime, or litert; of a language model, with commas, "
                "llama.cpp[=FILE], onnxruntime-genai=DIR, openvino-genai[=PATH].",
            ),
        ] = None,
        inputs: Annotated[
            Optional[Path],
            typer.Option("--inputs", metavar="FILE", help="A sample to time on: .npz by input name, or .npy."),
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
        source: BuiltFrom = None,
        worker: divided.Workers = None,
    ) -> Answer:
        """Time what MODEL compiles to, alone or beside a peer; a built folder as it is."""
        from edgec.artifact.folder import read_lock
        from edgec.report import bench as bench_report

        if is_divided(model):
            if vs is not None:
                raise UsageError("a divided network is timed alone", hint="leave out --vs", where="--vs")
            return divided.bench_divided(model, settings, seconds, inputs, worker)
        refuse_source(source, model)
        if is_built(model):
            _refuse_changes(settings, model)
        if is_built(model) and read_lock(Path(model)).get("language_model"):
            from edgec.bench.language import bench_language_model, peers_of
            from edgec.report import language as language_report

            folder = Path(model)
            with shown() as progress:
                decoding = bench_language_model(
                    folder, prompt=prompt, tokens=tokens,
                    threads=settings.get("threads") or 1, rounds=3 if rounds is None else rounds,
                    peers=peers_of(vs or "", folder), python=python, progress=progress,
                )  # fmt: skip
            ok = not any(s.error for s in decoding.speeds)
            return Answer(language_report.record(decoding), language_report.draw, ok)
        if train_verb.is_training(model):
            return train_verb.bench_built(Path(model), vs, seconds, 5 if rounds is None else rounds, settings)
        for name, given in (("--prompt", prompt), ("--tokens", tokens), ("--python", python)):
            if given is not None:
                hint = "edgec build MODEL -o DIR, then edgec bench DIR"
                raise UsageError("is for the folder of a built language model", hint=hint, where=name)
        turns = 5 if rounds is None else rounds
        lock = read_lock(Path(model)) if is_built(model) else {}
        device = str(lock.get("device", settings["device"]))
        is_given = OPTIONS["threads"].long in asked
        if is_built(model) and vs is None:
            from edgec.bench.built import bench_built

            threads = int(settings["threads"] or 1 if is_given else lock.get("threads", 1))
            with shown() as progress:
                alone = bench_built(
                    Path(model), threads=threads, seconds=seconds, rounds=turns, progress=progress, inputs=inputs
                )
            return Answer(bench_report.record(alone, device), bench_report.draw)
        if vs is None and inputs is None:
            from edgec.bench.again import bench_again

            with shown() as progress:
                alone = bench_again(model, settings, seconds=seconds, rounds=turns, progress=progress)
            return Answer(bench_report.record(alone, device), bench_report.draw)
        from edgec import api

        if lock and is_given and settings["threads"] != lock.get("threads"):
            hint = f"leave it out: they are {lock.get('threads')}"
            raise UsageError("a peer is timed on the threads of the build", hint=hint, where="--threads")
        with shown() as progress:
            opened = api.reopen(model, source, progress=progress) if is_built(model) else None
            benched = api.bench(
                opened or model, vs=vs, inputs=inputs, seconds=seconds, rounds=turns, progress=progress,
                **(settings if opened is None else {}),
            )  # fmt: skip
        return Answer(bench_report.record(benched, device), bench_report.draw)


def _refuse_changes(settings: Settings, folder: str) -> None:
    """Raises UsageError for an option that a build cannot change."""
    for key, option in OPTIONS.items():
        if key != "threads" and settings.get(key, option.default) not in (option.default, None, (), {}):
            hint = f"edgec bench MODEL {option.long} ..., with the model's file"
            raise UsageError(f"{option.long} cannot be changed after the build", hint=hint, where=folder)
