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
#: What options of a division are where nobody gives them.
_USUAL = {
    "split": "auto", "goal": "throughput", "force": False, "link_speed": None, "shard": (), "memory": None,
    "no_overlap": False,
}  # fmt: skip

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
NoOverlap = Annotated[
    bool,
    typer.Option(
        "--no-overlap", rich_help_panel=_PANEL,
        help="With --gpus: the whole batch at once. With --over: no panels. No value crosses while kernels run.",
    ),
]  # fmt: skip
Workers = Annotated[
    Optional[list[str]],
    typer.Option(
        "--worker", metavar="HOST:PORT", rich_help_panel=_PANEL,
        help="Of a divided network: where its workers listen, in order; else they are started here.",
    ),
]  # fmt: skip


def build_divided(
    model: str, out: Path | None, over: list[str] | None, gpus: int | None, settings: Settings, wanted: dict[str, Any],
    others: dict[str, Any],
) -> Answer:  # fmt: skip
    """The answer of `edgec build --over` or `--gpus`; ``others`` are options that only an undivided build has."""
    folder = out if out is not None else Path(f"{Path(model).stem.lstrip('.') or 'model'}-edgec")
    if gpus is not None:
        usual = {"--shard": "shard", "--memory": "memory", "--goal": "goal"}
        of_workers = {option: wanted.pop(key) not in (_USUAL[key], None) for option, key in usual.items()}
        wanted["overlap"] = not wanted.pop("no_overlap")
        return _build_for_gpus(model, folder, gpus, settings, wanted, {"--over": over, **of_workers, **others})
    from edgec.distribute.build import build_over
    from edgec.report import divided

    wanted["overlap"] = not wanted.pop("no_overlap")
    _refuse(others, "is for a network on one device, or on several GPUs", "--over")
    with shown() as progress:
        built = build_over(model, folder, over=over or (), progress=progress, **wanted, **settings)
    return Answer(divided.record(folder, built.manifest, built.without_c), divided.draw)


def _build_for_gpus(
    model: str, folder: Path, gpus: int, settings: Settings, wanted: dict[str, Any], others: dict[str, Any]
) -> Answer:
    from edgec.distribute.gpus import build_gpus
    from edgec.report import gpus as report

    _refuse(others, "is not for several GPUs", "--gpus")
    with shown() as progress:
        built = build_gpus(model, folder, gpus=gpus, progress=progress, **wanted, **settings)
    return Answer(report.record(built), report.draw)


def _refuse(others: dict[str, Any], what: str, option: str) -> None:
    """Raises UsageError for options that are given and do not go with ``option``."""
    for name, given in others.items():
        if given:
            raise UsageError(what, hint=f"leave it out, or {option}", where=name)


def refuse_alone(wanted: dict[str, Any]) -> None:
    """Raises UsageError for options of a division without one."""
    for name, given in wanted.items():
        if given != _USUAL[name]:
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
