"""The document of one build, put together; written as report.json and read back."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from edgec import files
from edgec.artifact.code_size import code_bytes
from edgec.artifact.folder import library_name, read_lock
from edgec.bench.timing import Benched
from edgec.build import Built
from edgec.check.fidelity import Fidelity
from edgec.check.network import Checked
from edgec.errors import UsageError
from edgec.ir.graph import Node
from edgec.pipeline.run import graph_of
from edgec.report import bench, build, check, device
from edgec.report.document import kernels as parts
from edgec.report.document import stages
from edgec.report.document.errors import causes
from edgec.report.document.memory import memory_map
from edgec.report.document.ports import ports
from edgec.report.document.roofs import roofline
from edgec.report.record import Record, finite, head
from edgec.text import printable
from edgec.untrusted import read_json

#: The document in the folder of a build, and the page made of it.
DOCUMENT, PAGE = "report.json", "report.html"
#: Version of what this module writes (docs/guide/report.md); it grows when a key changes its meaning or goes.
SCHEMA = 3


def document(
    built: Built,
    *,
    checked: Checked | None = None,
    benched: Benched | None = None,
    seconds: Sequence[float | None] = (),
    fidelity: Fidelity | None = None,
    budgets: Sequence[Record] = (),
    settings: Mapping[str, Any] | None = None,
) -> Record:
    """Everything that is known of a build. ``seconds`` are those of its kernels, ``settings`` what it was asked for."""
    run, plan = built.stages, built.stages["fuse"]
    errors = {b.kernel: b.max_rel for b in checked.blocks} if checked is not None else {}
    rows, texts = parts.kernels(built, seconds, errors)
    numbers: dict[Node, int] = {}
    drawn = []
    for step in run.steps:
        if step.stage.name in ("import", "simplify", "compress"):
            drawn.append(stages.of_graph(step.stage.name, step.seconds, graph_of(step.value), numbers))
    spent = run.seconds
    planned = stages.of_graph("operators", 0.0, plan.graph, numbers)
    drawn.append(stages.of_plan(spent.get("fuse", 0.0), plan, numbers))
    drawn.append(stages.of_program(spent["schedule"], built.program))
    return {
        **head("report"),
        "report_schema": SCHEMA,
        "model": built.parsed.name if built.parsed is not None else built.graph.name,
        "build": build.record(built),
        "settings": dict(settings or {}),
        "device": device.record(built.options.device),
        "roofline": roofline(built),
        "stages": drawn,
        "operators": planned,
        "kernels": rows,
        "schedules": parts.templates_used(rows),
        "functions": texts,
        "rules": [_rule(applied) for applied in run.applied],
        "refusals": parts.refusals(plan),
        "choices": parts.choices(plan),
        "memory": memory_map(built.program),
        "ports": ports(built),
        "code_bytes": code_bytes(built.folder / library_name(built.options.name)),
        "errors": causes(built, checked, fidelity),
        "check": check.record(checked) if checked is not None else None,
        "bench": _bench(benched, built) if benched is not None else None,
        "budgets": list(budgets),
        "provenance": _provenance(built),
    }


def _bench(benched: Benched, built: Built) -> Record:
    return {**bench.record(benched, built.options.device.name), "peer_missing": benched.peer_missing}


def _rule(applied: Any) -> Record:
    return {
        "rule": applied.rule,
        "family": applied.family,
        "numeric": applied.numeric,
        "nodes": [printable(n) for n in applied.origin],
        "before": printable(applied.before, 1000),
        "after": printable(applied.after, 1000),
        "gain": {key: int(value) for key, value in applied.gain._asdict().items() if value},
    }


def _provenance(built: Built) -> Record:
    """The origin of a build: its lock without the list of files, and the metadata of the model."""
    lock = read_lock(built.folder)
    facts = {key: value for key, value in lock.items() if key not in ("files", "device_facts", "sources", "choices")}
    metadata = {printable(str(k)): printable(str(v), 1000) for k, v in built.graph.metadata.items()}
    return {**facts, "compiler": built.compiler, "metadata": metadata}


def write_document(found: Record, folder: Path) -> Path:
    """Write the document into the folder of a build; gives its path."""
    path = folder / DOCUMENT
    files.replace(path, json.dumps(finite(found), ensure_ascii=False, separators=(",", ":")) + "\n")
    return path


def read_document(folder: Path) -> Record:
    """The document of a build, by its folder or its file; raises UsageError where there is none that can be read."""
    path = folder if folder.is_file() else folder / DOCUMENT
    try:
        found = read_json(path)
    except OSError:
        hint = f"it has no {DOCUMENT}: build it with --report"
        raise UsageError("there is no report here", hint=hint, where=str(folder)) from None
    if not isinstance(found, dict) or found.get("command") != "report":
        raise UsageError("not the report of a build", where=str(path))
    if found.get("report_schema") != SCHEMA:
        hint = f"this edgec reads version {SCHEMA}: build it again with --report"
        raise UsageError(f"a report of version {found.get('report_schema')}", hint=hint, where=str(path))
    return dict(found)


__all__ = ["DOCUMENT", "PAGE", "document", "read_document", "write_document"]
