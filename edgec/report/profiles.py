"""The profile database: lists, imports and exports of times."""

from __future__ import annotations

import json
from pathlib import Path

from rich.console import Group, RenderableType
from rich.markup import escape

from edgec import files
from edgec.errors import UsageError
from edgec.report.record import Record, head
from edgec.report.terminal import table
from edgec.tune.database import Profiles
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
    files.replace(file, json.dumps(data, indent=1) + "\n")
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
