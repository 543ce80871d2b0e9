"""A training step: its check beside a reference, and its times beside PyTorch's."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from rich.console import Group, RenderableType
from rich.markup import escape

from edgec.bench.training import StepTimes
from edgec.check.training import OF_DIFFERENCES, TrainingChecked
from edgec.report.record import Record, head
from edgec.report.terminal import pairs, size
from edgec.text import counted


def checked(found: TrainingChecked, folder: Path) -> Record:
    """The record of a check."""
    return {**head("check"), "folder": str(folder), "ok": found.ok, **asdict(found)}


def draw_checked(found: Record) -> RenderableType:
    """The record for a terminal."""
    verdict = "[green]ok[/]" if found["ok"] else "[red]FAILED[/]"
    rows: list[tuple[str, RenderableType]] = [
        ("reference", escape(found["reference"])),
        ("gradients", f"{found['gradients']:.1e} of the largest, {escape(found['worst'])} ({_passes(found, 0)})"),
        *_slopes(found),
        ("losses", f"{found['losses']:.1e} over {counted(found['steps'], 'step')} ({_passes(found, 1)})"),
        ("weights", f"{found['weights']:.1e} of the largest after them"),
        ("loss", f"{found['first_loss']:.4f} at first, {found['last_loss']:.4f} at last"),
    ]
    return Group(f"training step of {escape(found['folder'])}: {verdict}", pairs(rows))


def _slopes(found: Record) -> list[tuple[str, RenderableType]]:
    """The row of slopes in double precision, where they were computed."""
    if found["differences"] is None:
        return []
    return [
        ("slopes", f"{found['differences']:.1e} off those of the loss in double precision ({OF_DIFFERENCES} passes)")
    ]


def _passes(found: Record, part: int) -> str:
    """The bound of gradients or of losses, and where it comes from."""
    own = found[("narrow_gradients", "narrow_losses")[part]]
    return f"{found['bounds'][part]:.2g} passes" + (
        f", as the reference in fp32 is off by {own:.1e}" if own is not None else ""
    )


def benched(found: list[StepTimes], folder: Path) -> Record:
    """The record of a benchmark: edgec first."""
    return {**head("bench"), "folder": str(folder), "steps": [asdict(t) for t in found]}


def draw_benched(found: Record) -> RenderableType:
    """The record for a terminal."""
    ours = found["steps"][0]
    rows: list[tuple[str, RenderableType]] = []
    for t in found["steps"]:
        ratio = "" if t is ours else f", edgec takes {ours['median_ms'] / t['median_ms']:.2f} of it"
        rows.append((escape(t["name"]), f"{t['median_ms']:.3f} ms a step{ratio}; memory {size(t['memory_bytes'])}"))
    return Group(f"training step of {escape(found['folder'])}, batch {ours['batch']}", pairs(rows))
