"""Decisions about each kernel of a build and about the whole network, with their possible values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from edgec.build import Built
from edgec.fuse import Plan
from edgec.report.kernels import blocks_of
from edgec.report.record import Record
from edgec.schedule.program import Kernel
from edgec.text import printable

#: Tiles that are offered.
TILES = 6


def decidable(built: Built, decisions: Mapping[str, Any]) -> Record:
    """Questions by the number of the kernel, and those about the network.

    A question has a ``kind`` and a ``key``, a ``title``, the ``values`` it can have (each with a ``text``; empty is
    what edgec would do) and the one it has ``now``.
    """
    plan: Plan = built.stages["fuse"]
    kernels = {}
    for k, kernel in enumerate(built.program.kernels):
        found = [*_materialized(plan, kernel, decisions), *_tile(built, kernel, decisions)]
        found += _choices(plan, kernel, decisions) + _rules(built, kernel)
        if found:
            kernels[str(k)] = found
    return {"kernels": kernels, "network": _network(built, decisions)}


def _question(kind: str, key: str, title: str, values: list[tuple[str, str]], now: str) -> Record:
    told = [{"value": value, "text": text} for value, text in values]
    if now not in [value for value, _ in values]:
        told.append({"value": now, "text": now})
    return {"kind": kind, "key": key, "title": title, "values": told, "now": now}


def _materialized(plan: Plan, kernel: Kernel, decisions: Mapping[str, Any]) -> list[Record]:
    """Results inside the kernel that could stand in memory, and its own where that was decided."""
    kept = decisions.get("materialize", [])
    found = {}
    users = plan.graph.users()
    for block in blocks_of(kernel):
        members = set(block.nodes)
        for node in block.nodes:
            readers = users.get(node, ())
            ended = [name for name in plan.graph.names(node) if not any(name in plan.graph.names(u) for u in readers)]
            if ended and node is not block.output and members.intersection(readers):
                found[ended[-1]] = ""
        found.update({n: "materialize" for n in plan.graph.names(block.output) if n in kept})
    values = [("", "fused with its reader"), ("materialize", "kept in memory")]
    return [_question("materialize", n, f"Result of {printable(n)}", values, now) for n, now in found.items()]


def _tile(built: Built, kernel: Kernel, decisions: Mapping[str, Any]) -> list[Record]:
    p = kernel.main.schedule
    names = kernel.main.names
    if p.register_tile is None or not names:
        return []
    found = p.register_tiles(built.options.device)
    by_width = {vectors: f"{rows}x{vectors}" for rows, vectors in reversed(found)}  # the best of each
    shapes = list(dict.fromkeys([*by_width.values(), *(f"{r}x{v}" for r, v in found)]))[:TILES]
    now = str(decisions.get("tile", {}).get(names[-1], ""))
    usual = "as edgec chooses" + ("" if now else ": {}x{}".format(*p.register_tile))
    values = [("", usual), *((s, f"{s.replace('x', ' rows x ')} vectors") for s in shapes)]
    return [_question("tile", names[-1], "Tile", values, now)]


def _choices(plan: Plan, kernel: Kernel, decisions: Mapping[str, Any]) -> list[Record]:
    found = []
    mine = {name for b in blocks_of(kernel) for n in b.nodes for name in plan.graph.names(n)}
    for choice in plan.decisions.choices:
        names = plan.graph.names(choice.node)
        if names and names[-1] in mine:
            key = f"{choice.kind} {names[-1]}"
            variants = [(v.name, f"{v.name} ({v.seconds * 1e6:.1f} µs)") for v in (choice.taken, *choice.others)]
            now = str(decisions.get("override", {}).get(key, ""))
            values = [("", "as predicted times say"), *sorted(variants)]
            found.append(_question("override", key, f"{choice.kind} of {printable(names[-1])}", values, now))
    return found


def _rules(built: Built, kernel: Kernel) -> list[Record]:
    """Rules that changed what this kernel computes; one is disabled in the whole network."""
    mine = set(kernel.names)
    applied = dict.fromkeys(a.rule for a in built.stages.applied if mine.intersection(a.origin))
    return [
        _question("disable_rule", rule, f"Rule {rule}", [("", "applied"), ("disable_rule", "disabled everywhere")], "")
        for rule in applied
    ]


def _network(built: Built, decisions: Mapping[str, Any]) -> list[Record]:
    o = built.options
    found = []
    usual = {"fuse": "planner", "numeric": "reassociates", "quantize": "float"}
    ways = {
        "fuse": ("planner", "fixed", "operators", "none"),
        "numeric": ("exact", "reassociates", "approximates"),
        "quantize": ("float", "int8"),
    }
    if o.device.is_gpu:
        usual["precision"], ways["precision"] = o.device.precision, ("fp32", "tf32", "fp16")
    titles = {"fuse": "Fusion", "numeric": "Numbers", "quantize": "Matmuls", "precision": "Precision"}
    for key, words in ways.items():
        now = str(decisions.get(key, ""))
        default = getattr(o, key, None) or usual[key]
        values = [("", f"as configured{'' if now else f': {default}'}"), *((w, w) for w in words)]
        found.append(_question("option", key, titles[key], values, now))
    for rule in decisions.get("disable_rule", []):
        values = [("", "applied"), ("disable_rule", "disabled everywhere")]
        found.append(_question("disable_rule", rule, f"Rule {rule}", values, "disable_rule"))
    shown = {n for k in built.program.kernels for n in k.names}
    for name in decisions.get("materialize", []):
        if name not in shown:
            found.append(
                _question(
                    "materialize",
                    name,
                    f"Result of {name}",
                    [("", "fused"), ("materialize", "kept in memory")],
                    "materialize",
                )
            )
    return found
