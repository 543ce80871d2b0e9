"""A build with a training step: the network on weights that are inputs, and the step that renews them."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
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
from edgec.errors import UsageError
from edgec.frontend.onnx.adapters import with_adapters
from edgec.frontend.onnx.batch_norm import STATISTIC, statistics_of, with_batch_statistics
from edgec.frontend.onnx.dropout import with_dropout, without_dropout
from edgec.frontend.onnx.model import Model, read
from edgec.frontend.onnx.trainable import Weight, answers_of, weights_of, with_inputs, with_values
from edgec.frontend.onnx.widened import with_floats
from edgec.frontend.source import Parsed, digest
from edgec.frontend.states import states
from edgec.ir.graph import MODEL_SHA256, Graph
from edgec.options.training import ONE_BY_ONE, TOGETHER
from edgec.options.training import Training as Asked
from edgec.pipeline.batch import Importer, OneByOne, batched, meeting
from edgec.pipeline.context import Context
from edgec.pipeline.micro_batches import SLACK, counts, fewest, largest, portion, updating_last
from edgec.pipeline.replicas import in_replicas
from edgec.pipeline.run import STAGES, Run, run
from edgec.pipeline.run import Step as Done
from edgec.pipeline.striped import in_fitting_stripes
from edgec.pipeline.trials import Trials, planned, ram_of, tried
from edgec.schedule.gpu.attention_gradients import largest_head
from edgec.schedule.known import Known
from edgec.schedule.program import Program, Training
from edgec.schedule.replicas import Replicas
from edgec.schedule.sharing import sharing
from edgec.text import printable


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
    context = replace(context, known=Known())
    alone = _alone(parsed, chosen, asked, context)
    step, opened, weights = _step(parsed, chosen, asked, context, alone=alone)
    is_one_by_one = step.micro is not None
    done = run(opened, context, until="schedule")
    begun = time.perf_counter()
    step, stepping, replicas = _stepping(step, parsed, chosen, asked, context)
    stepping = _fitted(step, stepping, context)
    _hold_ram(ram_of(stepping, step), parsed, asked, context)
    program, taught = sharing(_program(done), stepping)
    said = {**asked.said, "trained": ", ".join(printable(w.name) for w in weights if w.kind != STATISTIC)}
    precision = context.options.device.precision
    said |= {"samples": ONE_BY_ONE if is_one_by_one else TOGETHER}
    said |= {"precision": precision, "loss_scale": f"{FIRST if _scales(context) else 1:g}"}
    model = with_values(parsed, {}).SerializeToString(deterministic=True)
    values = {w.name: w.value for w in weights}
    own = read(asked.loss).proto.SerializeToString(deterministic=True) if is_own(asked.loss) else None
    places = step.joined.places if step.joined is not None else {}
    statistics = tuple(w.name for w in weights if w.kind == STATISTIC)
    runs = step.micro.count if step.micro is not None else 1
    taught_by = Training(
        taught, values, step.classes, asked.optimizer.lr, said, model, own, places, statistics, runs, replicas,
        step.early if replicas is not None else frozenset(),
    )  # fmt: skip
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
    """Raises UsageError where a step takes more RAM than there is; it says what is enough for a small one."""
    room = context.options.room
    if not room or needed <= room:
        return
    sgd = Optimizer("sgd", asked.optimizer.lr)
    small = replace(asked, update=Update("last", 1), optimizer=sgd, batch=None, accumulate=1)
    graph, _, _ = _step(parsed, trained(weights_of(parsed), small.update, parsed.where), small, context)
    least = min(needed, ram_of(_fitted(graph, Trials(graph, context).least(), context), graph))
    hint = f"{least} bytes are enough for --update last:1 --optimizer sgd and no --batch"
    raise UsageError(
        f"a training step takes {needed} bytes of RAM (arena, state, samples), and there are {room}",
        hint=hint if least <= room else f"{hint}: more than there is; name a device with more, or give more --ram",
        where="--ram" if context.options.ram is not None else context.options.device.name,
    )


def _stepping(
    step: Step, parsed: Model, weights: Sequence[Weight], asked: Asked, context: Context
) -> tuple[Step, Program, Replicas | None]:
    """The step in as many micro-batches as its memory asks for, its program, and how many of it threads run at once."""
    trials, room, inputs = Trials(step, context), context.options.room, [n.type.shape for n in step.graph.inputs]
    if step.micro is not None:
        return in_replicas((step, updating_last(trials.least(), step)), context, lambda: None)
    batch = int(inputs[0][0]) if inputs and inputs[0] else 1
    kept = sum(n.type.bytes for n in step.graph.inputs if n.attributes["name"] in step.states)
    small: dict[int, tuple[Step, Program] | None] = {}

    def of(runs: int) -> tuple[Step, Program] | None:
        """The step in so many micro-batches; None where it cannot be taken so."""
        if runs not in small:
            part, _, _ = _step(parsed, weights, asked, context, runs)
            made = updating_last(Trials(part, context).least(), part) if part.micro is not None else None
            small[runs] = (part, made) if made is not None else None
        return small[runs]

    program, threads = None, context.options.threads
    may_divide = is_added_up(asked.optimizer) and context.options.device.language == "c" and not room
    if may_divide and (most := largest(batch, threads, kept)):
        program = trials.program(most)
        part = of(counts(batch, threads)[-1]) if program is None else None
        # the step as a whole takes more than so many bytes: does it take more than the smallest part of it does?
        if part is not None and trials.program(max(most, part[1].arena_bytes + SLACK)) is None:
            return in_replicas(part, context, lambda: None)
    found = step, program or trials.least()
    count = fewest(batch, found[1], sum(b.bytes for b in found[1].states.values()))
    for runs in [n for n in counts(batch, 1) if n >= count]:
        if runs == 1 or (runs > count and not (room and ram_of(found[1], found[0]) > room)):
            continue
        part = of(runs)
        if part is not None and ram_of(part[1], part[0]) < ram_of(found[1], found[0]):
            found = part
    return in_replicas(found, context, lambda: of(threads) if may_divide and batch % threads == 0 else None)


def _fitted(step: Step, program: Program, context: Context) -> Program:
    """The program of a step in stripes, where it takes more memory than there is."""
    room = context.options.room
    if not room or ram_of(program, step) <= room:
        return program

    def trial(graph: Graph) -> Program:
        found = tried(graph, context)
        assert found is not None
        return found if step.micro is None else updating_last(found, step)

    return in_fitting_stripes(program, room, lambda g: planned(g, context), trial, lambda p: ram_of(p, step))


def _program(run: Run) -> Program:
    program: Program = run["schedule"]
    return program


def _step(
    parsed: Model,
    weights: Sequence[Weight],
    asked: Asked,
    context: Context,
    runs: int = 1,
    alone: OneByOne | None = None,
) -> tuple[Step, Model, Sequence[Weight]]:
    """The step, the model with the trained weights as inputs, and those weights: without any that change no answer.

    With several ``runs`` the step takes one of as many micro-batches, where the network and the optimizer allow that;
    one a sample where samples run ``alone``.
    """
    answers, axis = answers_of(parsed, asked.output, taken_in(asked.loss))
    statistics = statistics_of(parsed) if asked.renews_statistics else []
    judged, counter = with_dropout(with_inputs(parsed, [*weights, *statistics], [answers]), asked.dropping)
    judged, running = with_batch_statistics(judged) if statistics else (judged, {})
    graph = _imported(judged, context)
    joins = context.options.device.language == "cuda"  # a launch costs what a kernel over a small weight does
    adds_up = asked.accumulate == 1 and not (joins or running or counter or is_own(asked.loss))
    divides = adds_up and bool(axis % max(graph.outputs[0][1].type.rank, 1))
    part = None
    if asked.batch is not None:
        own = {*(w.name for w in weights), *running, counter}
        found = alone or batched(judged, graph, own, asked.batch, _importer(context))
        if isinstance(found, Graph):
            graph = found
        elif divides:
            part, runs = graph, asked.batch
        else:
            raise found.refusal(_instead(asked))
    if runs > 1 and part is None and divides and is_added_up(asked.optimizer):
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
        return _step(parsed, kept, asked, context, runs, alone)
    step = replace(step, graph=replace(step.graph, metadata={**step.graph.metadata, MODEL_SHA256: digest(parsed)}))
    weights = [*weights, *statistics]
    return step, without_dropout(with_inputs(parsed, weights)), weights


def _alone(parsed: Model, weights: Sequence[Weight], asked: Asked, context: Context) -> OneByOne | None:
    """The reason why samples of a batch run one by one, if there is one: of the network as it predicts."""
    if asked.batch in (None, 1):
        return None
    answers, _ = answers_of(parsed, asked.output, taken_in(asked.loss))
    model = without_dropout(with_inputs(parsed, weights, [answers]))
    one = _imported(model, context)
    return meeting(model, one, {w.name: w.value for w in weights}, _importer(context))


def _instead(asked: Asked) -> str:
    """Options in place of a batch whose samples would run one by one."""
    if asked.renews_statistics or is_own(asked.loss):
        return "leave out --batch"
    assert asked.batch is not None
    return (
        f"--accumulate {asked.accumulate * asked.batch} in place of --batch {asked.batch}, whose weights are the same"
    )


def _importer(context: Context) -> Importer:
    """Imports of a model with other shapes of its inputs."""

    def graph_of(model: Model, shapes: Mapping[str, tuple[int, ...]]) -> Graph:
        options = replace(context.options, shapes={**context.options.shapes, **shapes})
        return _imported(model, replace(context, options=options))

    return graph_of


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
