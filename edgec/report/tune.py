"""Results of tuning: the blocks that were measured, and the gain for a run."""

from __future__ import annotations

from rich.console import RenderableType

from edgec.report.record import Record, head
from edgec.tune.local import Tuned


def record(done: Tuned) -> Record:
    """Counts of blocks; ``seconds`` spent; milliseconds of a run with measured and with predicted choices."""
    return {
        **head("tune"),
        "measured": done.measured,
        "known": done.known,
        "skipped": done.skipped,
        "seconds": done.seconds,
        "tuned_ms": done.tuned_ms,
        "untuned_ms": done.untuned_ms,
    }


def draw(found: Record) -> RenderableType:
    """Both in one or two sentences."""
    skipped = f", {found['skipped']} skipped for lack of time" if found["skipped"] else ""
    told = f"{found['measured']} blocks measured, {found['known']} known before{skipped}, {found['seconds']:.1f} s\n"
    if found["tuned_ms"] is None:
        return told
    tuned, untuned = found["tuned_ms"], found["untuned_ms"]
    stay = ", which stay" * (tuned > untuned)
    return f"{told}a run takes {tuned:.4g} ms, {untuned:.4g} with the model's choices{stay}\n"
