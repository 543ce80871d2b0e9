"""Zeros in weights: the pruned layers, the kernels that skip zeros, and the share of zeros from which that pays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich.console import RenderableType
from rich.markup import escape

from edgec.compress.prune.report import PruneReport
from edgec.compress.retrain import Retrained
from edgec.report.record import Record
from edgec.report.terminal import table
from edgec.schedule.program import Program
from edgec.text import counted, printable

#: Rows that a terminal shows.
SHOWN = 12


def kernels(program: Program) -> list[Record]:
    """Every matmul and convolution with zeros in its weights: shares of zeros and of kept vectors, predicted costs."""
    rows: list[dict[str, Any]] = []
    for k, kernel in enumerate(program.kernels):
        for step in kernel.steps:
            if step.sparsity is not None:
                rows.append({"kernel": k, "nodes": list(map(printable, step.names)), **asdict(step.sparsity)})
    return rows


def layers(report: PruneReport | None) -> Record | None:
    """The zeros and the error of every layer; None for a network that was not pruned."""
    if report is None:
        return None
    rows = [{**asdict(row), "name": printable(row.name)} for row in report.layers]
    return {**asdict(report), "zeros": report.zeros, "layers": rows}


def retraining(found: Retrained | None) -> Record | None:
    """Steps and losses of a retraining; None where there was none."""
    if found is None:
        return None
    return {
        "steps": found.steps, "batch": found.batch, "samples": found.samples,
        "first_loss": found.first, "last_loss": found.last,
    }  # fmt: skip


def draw_retraining(record: Record) -> RenderableType:
    """One line."""
    return (
        f"retrained in {counted(record['steps'], 'step')} of {record['batch']} of "
        f"{counted(record['samples'], 'sample')}: "
        f"loss {record['first_loss']:.4f} at first, {record['last_loss']:.4f} at last"
    )


def draw(found: Sequence[Record], pruned: Record | None) -> tuple[RenderableType, ...]:
    """Both as tables; nothing where there are no zeros."""
    parts: list[RenderableType] = []
    if pruned is not None:
        parts.append(_draw_layers(pruned))
    if found:
        taken = sum(row["taken"] for row in found)
        title = f"zeros in weights: left out by {taken} of {counted(len(found), 'kernel')}"
        heads = (">kernel", "nodes", ">zeros", ">vectors kept", ">predicted gain", ">break-even", "kernel is")
        drawn = table(*heads, title=title)
        for row in sorted(found, key=lambda r: -r["dense_cycles"])[:SHOWN]:
            gain = row["dense_cycles"] / max(row["sparse_cycles"], 1)
            cells = f"{row['zeros']:.0%}", f"{row['density']:.0%}", f"{gain:.2f}", f"{row['break_even']:.0%}"
            name = escape(row["nodes"][0] if row["nodes"] else "")
            drawn.add_row(str(row["kernel"]), name, *cells, "sparse" if row["taken"] else "dense: it is quicker")
        parts += [drawn, *_more(len(found))]
    return tuple(parts)


def _draw_layers(record: Record) -> RenderableType:

    title = f"pruned by {record['scheme']} ({record['method']}): {record['zeros']:.0%} of the weights are zero or gone"
    if record["value"] is not None:
        title += f"; {record['max_loss'].partition('=')[0]} {record['value']:.4g}, at most {record['max_loss']}"
    drawn = table("layer", "weights", ">zeros", ">error", "", title=title)
    for row in sorted(record["layers"], key=lambda r: -(r["error"] or 0.0))[:SHOWN]:
        error = "" if row["error"] is None else f"{row['error']:.3f}"
        drawn.add_row(
            escape(row["name"]), "x".join(map(str, row["shape"])), f"{row['zeros']:.0%}", error, row["reason"]
        )
    return drawn


def _more(count: int) -> list[str]:
    return [f"and {count - SHOWN} more (--json has them all)"] if count > SHOWN else []
