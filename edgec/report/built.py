"""A built folder before it is used: what it takes and gives, its memory, and how it was made."""

from __future__ import annotations

from pathlib import Path

from rich.console import Group, RenderableType
from rich.markup import escape

from edgec.artifact.affinity import described
from edgec.artifact.folder import read_lock
from edgec.report.record import Record, head
from edgec.report.terminal import pairs, size
from edgec.text import counted

#: Inputs and outputs that a terminal shows.
SHOWN = 8
#: Facts of a lock that are shown as they are.
_PLAIN = (
    "edgec",
    "name",
    "device",
    "language",
    "threads",
    "kernels",
    "arena_bytes",
    "weights_bytes",
    "numeric",
    "fuse",
)


def record(folder: Path) -> Record:
    """The facts of a build, from its lock file. Raises UsageError for a folder without one, or with a damaged one."""
    lock = read_lock(folder)
    model = lock.get("model")
    return {
        **head("inspect"),
        "ok": True,
        "folder": str(folder),
        "build": {key: lock.get(key) for key in _PLAIN},
        "affinity": lock.get("affinity"),
        "inputs": lock.get("inputs", []),
        "outputs": lock.get("outputs", []),
        "model": model.get("name") if isinstance(model, dict) else None,
        "model_sha256": model.get("sha256") if isinstance(model, dict) else None,
        "language_model": lock.get("language_model"),
        "files": lock.get("files", []),
    }


def draw(found: Record) -> RenderableType:
    """Ports with their types, then memory and settings."""
    facts = found["build"]
    rows: list[tuple[str, RenderableType]] = [("folder", escape(found["folder"]))]
    if found["model"]:
        rows.append(("model", escape(f"{found['model']}, SHA-256 {found['model_sha256']}")))
    for kind in ("inputs", "outputs"):
        for port in found[kind][:SHOWN]:
            shape = escape(f"[{','.join(map(str, port['shape']))}]")
            rows.append(
                (kind[:-1], f"{escape(port['onnx_name'])}: {port['dtype']}{shape}, {escape(port['name'])} in C")
            )
        if len(found[kind]) > SHOWN:
            rows.append(("", f"and {len(found[kind]) - SHOWN} more {kind} (--json has them all)"))
    for key in ("arena_bytes", "weights_bytes"):
        if isinstance(facts[key], int):
            rows.append((key.removesuffix("_bytes"), size(facts[key])))
    rows.append(("built", f"for {escape(str(facts['device']))}, at most {counted(facts['threads'], 'thread')}"))
    if found["affinity"]:
        rows.append(("affinity", described(found["affinity"])))
    rows.append(("kernels", f"{facts['kernels']}, by edgec {escape(str(facts['edgec']))}"))
    if isinstance(found["language_model"], dict):
        told = ", ".join(f"{k} {v}" for k, v in found["language_model"].items() if isinstance(v, (int, str)))
        rows.append(("language", escape(told)))
    return Group(pairs(rows))
