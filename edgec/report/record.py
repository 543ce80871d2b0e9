"""What commands answer, as plain data: the JSON of docs/json.md, and what the tables are drawn from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from math import isfinite
from typing import Any

import numpy as np

from edgec.bench.farm import Outcome
from edgec.bench.timing import Benched, Timing
from edgec.build import Built
from edgec.check.network import Checked
from edgec.check.score import Scored
from edgec.compress.report import Report as Compression
from edgec.device.compilers import runs_here
from edgec.device.device import Device
from edgec.device.probe import probe_host
from edgec.emit.project import cross_options
from edgec.errors import EdgecError
from edgec.frontend.source import Parsed
from edgec.frontend.tflite.model import TfliteModel
from edgec.fuse import Block, Plan
from edgec.fuse.cost_model import work
from edgec.ir.expr import Extent
from edgec.ir.graph import Graph
from edgec.pipeline import Run
from edgec.report import facts, partition, sparsity, traffic
from edgec.report.fit import fit
from edgec.report.listing import describe_template
from edgec.schedule.chain import steps_of
from edgec.schedule.program import Kernel, Program
from edgec.text import printable
from edgec.version import __version__

#: Version of everything in this module; it grows when a key changes its meaning or goes.
SCHEMA = 2
#: How many kernels a build names as its largest.
LARGEST = 5

Record = dict[str, Any]


def head(command: str) -> Record:
    """What every record begins with."""
    return {"schema": SCHEMA, "edgec": __version__, "command": command}


def finite(value: Any) -> Any:
    """The same data without infinities and NaN, which JSON has no word for: they become null."""
    if isinstance(value, float):
        return value if isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(k): finite(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(v) for v in value]
    return value


def shown(value: Any) -> Any:
    """The same data fit for a terminal: names out of a model may hold characters that would control it."""
    if isinstance(value, str):
        return "\n".join(printable(line, 10_000) for line in value.split("\n"))
    if isinstance(value, Mapping):
        return {shown(k): shown(v) for k, v in value.items()}
    return [shown(v) for v in value] if isinstance(value, (list, tuple)) else value


def error(command: str, problem: EdgecError) -> Record:
    details = {"kind": type(problem).__name__, "message": problem.message, "hint": problem.hint, "where": problem.where}
    return {**head(command), "ok": False, "error": details}


def build(built: Built) -> Record:
    program = built.program
    return {
        **head("build"),
        "folder": str(built.folder),
        "replaced": built.replaced,
        "started_at": built.run.steps[0].stage.name,
        "name": built.options.name,
        "device": built.options.device.name,
        "runs_here": runs_here(built.options.device, built.compiler),
        "cross": _cross(built.options.device),
        "threads": built.options.threads,
        "compiler": built.compiler,
        "operators": built.operators,
        "core_operators": len(program.graph.operations()),
        "kernels": built.kernels,
        "rules": len(built.run.context.applied),
        "arena_bytes": built.arena_bytes,
        "arena_lower_bound_bytes": built.arena_lower_bound_bytes,
        "weights_bytes": built.weights_bytes,
        "traffic": bytes_moved(built.run["fuse"]),
        "memory": fit(program, built.options.device, built.options.room, built.run.context.striped),
        "largest_kernels": largest(program),
        "files": {path: len(content) for path, content in built.run["emit"].files.items()},
        "seconds": {**built.seconds, "total": sum(built.seconds.values())},
        "compression": compression(built.run.context.compression),
        "pruned": sparsity.layers(built.run.context.pruned.report if built.run.context.pruned else None),
        "sparsity": sparsity.kernels(program),
        "placement": partition.record(built),
    }


def _cross(device: Device) -> str | None:
    """What CMake has to be told here, "" where it is nothing; None where it cannot be said."""
    if device.hosted and device.arch == probe_host().arch:
        return ""
    return cross_options(device) or None


def compression(report: Compression | None) -> Record | None:
    """What became of every layer of a compressed network; None for one that was not."""
    if report is None:
        return None
    layers = [{**asdict(row), "name": printable(row.name)} for row in report.layers]
    return {**asdict(report), "layers": layers}


def largest(program: Program) -> list[Record]:
    """The kernels with the most arithmetic, most first."""
    rows = [(k, kernel_cost(kernel), kernel) for k, kernel in enumerate(program.kernels)]
    rows.sort(key=lambda row: (-row[1]["flops"], -row[1]["bytes_read"], row[0]))
    return [{"kernel": k, **kernel_record(kernel), **cost} for k, cost, kernel in rows[:LARGEST]]


def kernel_record(kernel: Kernel) -> Record:
    operators = list(dict.fromkeys(n.op for b in blocks_of(kernel) for n in b.nodes)) or ["border"]
    names = [printable(name) for name in kernel.names]
    return {"operators": operators, "nodes": names, "template": describe_template(kernel)}


def blocks_of(kernel: Kernel) -> list[Block]:
    """The blocks that a kernel computes: several in a chain, none in a border."""
    return [s.block for s in steps_of(kernel) if s.block is not None]


def kernel_cost(kernel: Kernel) -> Record:
    """FLOPs, each value computed once for the loops it depends on; bytes read and written, each element once."""
    moved = traffic.of_kernel(kernel)
    flops = int(sum(work(b) for b in blocks_of(kernel)))
    return {"flops": flops, "bytes_read": moved.read, "bytes_written": moved.written}


def bytes_moved(plan: Plan) -> Record:
    """The byte ledger of a whole plan, beside the least that any plan of its graph moves."""
    moved, bound = traffic.of_plan(plan), traffic.least(plan)
    return {"read": moved.read, "written": moved.written, "lower_bound": bound.together}


def byte_ledger(run: Run) -> Record:
    """The same with the unfused graph beside it, and kernel by kernel."""
    plan: Plan = run["fuse"]
    kernels = [
        {"kernel": k, **kernel_record(kernel), **kernel_cost(kernel)}
        for k, kernel in enumerate(run["schedule"].kernels)
    ]
    return {**bytes_moved(plan), "unfused": traffic.unfused(run.graph).together, "kernels": kernels}


def check(checked: Checked) -> Record:
    located = checked.located
    return {
        **head("check"),
        "ok": checked.ok,
        "reference": checked.reference,
        "executed_stage": checked.executed_stage,
        "samples": checked.samples,
        "threads": list(checked.threads),
        "tolerance": checked.tolerance,
        "mismatch_tolerance": checked.mismatch_tolerance,
        "outputs": [
            {**asdict(d), "ok": d.within(checked.tolerance, checked.mismatch_tolerance)} for d in checked.outputs
        ],
        "stages": [asdict(e) for e in checked.stages],
        "located": asdict(located) if located is not None else None,
        "blocks": [asdict(b) for b in checked.blocks],
        "notes": list(checked.notes),
    }


def score(scored: Scored) -> Record:
    return {**head("check"), **asdict(scored)}


def bench(benched: Benched, device: str) -> Record:
    peer = benched.peer_timing
    return {
        **head("bench"),
        "device": device,
        **_timing(benched.timing),
        "threads": benched.threads,
        "pinned": benched.pinned,
        "rounds": benched.rounds,
        "peer": {"name": benched.peer, **_timing(peer)} if peer is not None else None,
        "ratio": benched.ratio,
        "max_rel": benched.max_rel,
        "link": benched.link,
        "kernels": [{"kernel": k, "name": name, "ms": ms} for k, (name, ms) in enumerate(benched.kernels)],
    }


def device_run(path: str, outputs: Mapping[str, np.ndarray], milliseconds: list[float]) -> Record:
    """What samples gave on a device: the file it was written to, and the time of each."""
    shapes = {name: {"dtype": str(a.dtype), "shape": list(a.shape)} for name, a in outputs.items()}
    return {**head("device run"), "file": path, "outputs": shapes, "milliseconds": milliseconds}


def farm(outcomes: Sequence[Outcome]) -> Record:
    """What became of every device of a farm."""
    return {**head("device farm"), "ok": all(o.ok for o in outcomes), "devices": [asdict(o) for o in outcomes]}


def _timing(timing: Timing) -> Record:
    return asdict(timing)


def inspect(
    model: Parsed,
    graph: Graph | None,
    unsupported: list[tuple[str, str, str]],
    problem: EdgecError | None,
    ledger: Record | None = None,
    memory: Record | None = None,
) -> Record:
    """What is in a model; without a graph, only what the file tells. ``ledger``: `byte_ledger`; ``memory``: `fit`."""
    operators = facts.operator_counts(model)
    known: Record = {"inputs": None, "outputs": None, "macs": None, "activations": None, "core_operators": None}
    if graph is not None:
        known = {
            "inputs": [_value(n.attributes["name"], n.type.dtype, n.type.shape) for n in graph.inputs],
            "outputs": [_value(name, n.type.dtype, n.type.shape) for name, n in graph.outputs],
            "macs": facts.macs(graph),
            "activations": facts.activations(graph),
            "core_operators": len(graph.operations()),
        }
    return {
        **head("inspect"),
        "ok": graph is not None,
        "model": model.name,
        "where": model.where,
        **_origin(model, graph),
        "operators": operators,
        "operators_total": sum(operators.values()),
        "unsupported": [{"node": n, "operator": o, "hint": h} for n, o, h in unsupported],
        "weights_bytes": facts.weights_bytes(graph) if graph is not None else facts.initializer_bytes(model),
        **known,
        "traffic": ledger,
        "memory": memory,
        "problem": {"message": problem.message, "hint": problem.hint, "where": problem.where} if problem else None,
    }


def _origin(model: Parsed, graph: Graph | None) -> Record:
    """Who wrote the model, in which versions of which sets of operators, and what it says of itself."""
    if isinstance(model, TfliteModel):
        metadata = graph.metadata if graph is not None else model.metadata
        return {"producer": model.description, "opsets": {"TensorFlow Lite": model.version}, "metadata": dict(metadata)}
    return {
        "producer": printable(f"{model.proto.producer_name} {model.proto.producer_version}".strip()),
        "opsets": {printable(domain) or "ai.onnx": version for domain, version in model.opsets.items()},
        "metadata": {printable(p.key): printable(p.value, 1000) for p in model.proto.metadata_props},
    }


def _value(name: str, dtype: str, shape: tuple[Extent, ...]) -> Record:
    return {"name": name, "dtype": dtype, "shape": [n if isinstance(n, int) else str(n) for n in shape]}


def device(found: Device) -> Record:
    return {**asdict(found), "measured": dict(found.measured)}
