"""Advice as a record, a table and a page: options by time, error and bytes, and what in the model costs most."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.text import Text

from edgec import files
from edgec.advise.advise import Advice
from edgec.advise.trial import Trial
from edgec.report.page import advice_page
from edgec.report.record import Record, finite, head
from edgec.report.terminal import duration, error_text, size, table
from edgec.text import as_argument, printable

#: Width and height of the chart, and the room around it, in pixels.
WIDTH, HEIGHT, MARGIN = 640, 320, 48
#: Names of nodes that a terminal shows of one kernel.
NAMED = 2


def record(found: Advice, asked: Sequence[str]) -> Record:
    """All trials with their command lines; ``asked`` are the model and the options that all of them have."""
    best = {id(t) for t in found.best}
    return {
        **head("advise"),
        "device": found.device,
        "link": found.link,
        "is_measured": found.is_measured,
        "seconds": found.seconds,
        "skipped": found.skipped,
        "trials": [{**_trial(t, asked), "is_best": id(t) in best} for t in found.trials],
        "costliest": [
            {"kernel": c.kernel, "nodes": list(c.nodes), "operators": list(c.operators), "ms": c.ms, "share": c.share}
            for c in found.costliest
        ],
        "uneven": [
            {"kernel": u.kernel, "nodes": list(u.nodes), "channels": u.channels, "even": list(u.even), "lost": u.lost}
            for u in found.uneven
        ],
        "changes": [
            {"text": c.text, "nodes": [printable(n) for n in c.nodes], "before_ms": c.before_ms,
             "after_ms": c.after_ms, "gain": c.gain}
            for c in found.changes
        ],
    }  # fmt: skip


def _trial(trial: Trial, asked: Sequence[str]) -> Record:
    return {
        "options": trial.switch.name,
        "command": shlex.join(["edgec", "build", as_argument(asked[0]), *asked[1:], *trial.switch.words]),
        "predicted_ms": trial.predicted_ms,
        "measured_ms": trial.measured_ms,
        "max_rel": trial.error,
        "weights_bytes": trial.weights_bytes,
        "arena_bytes": trial.arena_bytes,
        "kernels": trial.kernels,
        "refused": trial.refused or None,
        "note": trial.switch.note or None,
    }


def draw(found: Record) -> RenderableType:
    """The trials, fastest first; the command lines of the best; the model's own costs."""
    parts: list[RenderableType] = [_trials(found["trials"])]
    refused = [t for t in found["trials"] if t["refused"]]
    if refused:
        drawn = table("not possible", "why")
        for t in refused:
            drawn.add_row(escape(t["options"]), escape(t["refused"]))
        parts += ["", drawn]
    if found["skipped"]:
        parts += ["", f"{found['skipped']} more were not tried: --seconds ended"]
    parts += ["", "Best, of time, error and bytes together:"]
    parts += [_line(t["command"]) for t in _by_time(t for t in found["trials"] if t["is_best"])]
    notes = dict.fromkeys(t["note"] for t in found["trials"] if t["is_best"] and t["note"])
    parts += [f"  note: {escape(note)}" for note in notes]
    return Group(*parts, *_of_model(found), "")


def _trials(trials: Sequence[Record]) -> RenderableType:
    drawn = table("options", ">predicted", ">measured", ">error", ">weights", ">memory", "")
    for t in _by_time(t for t in trials if not t["refused"]):
        drawn.add_row(
            escape(t["options"]), _ms(t["predicted_ms"]), _ms(t["measured_ms"]),
            "" if t["max_rel"] is None else error_text(t["max_rel"]), size(t["weights_bytes"]), size(t["arena_bytes"]),
            "best" if t["is_best"] else "",
        )  # fmt: skip
    return drawn


def _of_model(found: Record) -> list[RenderableType]:
    parts: list[RenderableType] = []
    if found["costliest"]:
        drawn = table("what costs most", ">share", ">predicted")
        for c in found["costliest"]:
            drawn.add_row(_names(c), f"{c['share']:.0%}", _ms(c["ms"]))
        parts += ["", drawn]
    rows = [
        (f"{_names(u)}: {u['channels']} channels", f"{' or '.join(map(str, u['even']))} fill whole vectors", u["lost"])
        for u in found["uneven"]
    ]
    rows += [(c["text"], f"{len(c['nodes'])} nodes; train the network with it", c["gain"]) for c in found["changes"]]
    if rows:
        drawn = table("changes of the model", "", ">predicted gain")
        for what, how, gain in sorted(rows, key=lambda row: -row[2]):
            drawn.add_row(escape(what), escape(how), f"{gain:.0%}")
        parts += ["", drawn]
    return parts


def _line(command: str) -> RenderableType:
    """A command that is never broken: what is copied from a terminal has to run."""
    return Text(f"  {command}", no_wrap=True, overflow="ignore")


def _names(kernel: Record) -> str:
    names = kernel["nodes"] or kernel["operators"]
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return escape(", ".join(names[:NAMED]) + more)


def _by_time(trials: Iterable[Record]) -> list[Record]:
    return sorted(trials, key=lambda t: _known_ms(t) if _known_ms(t) is not None else math.inf)


def _known_ms(trial: Record) -> float:
    ms = trial["measured_ms"] if trial["measured_ms"] is not None else trial["predicted_ms"]
    return math.inf if ms is None else float(ms)


def _ms(ms: float | None) -> str:
    return "" if ms is None else duration(ms)


def write(found: Record, path: Path) -> None:
    """Write the page of a record."""
    files.replace(path, advice_page(finite(found), chart(found["trials"])).encode())


def chart(trials: Sequence[Record]) -> Record:
    """Points of time and error on logarithmic axes, in pixels, and the line through the best of them."""
    shown = [t for t in trials if not t["refused"] and math.isfinite(_known_ms(t)) and t["max_rel"] is not None]
    times = [_known_ms(t) for t in shown]
    errors = [max(float(t["max_rel"]), 1e-8) for t in shown]
    points: list[Record] = [
        {
            "x": _place(ms, times, MARGIN, WIDTH - MARGIN),
            "y": _place(error, errors, HEIGHT - MARGIN, MARGIN),
            "name": t["options"],
            "ms": _ms(ms),
            "error": error_text(error),
            "is_best": t["is_best"],
        }
        for t, ms, error in zip(shown, times, errors)
    ]
    places: set[tuple[int, int]] = set()
    for point in points:  # names of points in one place would be illegible
        place = round(point["x"] / 40), round(point["y"] / 12)
        point["is_named"] = point["is_best"] and place not in places
        places |= {place} if point["is_named"] else set()
    line = sorted((p["x"], p["y"]) for p in points if p["is_best"])
    ends = {"least_ms": _ms(min(times)), "most_ms": _ms(max(times)), "least": error_text(min(errors)),
            "most": error_text(max(errors))} if shown else {}  # fmt: skip
    return {"width": WIDTH, "height": HEIGHT, "margin": MARGIN, "points": points,
            "line": " ".join(f"{x:.1f},{y:.1f}" for x, y in line), **ends}  # fmt: skip


def _place(value: float, values: Sequence[float], low: float, high: float) -> float:
    """The place of a value between two pixels, by its logarithm."""
    first, last = math.log(min(values)), math.log(max(values))
    part = (math.log(value) - first) / (last - first) if last > first else 0.5
    return low + part * (high - low)
