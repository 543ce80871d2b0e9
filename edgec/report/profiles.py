"""What the commands about the profile database answer, and how it is drawn."""

from __future__ import annotations

import json
from pathlib import Path

from rich.console import Group, RenderableType
from rich.markup import escape

from edgec.errors import UsageError
from edgec.report.record import Record, head
from edgec.report.terminal import table
from edgec.tune.database import Profiles
from edgec.tune.local import Tuned
from edgec.untrusted import read_json


def listed(database: Profiles) -> Record:
    entries = [
        {"block": m.block, "what": m.what, "us": m.seconds * 1e6, "device": m.target.device,
         "compiler": m.target.compiler, "target": m.target.fingerprint}
        for m in database.entries()
    ]  # fmt: skip
    return {**head("profiles list"), "file": str(database.path), "times": entries}


def draw_list(record: Record) -> RenderableType:
    drawn = table("block", ">us", "device", "what")
    for m in record["times"]:
        drawn.add_row(m["block"][:12], f"{m['us']:.2f}", escape(m["device"]), escape(m["what"][:100]))
    return Group(drawn, f"{len(record['times'])} times in {escape(record['file'])}")


def exported(database: Profiles, file: Path) -> Record:
    data = database.exported()
    try:
        file.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot write: {error.strerror or error}", where=str(file)) from None
    return _moved("profiles export", database, len(data["times"]), str(file))


def imported(database: Profiles, file: Path) -> Record:
    try:
        data = read_json(file)
    except OSError as error:
        raise UsageError(f"cannot read: {error.strerror or error}", where=str(file)) from None
    return _moved("profiles import", database, database.import_(data, str(file)), str(file))


def cleared(database: Profiles) -> Record:
    return _moved("profiles clear", database, database.clear(), None)


def _moved(command: str, database: Profiles, count: int, file: str | None) -> Record:
    return {**head(command), "database": str(database.path), "times": count, "file": file}


def draw_moved(record: Record) -> RenderableType:
    word = {"profiles export": "written to", "profiles import": "taken from", "profiles clear": "forgotten"}
    return f"{record['times']} times {word[record['command']]} {record['file'] or ''}".rstrip() + "\n"


def tuned(done: Tuned) -> Record:
    return {
        **head("tune"),
        "measured": done.measured,
        "known": done.known,
        "skipped": done.skipped,
        "seconds": done.seconds,
        "tuned_ms": done.tuned_ms,
        "untuned_ms": done.untuned_ms,
    }


def draw_tuned(record: Record) -> RenderableType:
    skipped = f", {record['skipped']} skipped for lack of time" if record["skipped"] else ""
    told = f"{record['measured']} blocks measured, {record['known']} known before{skipped}, {record['seconds']:.1f} s\n"
    if record["tuned_ms"] is None:
        return told
    tuned, untuned = record["tuned_ms"], record["untuned_ms"]
    stay = ", which stay" * (tuned > untuned)
    return f"{told}a run takes {tuned:.4g} ms, {untuned:.4g} with the model's choices{stay}\n"
