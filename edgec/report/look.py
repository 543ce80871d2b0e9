"""The view inside, in Python: the content of a model, the history of a node, the time of every kernel."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgec import files, pipeline
from edgec.api import built_of, interface
from edgec.artifact.folder import read_lock, refuse_existing, refuse_gpus
from edgec.artifact.names import is_built
from edgec.build import Buildable, Built, build, read
from edgec.errors import UsageError
from edgec.frontend import source as reader
from edgec.options import Settings, resolve
from edgec.pipeline.context import Context
from edgec.progress import Progress, silent
from edgec.report import built as built_report
from edgec.report import explain as explain_report
from edgec.report import inspect as inspect_report
from edgec.report import launches, ledger, measure
from edgec.report import profile as profile_report
from edgec.report import step_profile as step_report
from edgec.report import trace as traces
from edgec.report.fit import fit
from edgec.report.record import Record, shown
from edgec.reuse import reopened_step

if TYPE_CHECKING:
    from rich.console import RenderableType
    from typing_extensions import Unpack

#: Columns of a record as a text.
WIDTH = 120


class Looked(dict[str, Any]):
    """The record of a command, as ``--json`` prints it; as a text it is what the command shows."""

    def __init__(self, record: Record, draw: Callable[[Record], RenderableType]) -> None:
        super().__init__(record)
        self.draw = draw

    def __str__(self) -> str:
        from rich.console import Console

        console = Console(file=io.StringIO(), width=WIDTH, highlight=False)
        console.print(self.draw(shown(dict(self))))
        return str(console.file.getvalue()).rstrip()  # type: ignore[attr-defined]

    __repr__ = __str__


@interface
def inspect(
    model: Buildable | Built,
    *,
    traffic: bool = False,
    counted: bool = False,
    kernels: bool = False,
    progress: Progress = silent,
    **settings: Unpack[Settings],
) -> Looked:
    """The content of a model: inputs, outputs, sizes, operators, and every operator that is not supported.

    ``traffic`` plans it too, for the bytes that each kernel moves, and ``counted`` runs it once for those that the
    counters of its NVIDIA GPU see; ``kernels`` compiles it for its GPU, for what each kernel takes of it. Of a build,
    or its folder, only what its lock file says. Raises ModelError for a file that is no model.
    """
    folder = _folder(model)
    if folder is not None:
        if counted:
            raise UsageError("bytes are counted of a model, not of a built folder", hint="name the model's file")
        return Looked(built_report.record(folder), built_report.draw)
    assert not isinstance(model, Built)
    options = resolve(settings)
    parsed = read(model)
    missing = reader.unsupported(parsed, options.operators)
    graph, problem = None, None
    if not missing:
        try:
            graph = pipeline.import_(parsed, Context(options))
        except UsageError as error:  # shapes are missing: what the file says can be shown all the same
            problem = error
    moved, memory = None, None
    if counted:
        measure.require_counters(options.device)
    if graph is not None and (traffic or counted or options.room):  # where memory is scarce, say whether it fits
        built = build(model, progress=progress, **(settings | {"name": "net"})) if counted else None
        run = built.stages if built else pipeline.run(parsed, Context(options, progress), until="schedule")
        moved = ledger.record(run) if traffic or counted else None
        memory = fit(run["schedule"], options.device, options.room, run.stripes)
        if built is not None and moved is not None:
            moved = ledger.with_counted(moved, *measure.gpu_counters(built, progress))
    found = inspect_report.record(parsed, graph, missing, problem, moved, memory)
    if kernels and graph is not None:
        rows = measure.gpu_kernels(pipeline.run(parsed, Context(options, progress)), progress)
        found |= {"kernels": rows, "resources": launches.totals([row["launch"] for row in rows])}
    return Looked(found, inspect_report.draw)


@interface
def explain(
    model: Buildable | Built, node: str | int, *, progress: Progress = silent, **settings: Unpack[Settings]
) -> Looked:
    """The history of a node of a model (or of a kernel, by its number, or a rule), and why.

    Raises UsageError where there is none of that name.
    """
    if isinstance(model, Built) or is_built(model):
        built = _of_one_device(built_of(model, progress, settings))
        parsed, run = built.parsed, built.stages
    else:
        parsed = read(model)
        run = pipeline.run(parsed, Context(resolve(settings), progress), until="schedule")
    if parsed is None:
        raise UsageError("the build began behind its model, whose nodes are explained", hint="build from the model")
    return Looked(explain_report.explain(run, parsed, str(node)), explain_report.draw)


@interface
def profile(
    model: Buildable | Built,
    *,
    seconds: float = 0.5,
    trace: str | Path | None = None,
    progress: Progress = silent,
    **settings: Unpack[Settings],
) -> Looked:
    """The time of every kernel of a network, built or to be built, in a run on one thread.

    ``trace`` is a file to write for Chrome's trace viewer. Of a training, it is the time of every kernel of a step.
    Raises UsageError for code of another machine.
    """
    if not seconds > 0:
        raise UsageError("nothing to time", hint="give it some seconds")
    if not isinstance(model, Built) and is_built(model) and "training" in read_lock(Path(str(model))):
        model, settings = reopened_step(Path(str(model)), settings, None, progress), {}
    if trace is not None:
        refuse_existing(Path(trace))
    built = _of_one_device(built_of(model, progress, settings))
    if built.program.training is not None:
        if trace is not None:
            raise UsageError("the profile of a step has no trace", hint="leave it out: --json has all", where="--trace")
        progress("report", "times")
        return Looked(step_report.record(built, seconds), step_report.draw)
    facts = measure.measure_times(built, progress, seconds)
    document = measure.describe(built, facts)
    if not facts["seconds"]:
        where = built.options.device.name
        if not built.program.kernels:
            raise UsageError("there is nothing to time", hint="no result has an element: give other shapes")
        raise UsageError(f"kernels for '{where}' cannot be timed here", hint="edgec device bench times them there")
    if trace is not None:
        files.replace(Path(trace), json.dumps(traces.trace(document)))
    return Looked(profile_report.record(document, Path(trace) if trace is not None else None), profile_report.draw)


def _of_one_device(built: Built) -> Built:
    """Raises UsageError for a network over several GPUs, whose kernels are not those of its plan for one."""
    refuse_gpus(built.folder)
    return built


def _folder(model: Buildable | Built) -> Path | None:
    if isinstance(model, Built):
        return model.folder
    return Path(str(model)) if is_built(model) else None
