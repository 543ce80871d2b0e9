"""The stage functions: each takes the previous stage's result and the context, and returns its own result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import count
from math import inf
from typing import Any

from edgec import limits
from edgec.artifact.compile import compiled_network
from edgec.compress import Compressed, Request
from edgec.compress import compress as compress_graph
from edgec.compress.max_loss import parsed as parsed_max_loss
from edgec.compress.prune import Pruning, prune
from edgec.compress.retrain.train import Bind
from edgec.compress.widened import in_floats
from edgec.device.load import load_device
from edgec.device.probe import usable_cores
from edgec.differentiate.taps import by_taps
from edgec.emit.language import WGSL, language_of
from edgec.emit.partitioned import partitioned_files
from edgec.emit.project import Project, files
from edgec.emit.webgpu import webgpu_files
from edgec.errors import UsageError
from edgec.execute.mixed_precision import mixed
from edgec.frontend.language.chat import with_chat
from edgec.frontend.onnx.indices import without_checks
from edgec.frontend.onnx.model import Model
from edgec.frontend.onnx.trainable import with_batch
from edgec.frontend.source import identity, import_graph, read
from edgec.frontend.states import with_states
from edgec.fuse import Plan
from edgec.fuse import plan as plan_graph
from edgec.fuse.assignment import Assignment
from edgec.fuse.order import in_less_memory
from edgec.fuse.single import one_token, single_plan
from edgec.fuse.stripe_ways import Lives, fitting
from edgec.ir.graph import OF_MODEL, Graph
from edgec.ir.sizes import outputs_alone, outputs_apart
from edgec.options import Options
from edgec.options.compression import vector_of
from edgec.options.overrides import require_known, require_offered
from edgec.partition import Segment, assign, divide
from edgec.pipeline.bounding import for_bounds, with_bounds
from edgec.pipeline.context import Context
from edgec.pipeline.preprocessing import with_preprocessing
from edgec.pipeline.retraining import Rounding, Tools, retrained
from edgec.report.fit import fit
from edgec.rewrite import load_rules
from edgec.rewrite import simplify as simplify_graph
from edgec.rewrite.applied import Applied
from edgec.rewrite.measure import OpCosts
from edgec.schedule.build import schedule as schedule_plan
from edgec.schedule.contract.micro_kernel import load_micro_kernels
from edgec.schedule.gpu.attention import largest_head
from edgec.schedule.gpu.stored_windows import is_stored_gradient, with_stored_windows
from edgec.schedule.levels import choices_of, with_levels
from edgec.schedule.options import ScheduleOptions
from edgec.schedule.parts import joined
from edgec.schedule.program import Part, Program
from edgec.schedule.single import with_single
from edgec.schedule.thread_count import thread_count
from edgec.schedule.variants import Variants
from edgec.tune.known import prices_for, variants_for

#: Upper bound of the memory of stored values, halos and gaps included, as a multiple of their bytes.
CERTAIN = 2
#: The part of the RAM there is that a thread may take to transform weights which are no constants.
SCRATCH = 64


@dataclass(frozen=True)
class Simplified:
    """A simplified network, and the rules that were applied to it, in order."""

    graph: Graph
    applied: tuple[Applied, ...] = ()


def import_(source: Any, context: Context) -> Graph:
    """The graph of a model, with the hash of its file."""
    o = context.options
    with limits.stage("import", o.limits):
        parsed, o = with_preprocessing(read(source), o)
        graph = import_graph(
            parsed, o.shapes, values=o.values, dims=o.dims, rounds=o.loops, context=o.context,
            cache=o.cache, lora=o.lora, ops_folders=o.operators,
        )  # fmt: skip
    if o.device.is_gpu or o.gpu is not None:
        graph = without_checks(graph)
    hashed = context.facts.get("model") or {}
    told = {key: value for key, value in graph.metadata.items() if key not in OF_MODEL}
    graph = replace(graph, metadata={**told, **identity(parsed, graph, hashed.get("sha256"))})
    return with_chat(with_states(graph, o.states), o.chat_template)


def simplify(graph: Graph, context: Context) -> Simplified:
    o = context.options
    prices = OpCosts.on(o.device)
    known = load_rules(o.rules)
    require_known(o.disable_rules, [r.name for r in known], "--disable-rule", "rule")
    rules = [r for r in known if r.name not in o.disable_rules]
    graph = by_taps(graph, lambda n: is_stored_gradient(n, o.device)) if o.device.is_gpu else graph
    simpler, applied = simplify_graph(outputs_alone(graph), rules, numeric=o.numeric, prices=prices)
    return Simplified(outputs_apart(simpler, graph), applied)


def compress(simplified: Simplified, context: Context) -> Compressed:
    """Prune, retrain, then quantize, where the options ask for it; the graph is simplified again after each."""
    o = context.options
    graph = _in_floats(simplified.graph, context)
    pruned, learned = None, None
    if o.prune is not None:
        max_loss = parsed_max_loss(o.max_loss) if o.max_loss is not None else None
        vector = vector_of(o.device)
        wanted = Pruning(o.prune, o.sparsity, o.prune_by, o.calibrate, max_loss, o.masks, vector=vector)
        pruned = prune(graph, wanted, lambda trial: _offers(trial, context))
        graph = simplify(pruned.graph, context).graph
    if o.retraining is not None:
        rounding = Rounding(o.device, o.calibrate, o.observer) if o.quantize == "int8" else None
        tools = Tools(
            lambda samples: _widened(samples, context),
            lambda pruned: simplify(pruned, context).graph,
            lambda step: _bound(step, context),
        )
        graph, learned = retrained(
            _in_floats(simplified.graph, context), graph, pruned, rounding, o.retraining, tools, context.progress
        )
    device = o.levels[-1] if o.levels else o.device  # the levels share a network: layers gain on the best of them
    asked = Request(o.quantize, o.calibrate, o.observer, o.max_loss, o.corrections, device)
    compressed = compress_graph(graph, asked)
    if compressed.graph is not graph:
        graph = simplify(compressed.graph, context).graph
    return replace(compressed, graph=graph, pruned=pruned, retrained=learned)


def _widened(samples: int, context: Context) -> Graph:
    """The simplified network for so many samples. Raises ModelError or UsageError where it takes one alone."""
    model = read(context.model) if context.model is not None else None
    if not isinstance(model, Model):
        hint = "give the ONNX model itself, or leave out --retrain"
        raise UsageError("only an ONNX model is read again for several samples", hint=hint)
    inputs = import_(model, context).inputs
    shapes = {str(n.attributes["name"]): (samples, *(int(d) for d in n.type.shape[1:])) for n in inputs}
    options = replace(context.options, shapes={**context.options.shapes, **shapes})
    wider = replace(context, options=options)
    return _in_floats(simplify(import_(with_batch(model, shapes), wider), wider).graph, wider)


def _in_floats(graph: Graph, context: Context) -> Graph:
    """The graph in floats of 32 bits where it is pruned or quantized."""
    o = context.options
    wide = in_floats(graph) if o.prune is not None or o.quantize != "float" else graph
    return simplify(wide, context).graph if wide is not graph else graph


def _bound(step: Graph, context: Context) -> Bind:
    """A training step, compiled for this machine."""
    options = replace(
        context.options, device=load_device("host"), levels=(), gpu=None, threads=usable_cores(),
        cores=(), quantize="float", prune=None,
        retraining=None, ram=None, weights="incbin", name="step", materialize=frozenset(), overrides={}, tiles={},
        error=0.0, micro_kernels=(), templates=(),
    )  # fmt: skip
    own = Context(options, context.progress)
    program = schedule(fuse(Compressed(simplify(step, own).graph), own), own)
    return compiled_network(emit(program, own), own).bind


def _offers(graph: Graph, context: Context) -> dict[str, Any]:
    """Predictions of the scheduler for skipping zero weights (`SparseOffer`), by the names of the nodes."""
    o = context.options
    if o.prune is not None and o.prune.kind == "nm" and o.device.language == "cuda" and o.quantize in ("int8", "mixed"):
        # 2:4 gains on tensor cores alone, which take halves as they will take bytes.
        o = replace(o, device=replace(o.device, precision="fp16"))
    trial = Context(replace(o, gpu=None, levels=()), prices=context.prices)
    plan = fuse(Compressed(simplify(graph, trial).graph), trial)
    program = schedule_plan(plan, o.device, ScheduleOptions(numeric=o.numeric))
    return {name: k.sparsity for k in program.kernels if k.sparsity is not None for name in k.names}


def fuse(compressed: Compressed, context: Context) -> Plan:
    """Plan the blocks, for each level of a library by the costs of its own device."""
    plan = _fused(compressed, context)
    levels = tuple(_fused(compressed, own) for own in _further(context))
    return replace(plan, levels=levels) if levels else plan


def _further(context: Context) -> list[Context]:
    """The contexts of the further levels of a library, each as if it were built alone."""
    found = []
    frozen = context.variants.frozen if context.variants is not None else None
    for device in context.options.levels[1:]:
        own = replace(context, options=replace(context.options, device=device, levels=()), prices=None, variants=None)
        if frozen is not None:
            choices = choices_of(device, frozen)
            own = replace(own, prices=prices_for(own.options, choices), variants=Variants(frozen=choices))
        found.append(own)
    return found


def _fused(compressed: Compressed, context: Context) -> Plan:
    """Plan the blocks; in stripes where the network would not fit into RAM otherwise."""
    plan, room = _planned(compressed, context), context.options.room
    standing = [b.output for b in plan.blocks]
    if not room or not context.divides or plan.graph.sizes or context.options.gpu:
        return plan
    if Lives(plan.graph, standing).peak * CERTAIN <= room:
        return plan

    def ram(of: Plan) -> int:
        return int(fit(schedule(of, context), context.options.device)["ram"]["bytes"])

    def ram_of(trial: Graph) -> int:
        return ram(_planned(replace(compressed, graph=trial), context))

    whole = ram(plan)
    found = fitting(plan.graph, standing, room, whole, ram_of) if whole > room else None
    if found is None:
        return plan
    graph, stripes = found
    return replace(_planned(replace(compressed, graph=graph), context), stripes=stripes)


def _planned(compressed: Compressed, context: Context) -> Plan:
    o, graph = context.options, with_stored_windows(compressed.graph, context.options.device)
    prices = context.prices if context.prices is not None else prices_for(o)
    names = [name for n in graph.operations() for name in graph.names(n)]
    require_known(o.materialize, names, "--materialize", "node")
    require_known([key.partition(" ")[2] for key in o.overrides], names, "--override", "node")
    plan = plan_graph(
        graph,
        o.fuse,
        prices=prices,
        gpu=o.device.is_gpu,
        head=largest_head(o.device),
        few_bits=o.device.language == "cuda" and one_token(graph) is not None,
        updatable=o.weights in ("file", "stream"),
        materialize=o.materialize,
        chosen=o.overrides,
        units=o.device.gpu.multiprocessors if o.device.is_gpu else o.threads,
    )
    require_offered(o.overrides, plan)
    plan = replace(plan, bf16_layers=compressed.bf16_layers)
    if o.training is not None:
        plan = in_less_memory(plan)
    if o.gpu is None:
        return plan
    assignment = assign(plan, o.device, o.gpu, o.threads)
    if assignment.sides == {"gpu"}:
        plan = fuse(compressed, replace(context, options=replace(o, device=o.gpu, gpu=None)))
    return replace(plan, assignment=assignment)


def schedule(plan: Plan, context: Context) -> Program:
    """Schedule every block on the device that it is assigned to, and all blocks for each level of a library."""
    if context.options.bounds:
        context = replace(context, options=for_bounds(context.options))
    program = _scheduled(plan, context)
    if context.options.bounds:
        program = with_bounds(program, plan, context.options, lambda graph, tiles: _of_bounds(graph, tiles, context))
    if not plan.levels:
        return program
    others = [_scheduled(own, further) for own, further in zip(plan.levels, _further(context), strict=True)]
    return with_levels([program, *others], context.options.levels)


def _of_bounds(graph: Graph, tiles: Mapping[str, tuple[int, int]], context: Context) -> Program:
    """The program of a graph of bounds, on one thread: by predicted costs, so that a locked build is the same again."""
    names = {name for n in graph.operations() for name in graph.names(n)}
    tiles = {name: tile for name, tile in tiles.items() if name in names}
    options = replace(
        context.options, bounds=False, numeric="exact", threads=1, profiles=False, ram=None, tiles=tiles,
        materialize=frozenset(), overrides={}, micro_kernels=(),
    )  # fmt: skip
    own = Context(options, context.progress, variants=Variants())
    return _scheduled(_planned(Compressed(graph), own), own)


def _scheduled(plan: Plan, context: Context) -> Program:
    """Schedule every block on the device that it is assigned to."""
    o = settled(context.options, plan.assignment)
    if plan.assignment is not None and o.gpu is not None and len(plan.assignment.sides) > 1:
        segments = divide(plan.graph, plan.assignment)
        return joined(plan, [_part(segment, plan.bf16_layers, context) for segment in segments])
    known = context.variants if context.variants is not None else variants_for(o)
    variants = Variants(known.measured, known.frozen, seen=known.seen)
    begun = count(1)

    def progress(name: str) -> None:
        context.progress("schedule", name, next(begun) / len(plan.blocks))

    names = [name for b in plan.blocks for n in b.nodes for name in plan.graph.names(n)]
    require_known(o.tiles, names, "--tile", "node")
    options = ScheduleOptions(
        thread_count(plan, o.device, o.threads), o.numeric, o.tiles, variants, bf16_layers=plan.bf16_layers,
        micro_kernels=load_micro_kernels(o.micro_kernels),
        in_levels=o.training is not None and o.device.language == "cuda",
        known=context.known,
        arena=context.arena,
        scratch=o.room // SCRATCH if o.room else inf,
    )  # fmt: skip

    def scheduled(fp32_blocks: int | None = None) -> Program:
        return schedule_plan(plan, o.device, replace(options, fp32_blocks=fp32_blocks), progress)

    first = 0 if o.training is not None else None  # the first products of a step are like its others
    program = mixed(plan, scheduled, o.error, o.calibrate) if o.error else scheduled(first)
    single = single_plan(plan.graph, largest_head(o.device)) if o.device.language == "cuda" else None
    if single is not None:
        program = with_single(
            program, schedule_plan(single, o.device, ScheduleOptions(numeric=o.numeric, fp32_blocks=0)), o.device
        )
    return replace(program, assignment=plan.assignment, choices={**program.choices, **variants.chosen})


def settled(options: Options, assignment: Assignment | None) -> Options:
    """The options after partition: those of the GPU alone, where it runs the whole network."""
    if assignment is None or options.gpu is None or assignment.sides != {"gpu"}:
        return options
    return replace(options, device=options.gpu, gpu=None)


def _part(segment: Segment, bf16_layers: frozenset[str] | None, context: Context) -> Part:
    """The program of a segment on its device."""
    o = context.options
    device = o.gpu if segment.side == "gpu" and o.gpu is not None else o.device
    names = {name for n in segment.graph.operations() for name in segment.graph.names(n)}
    own = replace(
        o,
        device=device,
        gpu=None,
        materialize=o.materialize & names,
        overrides={key: variant for key, variant in o.overrides.items() if key.partition(" ")[2] in names},
        tiles={name: tile for name, tile in o.tiles.items() if name in names},
    )
    inner = replace(context, options=own)
    plan = fuse(Compressed(segment.graph, bf16_layers=bf16_layers), inner)
    return Part(device, schedule(plan, inner), segment.reads, segment.writes)


def emit(program: Program, context: Context) -> Project:
    """The files of the project; the lock records the requested number of threads, which may exceed the program's."""
    o = settled(context.options, program.assignment)
    facts = {**context.facts, "threads": o.threads, "choices": program.choices}
    if program.parts:
        if o.weights != "incbin":
            hint = "leave out --weights, or --place"
            raise UsageError("weights of networks on two devices are linked", hint=hint, where=f"--weights {o.weights}")
        return Project(program, partitioned_files(program, o.device, o.name, o.templates, facts, context.extras))
    extras, prepared = context.extras, context.preprocessing
    if language_of(o.device) is WGSL:
        return Project(
            program, webgpu_files(program, o.device, o.name, o.templates, facts, extras, prepared, o.weights)
        )
    made = files(
        program, o.device, o.name, o.templates, facts, extras, prepared, o.weights, o.ram, o.cores, context.abis
    )
    return Project(program, made)
