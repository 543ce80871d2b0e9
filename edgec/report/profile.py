"""Times of the kernels of one run, the slowest first."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Group, RenderableType
from rich.markup import escape

from edgec.report import launches
from edgec.report.predicted import SLOW
from edgec.report.record import Record, head
from edgec.report.terminal import duration, table

#: Keys of a kernel in a document that its profile has too.
KEYS = (
    "kernel", "kind", "template", "operators", "nodes", "flops", "bytes_read", "bytes_written", "predicted_us",
    "measured_us", "times_predicted", "is_slow", "launch",
)  # fmt: skip


def record(document: Record, trace: Path | None) -> Record:
    """The kernels of a document (`edgec.report.document`) with times; ``trace`` is the file of the trace, if any."""
    return {
        **head("profile"),
        "median_ms": document["bench"]["median_ms"],
        "kernels": [{key: k[key] for key in KEYS} for k in document["kernels"]],
        "trace": str(trace) if trace else None,
    }


def draw(found: Record) -> RenderableType:
    """A line a kernel; on a GPU, the resources of each too."""
    total = sum(k["measured_us"] or 0.0 for k in found["kernels"]) or 1.0
    rows = table(
        ">kernel",
        ">time",
        ">share",
        ">predicted",
        ">of predicted",
        ">GFLOP/s",
        "template",
        "nodes",
        title="Slowest first",
    )
    for k in sorted(found["kernels"], key=lambda k: -(k["measured_us"] or 0.0)):
        us = k["measured_us"]
        if us is None:
            continue
        rate = f"{k['flops'] / us / 1e3:.1f}" if us > 0 else ""
        times = duration(us / 1e3), f"{us / total:.1%}", duration(k["predicted_us"] / 1e3), _beyond(k)
        rows.add_row(
            str(k["kernel"]), *times, rate, escape(k["template"].split(",")[0]), escape(", ".join(k["nodes"][-2:]))
        )
    on_gpu = [k for k in found["kernels"] if k["launch"] is not None]
    if on_gpu:
        return Group(launches.draw(on_gpu), f"one run, median {duration(found['median_ms'])}")
    together = f"kernels together {duration(total / 1e3)}; one run, median {duration(found['median_ms'])}"
    return Group(rows, together, *_note(found["kernels"]))


def _beyond(kernel: Record) -> str:
    """Measured over predicted time; the kernels that are marked as slow are in color."""
    times = kernel["times_predicted"]
    if times is None:
        return ""
    return f"[yellow]{times:.1f}x slow[/]" if kernel["is_slow"] else f"{times:.1f}x"


def _note(kernels: Sequence[Record]) -> list[str]:
    """A sentence about the kernels that are marked, if there are any."""
    slow = [k for k in kernels if k["is_slow"]]
    if not slow:
        return []
    numbers = ", ".join(str(k["kernel"]) for k in sorted(slow, key=lambda k: -k["times_predicted"]))
    return [
        f"slow: more than {SLOW:.0f} times the predicted time, beyond the machine's own pace (kernels {numbers}); "
        "edgec explain shows what was fused there"
    ]
