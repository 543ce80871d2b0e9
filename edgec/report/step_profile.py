"""Times of the kernels of a training step, the slowest first."""

from __future__ import annotations

from pathlib import Path

from rich.console import Group, RenderableType
from rich.markup import escape

from edgec.bench.step_profile import runs_of, step_seconds
from edgec.build import Built
from edgec.report.document.roofs import roofline
from edgec.report.kernels import kernel_cost, kernel_record
from edgec.report.predicted import marks, predicted_seconds
from edgec.report.record import Record, head
from edgec.report.terminal import duration, table


def record(built: Built, seconds: float, seed: int = 0) -> Record:
    """Costs and times of a run of every kernel of the step of a built training, timed for so many seconds."""
    training, device = built.program.training, built.options.device
    assert training is not None
    measured = step_seconds(built, seconds, seed)
    predicted = [predicted_seconds(k, device) for k in training.step.kernels]
    roofs = roofline(built)
    rows: list[Record] = []
    for number, (kernel, s, p, mark) in enumerate(
        zip(training.step.kernels, measured, predicted, marks(measured, predicted))
    ):
        cost = kernel_cost(kernel)
        least = (
            max(cost["flops"] / roofs["gflops"], (cost["bytes_read"] + cost["bytes_written"]) / roofs["gbytes"]) / 1e9
        )
        rows.append({
            "kernel": number, "kind": kernel.steps[-1].template, **kernel_record(kernel), **cost,
            "predicted_us": p * 1e6, "measured_us": None if s is None else s * 1e6, **mark, "launch": None,
            "runs": runs_of(kernel, training), "of_roof": least / s if s else None,
        })  # fmt: skip
    total = sum(r["runs"] * r["measured_us"] for r in rows if r["measured_us"] is not None)
    return {
        **head("profile"), "folder": str(Path(built.folder)), "step_ms": total / 1e3,
        "micro_batches": training.micro_batches, "kernels": rows,
    }  # fmt: skip


def draw(found: Record) -> RenderableType:
    """A line a kernel: its time in a step, and what it is of the step, of its price and of the roofs."""
    total = found["step_ms"] * 1e3 or 1.0
    rows = table(
        ">kernel", ">runs", ">time", ">share", ">predicted", ">of roof", ">GFLOP/s", "template", "nodes",
        title="Slowest first",
    )  # fmt: skip
    for k in sorted(found["kernels"], key=lambda k: -k["runs"] * (k["measured_us"] or 0.0)):
        us = k["measured_us"]
        if us is None:
            continue
        rate, roof = (f"{k['flops'] / us / 1e3:.1f}", f"{k['of_roof']:.0%}") if us > 0 else ("", "")
        spent, price = duration(k["runs"] * us / 1e3), duration(k["runs"] * k["predicted_us"] / 1e3)
        what = escape(", ".join(k["nodes"][-2:]) or " ".join(k["operators"][:4]))
        rows.add_row(
            str(k["kernel"]), str(k["runs"]), spent, f"{k['runs'] * us / total:.1%}", price, roof, rate,
            escape(k["template"].split(",")[0]), what,
        )  # fmt: skip
    return Group(rows, f"kernels of a step together {duration(found['step_ms'])}, on one thread")
