"""The report of a build: measurements for it, and its two files in the folder of the build."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, TypedDict

import numpy as np

from edgec import api, files
from edgec.bench import counters
from edgec.bench.profile import kernel_seconds, launch_seconds
from edgec.bench.timing import Benched
from edgec.build import Built
from edgec.certify.interface import certify as api_certify
from edgec.check.fidelity import Fidelity, fidelity
from edgec.check.network import Checked
from edgec.check.unavailable import Unavailable
from edgec.compress.calibrate import RANDOM, samples
from edgec.device.compilers import runs_here
from edgec.device.cuda import compile_cuda, pick_cuda_compiler
from edgec.device.device import Device
from edgec.emit.language import language_of
from edgec.emit.source import generate
from edgec.errors import CheckError, UsageError
from edgec.execute.samples import random_inputs
from edgec.frontend.language.facts import facts_of
from edgec.options.budgets import Budget
from edgec.pipeline.run import Run
from edgec.progress import Progress, silent
from edgec.report.budget import needs
from edgec.report.document import document, write_document
from edgec.report.document.build import PAGE
from edgec.report.kernels import kernel_record
from edgec.report.launches import launch
from edgec.report.page import page
from edgec.report.record import Record

#: Seconds that a network is timed for, as a whole and kernel by kernel.
SECONDS = 0.5
#: Seconds that the counters of a GPU may take: to begin, and for each launch.
BEGINS, LAUNCH = 120.0, 2.0


class Facts(TypedDict):
    """Measurements of a build: as a whole, kernel by kernel, against its reference, and on the data of its calibration;
    None or empty if not made."""

    benched: Benched | None
    seconds: list[float | None]
    checked: Checked | None
    fidelity: Fidelity | None


def require_counters(device: Device) -> None:
    """Raises UsageError for a device without counters that are read here, ToolchainError without Nsight Compute."""
    if device.language != "cuda":
        raise UsageError(
            f"'{device.name}' has no counters that are read here", hint="--device cuda_sm90 is an NVIDIA GPU"
        )
    counters.profiler()


def gpu_counters(built: Built, progress: Progress = silent) -> tuple[list[counters.Counted], int]:
    """Bytes of every launch of one run on drawn inputs by the GPU's counters, and of weights that are fetched ahead.

    The network is built as "net". Raises ToolchainError without Nsight Compute, DeviceError without a GPU.
    """
    progress("count")
    with tempfile.TemporaryDirectory(prefix="edgec-") as scratch:
        inputs = Path(scratch) / "inputs.npz"
        np.savez(inputs, *random_inputs(built.stages.graph, 0).values())
        kernels = built.program.kernels
        return counters.count(built.folder, inputs, BEGINS + LAUNCH * len(kernels)), counters.prefetched(kernels)


def gpu_kernels(run: Run, progress: Progress = silent) -> list[Record]:
    """Resources of the GPU that every kernel needs, compiled but not linked; ``run`` came as far as emitting.

    Raises UsageError for a device without kernels of its own to compile, ToolchainError where there is no nvcc.
    """
    options, project = run.context.options, run["emit"]
    device = options.device
    if device.language != "cuda":
        raise UsageError(f"'{device.name}' is no GPU whose kernels are compiled here", hint="--device jetson is one")
    compiler = pick_cuda_compiler(device, options.compiler)
    calls = generate(project.program, options.name, options.templates, language_of(device)).calls
    with tempfile.TemporaryDirectory(prefix="edgec-") as folder:
        for path, content in project.files.items():
            if Path(path).suffix in (".cu", ".h"):
                Path(folder, path).write_bytes(content)
        kernels = [Path(folder, path) for path in project.files if fnmatch(path, "*_kernels_*.cu")]
        found = compile_cuda(compiler, device, kernels, Path(folder), link=False, progress=_compiling(progress))
    said = {report.name: report for report in found}
    rows = []
    for number, call in enumerate(calls):
        row = launch(call, project.program, device, said)
        rows.append({"kernel": number, **kernel_record(call.kernel), "launch": row})
    return rows


def _compiling(progress: Progress) -> Callable[[Path, int, int], None]:
    return lambda path, done, of: progress("compile", path.name, done / of)


def measure(
    built: Built,
    budgets: Sequence[Budget] = (),
    everything: bool = True,
    progress: Progress = silent,
    seconds: float | None = None,
) -> Facts:
    """Time and check a build where its code runs here: everything, or what its budgets are about.

    ``seconds`` is how long the network is timed, and again its kernels (`SECONDS`).
    """
    seconds = SECONDS if seconds is None else seconds
    facts = Facts(benched=None, seconds=[], checked=None, fidelity=None)
    runs = built.compiler is not None and runs_here(built.options.device, built.options.compiler)
    if runs and (everything or needs(budgets, "latency_ms")):
        progress("report", "times")
        facts["benched"] = _timed(built, seconds, everything, progress)
        if built.options.device.language == "c" and not built.program.parts:
            facts["seconds"] = kernel_seconds(built, seconds)
        elif built.options.device.is_gpu and not built.program.parts:
            facts["seconds"] = launch_seconds(built)
    if everything or needs(budgets, "max_error"):
        progress("report", "errors")
        alone = built.options.device.language == "c" and not built.program.parts
        facts["checked"] = api.check(built, inputs=_real(built), samples=1, blocks=alone, progress=progress)
    if everything:
        progress("report", "fidelity")
        facts["fidelity"] = fidelity(built)
    return facts


def _timed(built: Built, seconds: float, with_peer: bool, progress: Progress) -> Benched:
    """Times in turns with the runtime of the model's own format, where it is here and gives the same; else alone."""
    if with_peer and built.options.device.language == "c" and facts_of(built.graph) is None:
        try:
            return api.bench(built, vs=built.peer, seconds=2 * seconds, progress=progress)
        except (UsageError, CheckError, Unavailable) as error:
            return replace(api.bench(built, seconds=seconds, progress=progress), peer_missing=error.message)
    return api.bench(built, seconds=seconds, progress=progress)


def _real(built: Built) -> dict[str, Any] | None:
    """The first input of the calibration data, which is like those that the network will see; None where none is."""
    source = built.options.calibrate
    is_here = str(source) != RANDOM and built.stages.compressed is not None
    return dict(next(samples(source, built.stages.graph))) if is_here else None


def measure_times(built: Built, progress: Progress = silent, seconds: float | None = None) -> Facts:
    """Times alone, where the code of a build runs here: a decision has to be answered soon."""
    budget = (Budget("latency_ms", 0.0),)
    return measure(built, budget, everything=False, progress=progress, seconds=seconds)


def certified_error(built: Built, box: str, progress: Progress = silent) -> float:
    """The greatest difference from the model that is proved for all inputs of a box, FILE:DISTANCE.

    Raises ModelError for what has no bounds.
    """
    found = api_certify(built, against="float", box=box, progress=progress)
    return max((d.most for c in found.certificates for d in c.differences), default=0.0)


def describe(
    built: Built, facts: Facts, *, budgets: Sequence[Record] = (), settings: Mapping[str, Any] | None = None
) -> Record:
    """The document of a build (docs/guide/report.md)."""
    return document(built, **facts, budgets=budgets, settings=settings)


def write(found: Record, folder: Path) -> Path:
    """Write the document and its page into the folder of a build; gives the page."""
    write_document(found, folder)
    path = folder / PAGE
    files.replace(path, page(found))
    return path
