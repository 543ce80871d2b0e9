"""A build with a training step: the network on weights that are inputs, and the step that renews them."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from edgec.differentiate.attention import Blocks
from edgec.differentiate.losses import is_own, taken_in
from edgec.differentiate.optimizers import Optimizer, is_added_up
from edgec.differentiate.own_loss import loss_for
from edgec.differentiate.scaling import FIRST
from edgec.differentiate.step import Choices, Step, training_step
from edgec.differentiate.unrolled import unrolled
from edgec.differentiate.update import Update, trained
from edgec.emit.language import language_of
from edgec.errors import ModelError, UsageError
from edgec.frontend.onnx.adapters import with_adapters
from edgec.frontend.onnx.batch_norm import STATISTIC, statistics_of, with_batch_statistics
from edgec.frontend.onnx.dropout import with_dropout, without_dropout
from edgec.frontend.onnx.model import Model, read
from edgec.frontend.onnx.trainable import Weight, answers_of, weights_of, with_batch, with_inputs, with_values
from edgec.frontend.onnx.widened import with_floats
from edgec.frontend.source import Parsed, digest
from edgec.frontend.states import states
from edgec.fuse.masks import with_packed_masks
from edgec.fuse.one_pass import in_one_pass
from edgec.fuse.procedure_operands import read_where_stored
from edgec.fuse.recompute import ALL, WIDE, Recomputing, recomputed
from edgec.ir.graph import MODEL_SHA256, Graph, Node
from edgec.options.training import Training as Asked
from edgec.pipeline.context import Context
from edgec.pipeline.micro_batches import fewest, portion, updating_last
from edgec.pipeline.run import STAGES, Run, run
from edgec.pipeline.run import Step as Done
from edgec.schedule.gpu.attention_gradients import largest_head
from edgec.schedule.program import Program, Training
from edgec.schedule.sharing import sharing
from edgec.text import printable

#: What is tried to be computed again, the cheapest first; the first ``FREE`` of them always.
RECOMPUTINGS = (Recomputing(), Recomputing(WIDE, 16), *(Recomputing(ALL, longest) for longest in (4, 8, 16, 32, 64)))
FREE = 2


def trained_run(parsed: Parsed, context: Context) -> tuple[Model, Run]:
    """The run of a build with its training step, and the model whose trained weights are inputs.

    Raises UsageError for a model that cannot be trained so, ModelError for an operator without a derivative.
    """
    asked = context.options.training
    assert asked is not None
    if not isinstance(parsed, Model):
        raise UsageError("only ONNX models are trained", hint="export the network to ONNX", where=parsed.where)
    if not language_of(context.options.device).training:
        hint = "train for a processor or CUDA: edgec device list"
        raise UsageError(f"training is not written for '{context.options.device.name}' yet", hint=hint, where="--loss")
    parsed = with_floats(parsed)
    if asked.update.kind == "lora":
        parsed = with_adapters(parsed, asked.update.rank)
    chosen = trained(weights_of(parsed), asked.update, parsed.where)
    if asked.renews_statistics and context.options.device.language != "c":
        hint = "train for a processor, or leave out --batch-norm"
        raise UsageError("statistics of a batch are not written for GPUs yet", hint=hint, where="--batch-norm")
    step, opened, weights = _step(parsed, chosen, asked, context)
    done = run(opened, context, until="schedule")
    begun = time.perf_counter()
    step, stepping = _stepping(step, parsed, chosen, asked, context)
    _hold_ram(_ram(stepping, step), parsed, asked, context)
    program, taught = sharing(_program(done), stepping)
    said = {**asked.said, "trained": ", ".join(printable(w.name) for w in weights if w.kind != STATISTIC)}
    precision = context.options.device.precision
    said |= {"precision": precision, "loss_scale": f"{FIRST if _scales(context) else 1:g}"}
    model = with_values(parsed, {}).SerializeToString(deterministic=True)
    values = {w.name: w.value for w in weights}
    own = read(asked.loss).proto.SerializeToString(deterministic=True) if is_own(asked.loss) else None
    places = step.joined.places if step.joined is not None else {}
    statistics = tuple(w.name for w in weights if w.kind == STATISTIC)
    runs = step.micro.count if step.micro is not None else 1
    taught_by = Training(taught, values, step.classes, asked.optimizer.lr, said, model, own, places, statistics, runs)
    program = replace(program, training=taught_by)
    spent = time.perf_counter() - begun
    emit = STAGES[-1]
    context.progress(emit.name)
    begun = time.perf_counter()
    project = emit.run(program, context)
    schedule = done.steps[-1]
    steps = (
        *done.steps[:-1],
        replace(schedule, value=program, seconds=schedule.seconds + spent),
        Done(emit, project, time.perf_counter() - begun),
    )
    return opened, replace(done, steps=steps)


def _hold_ram(needed: int, parsed: Model, asked: Asked, context: Context) -> None:
    """Raises UsageError where a step takes more RAM than there is; it says what the least step takes."""
    room = context.options.room
    if not room or needed <= room:
        return
    sgd = Optimizer("sgd", asked.optimizer.lr)
    small = replace(asked, update=Update("last", 1), optimizer=sgd, batch=None, accumulate=1)
    graph, _, _ = _step(parsed, trained(weights_of(parsed), small.update, parsed.where), small, context)
    least = min(needed, _ram(_scheduled(graph, context), graph))
    hint = f"the least is {least} bytes, by --update last:1 --optimizer sgd and no --batch"
    raise UsageError(
        f"a training step takes {needed} bytes of RAM (arena, state, samples), and there are {room}",
        hint=hint if least <= room else f"{hint}: more than there is; name a device with more, or give more --ram",
        where="--ram" if context.options.ram is not None else context.options.device.name,
    )


def _stepping(
    step: Step, parsed: Model, weights: Sequence[Weight], asked: Asked, context: Context
) -> tuple[Step, Program]:
    """The step in as many micro-batches as its memory asks for, and its program."""
    program, inputs = _scheduled(step, context), [n.type.shape for n in step.graph.inputs]
    found, batch = (step, program), int(inputs[0][0]) if inputs and inputs[0] else 1
    count = fewest(batch, program, sum(b.bytes for b in program.states.values()))
    for runs in dict.fromkeys((count, batch)):
        room = context.options.room
        if runs == 1 or (runs > count and not (room and _ram(found[1], found[0]) > room)):
            continue
        small, _, _ = _step(parsed, weights, asked, context, runs)
        if small.micro is None:
            continue
        program = updating_last(_scheduled(small, context), small)
        if _ram(program, small) < _ram(found[1], found[0]):
            found = small, program
    return found


def _scheduled(step: Step, context: Context) -> Program:
    """The program of a step: with what is cheap computed again where that takes less memory, and the rest as well where
    there is less RAM than that takes; the least of all, where none fits. On a GPU, whose kernels cost a launch each,
    only the statistics of rows are."""
    graph: Graph = run(step.graph, context, "simplify", "compress").result.graph
    loss = dict(graph.outputs)[step.graph.outputs[0][0]]
    found: list[tuple[int, Program]] = []
    for trial, is_free in _trials(graph, loss, is_alone=context.options.device.language != "c"):
        if is_free or (context.options.room and min(b for b, _ in found) > context.options.room):
            program = _program(run(trial, context, "fuse", "schedule"))
            found.append((_ram(program, step), program))
    return min(found, key=lambda f: f[0])[1]


def _trials(graph: Graph, loss: Node, is_alone: bool) -> Iterator[tuple[Graph, bool]]:
    """The graph of a step, and others that keep less for the backward pass, each with whether it is always tried."""
    if is_alone:
        yield read_where_stored(in_one_pass(graph, [loss])), True
        return
    graph = in_one_pass(graph, [loss])
    yield graph, True
    packed, words = with_packed_masks(graph, [loss])
    if packed is not graph:
        yield packed, True
    known = {graph.outputs, packed.outputs}
    for k, limits in enumerate(RECOMPUTINGS):
        for begun, results in ((graph, [loss]), (packed, [loss, *words])):
            again = recomputed(begun, results, limits)
            if again.outputs not in known:
                known.add(again.outputs)
                yield again, k < FREE


def _ram(program: Program, step: Step) -> int:
    """Bytes of the arena, of states once, and of the samples of all micro-batches and the loss."""
    runs = step.micro.count if step.micro is not None else 1
    states = set(program.states.values())
    inputs = (b.bytes * (1 if b in states else runs) for _, b, _ in program.inputs)
    return program.arena_bytes + sum(inputs) + sum(b.bytes for _, b, _ in program.outputs if b not in program.states)


def _program(run: Run) -> Program:
    program: Program = run["schedule"]
    return program


def _step(
    parsed: Model, weights: Sequence[Weight], asked: Asked, context: Context, runs: int = 1
) -> tuple[Step, Model, Sequence[Weight]]:
    """The step, the model with the trained weights as inputs, and those weights: without any that change no answer.

    With several ``runs`` the step takes one of as many micro-batches, where the network and the optimizer allow that.
    """
    answers, axis = answers_of(parsed, asked.output, taken_in(asked.loss))
    statistics = statistics_of(parsed) if asked.renews_statistics else []
    judged, counter = with_dropout(with_inputs(parsed, [*weights, *statistics], [answers]), asked.dropping)
    judged, running = with_batch_statistics(judged) if statistics else (judged, {})
    graph = _imported(judged, context)
    if asked.batch is not None:
        graph = _batched(judged, graph, {*(w.name for w in weights), *running, counter}, asked.batch, context)
    joins = context.options.device.language == "cuda"  # a launch costs what a kernel over a small weight does
    adds_up = is_added_up(asked.optimizer) and asked.accumulate == 1 and not (joins or running or counter)
    part = None
    if runs > 1 and adds_up and not is_own(asked.loss) and axis % max(graph.outputs[0][1].type.rank, 1):
        part = portion(unrolled(graph), {w.name for w in weights}, runs)
    graph = part or graph
    loss = loss_for(asked.loss, graph.outputs[0][1].type, read(asked.loss) if is_own(asked.loss) else None)
    trained = tuple(w.name for w in weights)
    scales = _scales(context)
    choices = Choices(
        loss,
        asked.optimizer,
        trained,
        axis,
        asked.accumulate,
        counter,
        joins,
        scales,
        not joins,
        running,
        blocks=_blocks(context),
        micro_batches=runs if part is not None else 1,
    )
    step = training_step(graph, choices)
    kept = [w for w in weights if w.name in step.trained]
    if len(kept) < len(weights):
        return _step(parsed, kept, asked, context, runs)
    step = replace(step, graph=replace(step.graph, metadata={**step.graph.metadata, MODEL_SHA256: digest(parsed)}))
    weights = [*weights, *statistics]
    return step, without_dropout(with_inputs(parsed, weights)), weights


def _blocks(context: Context) -> Blocks | None:
    """The kernels that the device has for attention backwards in blocks."""
    device = context.options.device
    if not device.is_gpu:
        return Blocks()
    largest = largest_head(device)
    return Blocks(largest, has_statistics=True) if largest else None


def _scales(context: Context) -> bool:
    """Are gradients kept in halves, so that the loss is scaled?"""
    device = context.options.device
    return device.language == "cuda" and device.precision == "fp16"


def _imported(model: Model, context: Context) -> Graph:
    graph: Graph = run(model, context, until="import").result
    if graph.sizes:
        hint = "cut off operators such as NonZero and Unique, whose results are as long as data make them"
        raise UsageError("a network with sizes that follow from data is not trained", hint=hint, where=model.where)
    if states(graph) or not all(n.type.is_fixed for n in graph.inputs):
        hint = "fix open dimensions with --shape, and leave out --state"
        raise UsageError("a network with states or open dimensions is not trained", hint=hint, where=model.where)
    return graph


def _batched(model: Model, one: Graph, own: Collection[str | None], batch: int, context: Context) -> Graph:
    """The network for ``batch`` samples: the first dimension of all of its inputs but its ``own``, which is 1 or
    open."""
    inputs = [n for n in one.inputs if n.attributes["name"] not in own]
    fixed = [n for n in inputs if not n.type.rank or n.type.shape[0] not in (1, batch)]
    if fixed:
        name = printable(str(fixed[0].attributes["name"]))
        raise UsageError(
            f"input '{name}' is {fixed[0].type}, which is no batch of one", hint="leave out --batch", where="--batch"
        )
    shapes = {str(n.attributes["name"]): (batch, *n.type.shape[1:]) for n in inputs}
    options = replace(context.options, shapes={**context.options.shapes, **shapes})
    hint = "export the network with an open batch, or leave out --batch"
    try:
        found = _imported(with_batch(model, shapes), replace(context, options=options))
    except ModelError as error:
        message = f"the network takes one sample a run: {error.message}"
        raise UsageError(message, hint=hint, where=error.where) from None
    if any(not n.type.rank or n.type.shape[0] != batch for _, n in found.outputs[:1]):
        raise UsageError("the answers have no dimension of samples", hint=hint, where="--batch")
    return found
