"""The command `edgec train`: a network and the step that trains it, built, and trained here where data are given."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from edgec.artifact.names import is_built
from edgec.cli.command import Answer, Asked, command
from edgec.errors import UsageError
from edgec.options import Settings
from edgec.report.progress import shown
from edgec.report.record import Record
from edgec.text import counted

if TYPE_CHECKING:
    from rich.console import RenderableType

    from edgec.artifact.trainer import Trainer
    from edgec.build import Built


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""

    @command(app)
    def train(
        settings: Settings,
        asked: Asked,
        model: Annotated[
            str, typer.Argument(metavar="[MODEL]", help="An ONNX file, or a folder with an edgec.toml.")
        ] = ".",
        out: Annotated[Optional[Path], typer.Option("--out", "-o", metavar="DIR", help="Folder to write to.")] = None,
        compile: Annotated[bool, typer.Option("--compile/--no-compile", help="Compile the shared library too.")] = True,
        data: Annotated[
            Optional[Path],
            typer.Option("--data", metavar="FILE", help="Train here on it: an .npz of inputs, and target or labels."),
        ] = None,
        epochs: Annotated[int, typer.Option("--epochs", help="Times that the data are gone through.")] = 1,
        seed: Annotated[int, typer.Option("--seed", help="Where the order of samples starts.")] = 0,
        write_onnx: Annotated[
            Optional[Path], typer.Option("--write-onnx", metavar="FILE", help="Write the trained network as ONNX.")
        ] = None,
        write_adapter: Annotated[
            Optional[Path], typer.Option("--write-adapter", metavar="DIR", help="Write adapters (lora=R) as PEFT does.")
        ] = None,
    ) -> Answer:
        """Build MODEL with a step that trains it (--loss), and train it where --data are given."""
        from edgec import api
        from edgec.artifact.folder import read_lock, refuse_existing
        from edgec.artifact.trainer import Trainer
        from edgec.report import build as build_report
        from edgec.report import next_steps

        if settings.get("loss") is None:
            raise UsageError("what is to be trained is not said", hint="give --loss cross_entropy, or another loss")
        for option, written in (("--write-onnx", write_onnx), ("--write-adapter", write_adapter)):
            if written is not None:
                refuse_existing(written)
                if data is None:
                    raise UsageError("nothing is trained without data", hint="give --data FILE.npz", where=option)
        if write_adapter is not None and not str(settings.get("update", "all")).startswith("lora"):
            raise UsageError("no adapter is trained", hint="give --update lora=8", where="--write-adapter")
        folder = out if out is not None else Path(f"{Path(model).stem.lstrip('.') or 'model'}-edgec")
        with shown() as progress:
            built = api.build(model, folder, compile=compile, progress=progress, **settings)
            losses: list[float] = []
            if data is not None:
                with Trainer(_compiled(built), built.options.threads) as trainer:
                    losses = trainer.fit(data, epochs=epochs, seed=seed, progress=progress).losses
                    if write_onnx is not None:
                        trainer.export_onnx(write_onnx)
                    if write_adapter is not None:
                        trainer.save_adapter(write_adapter)
        found = {**build_report.record(built), "command": "train", "budgets": [], "report": None}
        facts = read_lock(folder)["training"]
        kept = ("loss", "update", "optimizer", "trained", "samples", "state_bytes", "arena_bytes", "kernels")
        found["training"] = {**{k: facts[k] for k in kept}, "losses": losses}
        found["next"] = [s for s in next_steps.steps(found, asked, (), "import", built.peer) if s["for"] == "use in C"]
        found["next"].append({"for": "in Python", "command": f"edgec.load({str(folder)!r}).fit(...)"})
        return Answer(found, lambda r: _draw(r, model))


def _compiled(built: Built) -> Path:
    """The folder of a build that runs here. Raises UsageError for one that was not compiled."""
    if built.compiler is None:
        raise UsageError("code that is not compiled trains nothing here", hint="leave out --data, or --no-compile")
    return built.folder


def _draw(found: Record, model: str) -> RenderableType:
    """The build, then what is trained."""
    from rich.console import Group

    from edgec.report import build as build_report
    from edgec.report.terminal import pairs, size

    training = found["training"]
    rows: list[tuple[str, RenderableType]] = [
        ("loss", training["loss"]),
        ("optimizer", training["optimizer"]),
        ("trained", f"{training['update']}: {training['trained']}"),
        ("state", f"{size(training['state_bytes'])} of trained weights and moments"),
        ("samples", f"{training['samples']} in a step"),
        ("step", f"{counted(training['kernels'], 'kernel')}, arena of {size(training['arena_bytes'])}"),
    ]
    if training["losses"]:
        rows.append(("mean loss", " ".join(f"{loss:.4f}" for loss in training["losses"])))
    return Group(build_report.draw(found, model), "", "training step", pairs(rows))


def check_built(folder: Path, vs: str | None, steps: int, seed: int, settings: Settings) -> Answer:
    """Check the step of a built folder."""
    from edgec.check.training import check_training
    from edgec.report import training as training_report

    with shown() as progress, _opened(folder, settings) as trainer:
        found = check_training(trainer, vs=vs, steps=steps, seed=seed, progress=progress)
    return Answer(training_report.checked(found, folder), training_report.draw_checked, found.ok)


def bench_built(folder: Path, vs: str | None, seconds: float, rounds: int, settings: Settings) -> Answer:
    """Time the step of a built folder."""
    from edgec.bench.training import bench_training
    from edgec.report import training as training_report

    threads = int(settings.get("threads") or 1)
    with shown() as progress, _opened(folder, settings) as trainer:
        found = bench_training(
            trainer, vs=vs, threads=threads, seconds=seconds, rounds=rounds, seed=0, progress=progress
        )
    return Answer(training_report.benched(found, folder), training_report.draw_benched)


def is_training(given: str) -> bool:
    """True for a folder that was built with a training step."""
    if not is_built(given):
        return False
    from edgec.artifact.folder import read_lock

    return "training" in read_lock(Path(given))


def _opened(folder: Path, settings: Settings) -> Trainer:
    from edgec.artifact.trainer import Trainer

    return Trainer(folder, int(settings.get("threads") or 1))
