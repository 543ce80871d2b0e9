"""Networks over several devices on the command line: options of `build`, and `bench` and `check` of their folders."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Optional

import typer

from edgec.cli.command import Answer
from edgec.errors import UsageError
from edgec.options import OPTIONS, Settings
from edgec.report.progress import shown

_PANEL = "Several devices"

Over = Annotated[
    Optional[list[str]],
    typer.Option(
        "--over", metavar="DEVICE@LINK", rich_help_panel=_PANEL, help="Divide it: a worker, once for each (host@local)."
    ),
]
Gpus = Annotated[
    Optional[int],
    typer.Option("--gpus", metavar="N", rich_help_panel=_PANEL, help="Divide it between N GPUs of one machine (CUDA)."),
]
Split = Annotated[
    str,
    typer.Option(
        "--split", metavar="KIND", rich_help_panel=_PANEL,
        help="With --over: auto, pipeline, rows or tensor; with --gpus: auto, rows or tensor.",
    ),
]  # fmt: skip
Goal = Annotated[
    str,
    typer.Option("--goal", metavar="GOAL", rich_help_panel=_PANEL, help="With --over: for throughput, or for latency."),
]
Force = Annotated[
    bool,
    typer.Option("--force", rich_help_panel=_PANEL, help="With --over or --gpus: divide it even where that is slower."),
]
LinkSpeed = Annotated[
    Optional[str],
    typer.Option(
        "--link-speed", metavar="BITS[/MS]", rich_help_panel=_PANEL,
        help="With --over or --gpus: links of 1G or 100M/0.5 bits a second and milliseconds; else measured.",
    ),
]  # fmt: skip
Shard = Annotated[
    Optional[list[str]],
    typer.Option(
        "--shard", metavar="NODE=DIM", rich_help_panel=_PANEL,
        help="With --over: divide this dimension of a node's result; the rest follows.",
    ),
]  # fmt: skip
Memory = Annotated[
    Optional[str],
    typer.Option(
        "--memory", metavar="BYTES", rich_help_panel=_PANEL,
        help="With --over: most weights and arenas of a worker, as 64M or in bytes.",
    ),
]  # fmt: skip
Workers = Annotated[
    Optional[list[str]],
    typer.Option(
        "--worker", metavar="HOST:PORT", rich_help_panel=_PANEL,
        help="Of a divided network: where its workers listen, in order; else they are started here.",
    ),
]  # fmt: skip


def build_for_gpus(
    model: str, out: Path | None, gpus: int, settings: Settings, wanted: dict[str, Any], others: dict[str, Any]
) -> Answer:
    """The answer of `edgec build --gpus`; ``others`` are options that only other builds have."""
    from edgec.distribute.gpus import build_gpus
    from edgec.report import gpus as report

    for name, given in others.items():
        if given:
            raise UsageError("is not for several GPUs", hint="leave it out, or --gpus", where=name)
    folder = out if out is not None else Path(f"{Path(model).stem.lstrip('.') or 'model'}-edgec")
    with shown() as progress:
        built = build_gpus(model, folder, gpus=gpus, progress=progress, **wanted, **settings)
    return Answer(report.record(built), report.draw)


def build_divided(
    model: str, out: Path | None, over: list[str], settings: Settings, wanted: dict[str, Any], others: dict[str, Any]
) -> Answer:
    """The answer of `edgec build --over`; ``others`` are options that only an undivided build has."""
    from edgec.distribute.build import build_over
    from edgec.report import divided

    for name, given in others.items():
        if given:
            hint = "leave it out, or --over"
            raise UsageError("is for a network on one device", hint=hint, where=name)
    folder = out if out is not None else Path(f"{Path(model).stem.lstrip('.') or 'model'}-edgec")
    with shown() as progress:
        built = build_over(model, folder, over=over, progress=progress, **wanted, **settings)
    return Answer(divided.record(folder, built.manifest), divided.draw)


def refuse_alone(wanted: dict[str, Any]) -> None:
    """Raises UsageError for options of a division without one."""
    usual = {"split": "auto", "goal": "throughput", "force": False, "link_speed": None, "shard": (), "memory": None}
    for name, given in wanted.items():
        if given != usual.get(name, given):
            hint = "name the workers: --over host@local --over host@local, or give --gpus 2"
            raise UsageError("is for several devices", hint=hint, where=f"--{name.replace('_', '-')}")


def _threads(settings: Settings, folder: str) -> int:
    for key, option in OPTIONS.items():
        if key != "threads" and settings.get(key, option.default) not in (option.default, None, (), {}):
            hint = "edgec build MODEL --over host@local --over host@local"
            raise UsageError(f"{option.long} cannot be changed after the build", hint=hint, where=folder)
    return settings.get("threads") or 1


def bench_divided(
    folder: str, settings: Settings, seconds: float, inputs: Path | None, workers: list[str] | None
) -> Answer:
    """The answer of `edgec bench` of a divided network."""
    from edgec.distribute.bench import measure
    from edgec.distribute.coordinator import Several
    from edgec.report import divided
    from edgec.untrusted import read_arrays

    threads = _threads(settings, folder)
    given = read_arrays(inputs, narrow=True) if inputs is not None else None
    with shown() as progress, Several(folder, threads, addresses=workers or None) as network:
        if given is not None and set(given) == {""} and len(network.inputs) == 1:
            given = {network.inputs[0].onnx_name: given[""]}
        measured = measure(network, seconds, given, progress)
        return Answer(divided.bench_record(network.manifest, measured), divided.draw_bench)


def check_divided(
    folder: str,
    settings: Settings,
    workers: list[str] | None,
    **given: Any,
) -> Answer:
    """The answer of `edgec check` of a divided network."""
    from edgec.distribute.check import check_over
    from edgec.distribute.coordinator import Several
    from edgec.report import divided

    with Several(folder, _threads(settings, folder), addresses=workers or None) as network:
        checked = check_over(network, **given)
        return Answer(divided.check_record(checked, len(network.manifest.workers)), divided.draw_check, checked.ok)
