"""Bisection of an error: the first stage, its first unit, and the smallest model that shows it.

The unit is what the stage works on: an ONNX node after import, a block after fuse, a kernel after schedule and emit.
Each is held against what the stage before gave for the same value. Then the ONNX nodes behind it are cut out of the
model, one by one and together, until a cut is wrong by itself.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from edgec.build import Built
from edgec.check.blocks import value_of
from edgec.check.compare import Difference, compare
from edgec.check.contained import with_every_tensor
from edgec.check.ledger import Entry
from edgec.check.litert import LitertReference
from edgec.check.reference import Reference
from edgec.check.reproduce import Cut, cut, neighborhoods, nodes_of, smallest, write
from edgec.check.unavailable import Unavailable
from edgec.execute.executor import PlanRun, ProgramRun
from edgec.execute.kernels import Kernels, library_of
from edgec.frontend.gguf.reader import GgufModel
from edgec.frontend.hugging.folder import HuggingModel
from edgec.frontend.source import import_graph, nodes_with_outputs
from edgec.frontend.tflite.model import TfliteModel
from edgec.ir import evaluate
from edgec.ir.graph import Graph, Node
from edgec.pipeline.run import Run
from edgec.progress import Progress
from edgec.text import printable

Arrays = Mapping[str, np.ndarray]
#: How far around a node a reproducer may reach when no node is wrong alone.
REACH = 3


@dataclass(frozen=True)
class Located:
    """Origin of an error. ``nodes`` are ONNX nodes, ``reproducer`` the folder of the model that shows it."""

    stage: str
    what: str
    nodes: tuple[str, ...]
    max_rel: float
    reproducer: str | None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Suspect:
    """A unit whose result is too far from what it should be, or the farthest of all when none is.

    Of stages that work on the graph as a whole, the error is infinite: which node it is in is found by cutting.
    """

    what: str
    origins: tuple[str, ...]
    max_rel: float


def locate(
    built: Built, stages: tuple[Entry, ...], inputs: Arrays, tolerance: float, folder: Path | None, progress: Progress
) -> Located:
    """The first stage whose error exceeds ``tolerance``, the unit that brings it in, and a reproducer of it."""
    first = next((e for e in stages if e.max_rel > tolerance or e.mismatches), None)
    if first is None:
        note = "every stage is within tolerance on these inputs: the error shows only on others, or on more threads"
        return Located("none", "not found again", (), 0.0, None, (note,))
    progress("locate", first.stage)
    tensors = tensors_of(built, inputs)
    suspect = _suspect(built, first.stage, inputs, tensors, tolerance, progress)
    notes = [] if suspect.max_rel > tolerance else ["no single step exceeds the tolerance: small errors add up"]
    found = _reduce(built, first.stage, suspect, tensors, tolerance) if built.onnx is not None else None
    if found is None:
        return Located(first.stage, suspect.what, suspect.origins, suspect.max_rel, None, tuple(notes))
    piece, max_rel = found
    if max_rel is None:
        notes.append("cut out, these nodes are right: the error needs what is around them")
    target = folder if folder is not None else Path("edgec-reproducer")
    write(piece, first.stage, tolerance, target)
    return Located(first.stage, suspect.what, piece.labels, max_rel or suspect.max_rel, str(target), tuple(notes))


def _reduce(
    built: Built, stage: str, suspect: Suspect, tensors: Arrays, tolerance: float
) -> tuple[Cut, float | None] | None:
    """The smallest cut that is wrong by itself, else the suspects' own nodes; None where nothing can be cut."""
    model, context = built.onnx, built.stages.context
    assert model is not None
    suspects = nodes_of(model.proto, suspect.origins)
    everything = [k for k, n in enumerate(model.proto.graph.node) if n.op_type != "Constant"]
    wrong = smallest(neighborhoods(model, suspects or everything, tensors, 0), context, stage, tolerance)
    whole = cut(model, suspects, tensors) if suspects else None
    if wrong is None and whole is not None:
        wrong = smallest([whole], context, stage, tolerance)
    if wrong is None:
        wrong = smallest(neighborhoods(model, suspects or everything, tensors, REACH), context, stage, tolerance)
    if wrong is not None:
        return wrong[0], wrong[1].max_rel
    return (whole, None) if whole is not None else None


# ---- what every tensor should be


def tensors_of(built: Built, inputs: Arrays) -> dict[str, np.ndarray]:
    """Every tensor of the main graph by name, from the reference; from the imported graph where that fails."""
    model, o = built.parsed, built.options
    if model is None:
        return dict(inputs)
    try:
        if isinstance(model, TfliteModel):
            return {**inputs, **LitertReference(model, o.shapes, o.values).every_tensor(inputs)}
        if isinstance(model, (GgufModel, HuggingModel)):
            raise Unavailable("no engine computes this file in full precision")
        reference = Reference(replace(model, proto=with_every_tensor(model), path=None), o.values, optimizes=False)
        return {**inputs, **reference.run(inputs)}
    except Unavailable:
        graph, named = traced(built)
        values = evaluate.run(graph, inputs, keep=True)
        return {**inputs, **{name: values[n] for name, n in named.items() if n in values}}


def traced(built: Built) -> tuple[Graph, dict[str, Node]]:
    """The imported graph with every tensor an output, and the node of each."""
    assert built.parsed is not None
    o = built.options
    named: dict[str, Node] = {}
    graph = import_graph(
        built.parsed, o.shapes, values=o.values, dims=o.dims, rounds=o.loops, context=o.context, cache=o.cache,
        lora=o.lora, ops_folders=o.operators, tensors=named,
    )  # fmt: skip
    return replace(graph, outputs=tuple(named.items())), named


# ---- the unit that brings the error in


def _suspect(
    built: Built, stage: str, inputs: Arrays, tensors: Arrays, tolerance: float, progress: Progress
) -> Suspect:
    if stage == "import":
        return _first(_import_steps(built, inputs, tensors), tolerance)
    if stage == "fuse":
        return _first(_plan_steps(built.stages, inputs), tolerance)
    if stage == "schedule":
        return _first(_program_steps(built.stages, inputs), tolerance)
    if stage == "emit" and built.options.device.is_gpu:
        return Suspect("the kernels, which a GPU does not run one by one", (), math.inf)
    if stage == "emit":
        return _first(_code_steps(built, inputs, progress), tolerance)
    rules = sorted({a.rule for a in built.stages.applied}) if stage == "simplify" else []
    return Suspect(f"the rules {', '.join(rules)}" if rules else f"the stage {stage}", (), math.inf)


Steps = Iterable[tuple[str, tuple[str, ...], Difference]]


def _first(steps: Steps, tolerance: float) -> Suspect:
    """The first step beyond tolerance, else the worst."""
    worst = Suspect("nothing", (), 0.0)
    for what, origins, difference in steps:
        if difference.max_rel > worst.max_rel:
            worst = Suspect(what, origins, difference.max_rel)
            if not difference.within(tolerance):
                break
    return worst


def _import_steps(built: Built, inputs: Arrays, tensors: Arrays) -> Steps:
    """Every node's outputs, in the order of the file, beside the reference."""
    assert built.parsed is not None
    graph, named = traced(built)
    values = evaluate.run(graph, inputs, keep=True)
    for label, operator, outputs in nodes_with_outputs(built.parsed):
        for name in outputs:
            if name in named and name in tensors and named[name] in values:
                what = f"node '{label}' ({operator}), output '{printable(name)}'"
                yield what, (label,), compare(name, values[named[name]], tensors[name])


def _graph_values(run: Run, inputs: Arrays) -> dict[Any, np.ndarray]:
    """Values of all nodes of the planned graph."""
    return evaluate.run(run["fuse"].graph, inputs, keep=True)


def _plan_steps(run: Run, inputs: Arrays) -> Steps:
    plan = run["fuse"]
    values = _graph_values(run, inputs)
    execution = PlanRun(plan, inputs)
    for k, block in enumerate(plan.blocks):
        origins = tuple(dict.fromkeys(o for n in block.nodes for o in plan.graph.names(n)))
        what = f"block {k} ({block.kind}: {' '.join(n.op for n in block.nodes)})"
        result = execution.step(k)
        if result is not None:
            yield what, origins, compare(what, result, value_of(block.output, values))


def _program_steps(run: Run, inputs: Arrays) -> Steps:
    program = run["schedule"]
    values = _graph_values(run, inputs)
    execution = ProgramRun(program, inputs)
    for k, kernel in enumerate(program.kernels):
        result = execution.step(k)
        if result is not None and kernel.block is not None:
            what = f"kernel {k} ({kernel.describe})"
            yield what, kernel.names, compare(what, result, value_of(kernel.block.output, values))


def _code_steps(built: Built, inputs: Arrays, progress: Progress) -> Steps:
    """Every kernel in C and in numpy on the same memory, one thread."""
    program = built.program
    meant, real = ProgramRun(program, inputs), ProgramRun(program, inputs)
    kernels = Kernels(program, library_of(built), built.options.name, built.options.templates)
    kernels.lend(real)
    for k, kernel in enumerate(program.kernels):
        progress("locate", f"kernel {k}", k / len(program.kernels))
        if not kernels.beside(k, meant, real):
            continue
        what = f"kernel {k} ({kernel.describe})"
        if kernel.block is not None:
            node = kernel.block.output
            yield what, kernel.names, compare(what, real.array(node), meant.array(node))
        else:
            wrote = kernel.writes
            yield what, kernel.names, compare(what, real.elements(wrote), meant.elements(wrote))
