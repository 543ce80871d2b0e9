"""A batch in micro-batches, one after the other, where the samples of a network do not meet.

The gradient of a mean over a batch is the mean of those over its parts. So a step may take its samples in several
runs of one program, each of which adds its gradients to the moments, and then has the activations of a part in memory
at a time (Huang et al., "GPipe", 2019, divide batches so). The trained weights change in the last run alone: their
kernels are skipped in all others.

Every run reads all weights and adds to all moments, whatever its samples, so that many runs of few samples wait for
memory: the arena may take as much as the state, which is there in any case.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from edgec.differentiate.step import Step
from edgec.distribute.rows import Indivisible, Span, rows_of
from edgec.ir.graph import Graph, Node, topological
from edgec.ops import graphs, node
from edgec.schedule.program import Buffer, Kernel, Program

#: Bytes beside the arena by which steps in micro-batches may differ: their flags, and a learning rate for each.
SLACK = 1 << 16


def portion(graph: Graph, own: Collection[str | None], count: int) -> Graph | None:
    """The graph of the first of ``count`` equal parts of a batch, if that is the one of all others too.

    The batch is the first dimension of the answers, the first output, and of all inputs but its ``own``, the trained
    weights. None where parts are no equal ones, where an answer follows from other samples than its own, or where it
    depends on the place of its sample.
    """
    (name, answers), *others = graph.outputs
    if others or not answers.type.rank or not answers.type.is_fixed:
        return None
    samples = {str(n.attributes["name"]): n.type.shape[0] if n.type.rank else 0 for n in graph.inputs}
    given = [n for n in samples if n not in own]
    rows = int(answers.type.shape[0])
    if any(not samples[n] or samples[n] % count for n in given) or rows % count:
        return None
    taken: dict[str, int | None] = {n: samples[n] if n in given else None for n in samples}
    found = _part(graph, answers, name, taken, count)
    demands = [(message, _demanded(graph, holds, taken, count)) for message, holds in graph.demands]
    if found is None or {str(n.attributes["name"]) for n in found.inputs} != {*samples}:
        return None
    parts = tuple((message, holds) for message, holds in demands if holds is not None)
    if len(parts) < len(demands):
        return None
    origin = {**graph.origin, **found.origin}
    return replace(graph, inputs=found.inputs, outputs=found.outputs, origin=origin, demands=parts)


def _part(graph: Graph, value: Node, name: str, samples: Mapping[str, int | None], count: int) -> Graph | None:
    """The graph of the first of ``count`` equal parts of the rows of a value, if it is the one of all others too and
    takes of each input the same part of its ``samples``, or the whole."""
    found: Graph | None = None
    for k in range(count):
        try:
            part, taken = rows_of(graph, value, _span(int(value.type.shape[0]), k, count), name)
        except Indivisible:
            return None
        whole = {n: samples[n] for n in taken}
        wanted: dict[str, Span | None] = {n: None if s is None else _span(s, k, count) for n, s in whole.items()}
        if taken != wanted or (found is not None and part.outputs != found.outputs):
            return None
        found = found or part
    return found


def _demanded(graph: Graph, holds: Node, samples: Mapping[str, int | None], count: int) -> Node | None:
    """The condition of a part, where ``holds`` is that of the batch: of the samples, each by itself."""
    if not any(samples.get(str(n.attributes.get("name"))) for n in topological([holds]) if n.op == "input"):
        return holds
    each = holds
    while each.op == "reshape" or (each.op == "reduce" and each.attributes["combine"] == "and"):
        each = each.args[0]
    if not each.type.rank or not each.type.is_fixed or each.type.shape[0] % count:
        return None
    part = _part(graph, each, "holds", samples, count)
    if part is None:
        return None
    made = part.outputs[0][1]
    return graphs.reshape(node("reduce", made, combine="and", axes=tuple(range(made.type.rank))), holds.type.shape)


def _span(extent: int, k: int, count: int) -> Span:
    return Span(0, k * extent // count, (k + 1) * extent // count)


def counts(batch: int, threads: int) -> list[int]:
    """The numbers of micro-batches that a batch may be divided into: each keeps a sample for every two threads."""
    return [n for n in range(1, batch // -(-threads // 2) + 1) if batch % n == 0] or [1]


def fewest(batch: int, step: Program, state_bytes: int) -> int:
    """The least number of micro-batches by which the arena of a step is no larger than its state; the most there can be
    where none is."""
    found = counts(batch, step.threads)
    return next((n for n in found if step.arena_bytes <= n * state_bytes), found[-1])


def largest(batch: int, threads: int, state_bytes: int) -> int:
    """Bytes of the largest arena of a step for which its batch is not divided as far as it can be; 0 where it cannot
    be, or where that depends on how many of the ``threads`` a program uses."""
    found = counts(batch, threads)
    return found[-2] * state_bytes if len(found) > 1 and found == counts(batch, 1) else 0


def updating_last(program: Program, step: Step) -> Program:
    """The program of a micro-batch that skips what only the status and states that are not early need, unless it is
    the last."""
    assert step.micro is not None
    inputs = {name: b for name, b, _ in program.inputs}
    _, status, *_ = outputs = [b for _, b, _ in program.outputs]
    early = {inputs[name] for name in step.early}
    late = {status, *(new for new, old in program.states.items() if old not in early)}
    kept = {*(b for b in outputs if b not in late), *(holds for _, holds in program.demands)}
    guarded: set[Kernel] = set()
    read: set[Buffer] = set()
    for kernel in reversed(program.kernels):
        written = {s.writes for s in kernel.steps}
        if written & (kept | read) or not written & late:
            read.update(kernel.touches)
            continue
        guarded.add(kernel)
        late.update(kernel.reads)
    last = ((inputs[str(step.micro.last.attributes["name"])], True),)
    kernels = (replace(k, guards=(*k.guards, *last)) if k in guarded else k for k in program.kernels)
    return replace(program, kernels=tuple(kernels))
