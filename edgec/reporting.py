"""The report of a build: what is measured for it, and its two files in the folder of the build."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from edgec import api, artefact
from edgec.budget import Budget, needs
from edgec.check.latency import Benched
from edgec.check.profile import kernel_seconds
from edgec.check.verdict import Checked
from edgec.pipeline import Progress, silent
from edgec.report.document import document, write_document
from edgec.report.document.build import PAGE
from edgec.report.page import page
from edgec.report.record import Record

if TYPE_CHECKING:
    from edgec.api import Built

#: Seconds that a network is timed for, as a whole and kernel by kernel.
SECONDS = 0.5


class Facts(TypedDict):
    """What was measured of a build: as a whole, kernel by kernel, and beside its reference; None or empty otherwise."""

    benched: Benched | None
    seconds: list[float | None]
    checked: Checked | None


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
    facts = Facts(benched=None, seconds=[], checked=None)
    runs = built.compiler is not None and artefact.runs_here(built.options.device, built.options.compiler)
    if runs and (everything or needs(budgets, "latency_ms")):
        progress("report", "times")
        facts["benched"] = api.bench(built, seconds=seconds, progress=progress)
        if built.options.device.language == "c" and not built.program.parts:
            facts["seconds"] = kernel_seconds(built, seconds)
    if everything or needs(budgets, "max_error"):
        progress("report", "errors")
        facts["checked"] = api.check(built, samples=1, blocks=not built.program.parts, progress=progress)
    return facts


def measure_times(built: Built, progress: Progress = silent, seconds: float | None = None) -> Facts:
    """Times alone, where the code of a build runs here: a decision is to be answered soon."""
    budget = (Budget("latency_ms", 0.0),)
    return measure(built, budget, everything=False, progress=progress, seconds=seconds)


def describe(
    built: Built, facts: Facts, *, budgets: Sequence[Record] = (), settings: Mapping[str, Any] | None = None
) -> Record:
    """The document of a build (docs/report.md)."""
    return document(built, **facts, budgets=budgets, settings=settings)


def write(found: Record, folder: Path) -> Path:
    """Write the document and its page into the folder of a build; gives the page."""
    write_document(found, folder)
    path = folder / PAGE
    path.write_text(page(found), encoding="utf-8")
    return path
