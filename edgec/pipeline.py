"""THE list of stages, and the runner that walks it: the only place where order exists.

Every stage is a plain function ``(value, context) -> value``. What it leaves is verified, timed, printed where that is
asked for, and can be executed on numpy arrays, so that an error can be traced to the stage that brought it in.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from edgec.artifact import stages
from edgec.artifact.compile import compiled_executor
from edgec.compress import Request
from edgec.compress import compress as compress_graph
from edgec.compress.max_loss import parsed as parsed_max_loss
from edgec.compress.prune import Pruning, prune
from edgec.context import Context
from edgec.emit.partitioned import placed_files
from edgec.emit.project import Project, files
from edgec.errors import UsageError
from edgec.execute.executor import Executor, executor, run_graph, run_plan, run_program
from edgec.execute.invariants import verify_plan, verify_program
from edgec.execute.mixed_precision import mixed
from edgec.frontend.source import import_graph, read
from edgec.frontend.states import with_states
from edgec.fuse import Plan
from edgec.fuse import plan as plan_graph
from edgec.fuse.stripes import Lives, fitting
from edgec.ir.graph import Graph
from edgec.ir.sizes import outputs_alone, outputs_apart
from edgec.ir.verify import verify
from edgec.options.overrides import require_known, require_offered
from edgec.partition import Segment, assign, divide
from edgec.report import listing
from edgec.report.fit import fit
from edgec.rewrite import load_rules
from edgec.rewrite import simplify as simplify_graph
from edgec.rewrite.measure import Prices as OfRewriting
from edgec.schedule.build import schedule as schedule_plan
from edgec.schedule.gpu.attention import largest_head
from edgec.schedule.parts import joined
from edgec.schedule.program import Part, Program
from edgec.schedule.thread_count import thread_count
from edgec.tune.known import prices_for, variants_for

#: Values that lie in memory take no more than this many times their bytes, borders and gaps between them included.
CERTAIN = 2


def import_(source: Any, context: Context) -> Graph:
    o = context.options
    graph = import_graph(read(source), o.shapes, values=o.values, dims=o.dims, rounds=o.loops, ops_folders=o.operators)
    return with_states(graph, o.states)


def simplify(graph: Graph, context: Context) -> Graph:
    o = context.options
    prices = OfRewriting.on(o.device)
    known = load_rules(o.rules)
    require_known(o.disable_rules, [r.name for r in known], "--disable-rule", "rule")
    rules = [r for r in known if r.name not in o.disable_rules]
    simpler, applied = simplify_graph(outputs_alone(graph), rules, numeric=o.numeric, prices=prices)
    context.applied.extend(applied)
    return outputs_apart(simpler, graph)


def compress(graph: Graph, context: Context) -> Graph:
    o = context.options
    if o.prune is not None:
        max_loss = parsed_max_loss(o.max_loss) if o.max_loss is not None else None
        wanted = Pruning(o.prune, o.sparsity, o.prune_by, o.calibrate, max_loss, o.masks)
        context.pruned = prune(graph, wanted, lambda trial: _offers(trial, context))
        graph = simplify(context.pruned.graph, context)
    asked = Request(o.quantize, o.calibrate, o.observer, o.max_loss, o.corrections, o.device)
    compressed = compress_graph(graph, asked)
    context.compression = compressed.report
    context.halves = compressed.halves
    return graph if compressed.graph is graph else simplify(compressed.graph, context)


def _offers(graph: Graph, context: Context) -> dict[str, Any]:
    """What the scheduler would do with zeros in a network's weights, by the names of their nodes."""
    o = context.options
    trial = Context(replace(o, gpu=None), prices=context.prices)
    program = schedule_plan(fuse(simplify(graph, trial), trial), o.device, 1, None, o.numeric)
    return {name: k.sparsity for k in program.kernels if k.sparsity is not None for name in k.names}


def fuse(graph: Graph, context: Context) -> Plan:
    plan, room = _planned(graph, context), context.options.room
    standing = {b.output for b in plan.blocks}
    if not room or graph.sizes or context.options.gpu or Lives(plan.graph, standing).peak * CERTAIN <= room:
        return plan

    def ram(of: Plan) -> int:
        program = schedule(of, Context(context.options, prices=context.prices, variants=context.variants))
        return int(fit(program, context.options.device)["ram"]["bytes"])

    def ram_of(trial: Graph) -> int:
        return ram(_planned(trial, Context(context.options, prices=context.prices)))

    whole = ram(plan)
    context.striped = fitting(plan.graph, standing, room, whole, ram_of) if whole > room else None
    return plan if context.striped is None else _planned(context.striped.graph, context)


def _planned(graph: Graph, context: Context) -> Plan:

    o = context.options
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
        materialize=o.materialize,
        chosen=o.overrides,
    )
    require_offered(o.overrides, plan)
    if o.gpu is not None:
        context.placed = assign(plan, o.device, o.gpu, o.threads)
        if context.placed.sides == {"gpu"}:
            context.options = replace(o, device=o.gpu, gpu=None)
            return fuse(graph, context)
    context.chosen.update((c.key, c.taken.name) for c in plan.decisions.choices)
    return plan


def schedule(plan: Plan, context: Context) -> Program:

    o = context.options
    if context.placed is not None and len(context.placed.sides) > 1:
        return joined(plan, [_part(segment, context) for segment in divide(plan.graph, context.placed)])
    variants = context.variants if context.variants is not None else variants_for(o)
    begun = count(1)

    def progress(name: str) -> None:
        context.progress("schedule", name, next(begun) / len(plan.blocks))

    names = [name for b in plan.blocks for n in b.nodes for name in plan.graph.names(n)]
    require_known(o.tiles, names, "--tile", "node")
    scheduled = partial(
        schedule_plan, plan, o.device, thread_count(plan, o.device, o.threads), progress, o.numeric, o.tiles, variants,
        halves=context.halves,
    )  # fmt: skip
    program = mixed(plan, scheduled, o.error, o.calibrate) if o.error else scheduled()
    context.chosen.update(variants.chosen)
    return program


def _part(segment: Segment, context: Context) -> Part:
    """What the stages make of a segment on its device."""
    o = context.options
    device = o.gpu if segment.place == "gpu" and o.gpu is not None else o.device
    names = {name for n in segment.graph.operations() for name in segment.graph.names(n)}
    own = replace(
        o,
        device=device,
        gpu=None,
        materialize=o.materialize & names,
        overrides={key: variant for key, variant in o.overrides.items() if key.partition(" ")[2] in names},
        tiles={name: tile for name, tile in o.tiles.items() if name in names},
    )
    inner = replace(context, options=own, placed=None)
    return Part(device, schedule(fuse(segment.graph, inner), inner), segment.reads, segment.writes)


def emit(program: Program, context: Context) -> Project:
    o = context.options
    # Threads as asked for: the program may be better off with one.
    facts = {**context.facts, "threads": o.threads, "choices": context.chosen}
    if program.parts:
        return Project(program, placed_files(program, o.device, o.name, o.templates, facts, context.extras))
    return Project(program, files(program, o.device, o.name, o.templates, facts, context.extras, context.preprocessing))


@dataclass(frozen=True)
class Stage:
    """One stage: its function, the package folder it lives in, and what can be done with its result."""

    name: str
    folder: str
    run: Callable[[Any, Context], Any]
    verify: Callable[[Any], None]
    show: Callable[[Any], str]
    executor: Callable[[Any, Context], Executor]


def _graph_executor(graph: Graph, context: Context) -> Executor:
    return executor(run_graph, graph)


def _plan_executor(plan: Plan, context: Context) -> Executor:
    return executor(run_plan, plan)


def _program_executor(program: Program, context: Context) -> Executor:
    return executor(run_program, program)


def _project_executor(project: Project, context: Context) -> Executor:

    return compiled_executor(project, context)


def _nothing_to_verify(value: Any) -> None:
    """The sources are verified by the compiler."""


STAGES: tuple[Stage, ...] = (
    Stage("import", "frontend", import_, verify, stages.show_graph, _graph_executor),
    Stage("simplify", "rewrite", simplify, verify, stages.show_graph, _graph_executor),
    Stage("compress", "compress", compress, verify, stages.show_graph, _graph_executor),
    Stage("fuse", "fuse", fuse, verify_plan, listing.show_plan, _plan_executor),
    Stage("schedule", "schedule", schedule, verify_program, listing.show_program, _program_executor),
    Stage("emit", "emit", emit, _nothing_to_verify, listing.show_project, _project_executor),
)
NAMES: tuple[str, ...] = tuple(s.name for s in STAGES)


@dataclass(frozen=True)
class Step:
    """What one stage left, and how long it took."""

    stage: Stage
    value: Any
    seconds: float


@dataclass(frozen=True)
class Run:
    """A walk through stages, in order. ``graph`` is the one it began with: imported, or read from a saved stage."""

    steps: tuple[Step, ...]
    context: Context
    graph: Graph

    @property
    def result(self) -> Any:
        return self.steps[-1].value

    @property
    def seconds(self) -> dict[str, float]:
        return {s.stage.name: s.seconds for s in self.steps}

    def __getitem__(self, name: str) -> Any:
        """What the stage called ``name`` left; KeyError when it did not run."""
        for step in self.steps:
            if step.stage.name == name:
                return step.value
        raise KeyError(name)

    def __contains__(self, name: object) -> bool:
        return any(s.stage.name == name for s in self.steps)


def run(
    source: Any,
    context: Context,
    start: str = "import",
    until: str = "emit",
    save: Path | None = None,
) -> Run:
    """Walk the stages from ``start`` to ``until``, both included.

    ``source`` is a model for ``import``; for a later stage it is the text of a graph that an earlier walk saved
    (or the graph itself). With ``save``, what every stage leaves is written there as text, as soon as it is known.

    Raises UsageError for stages that do not exist or cannot be started at.
    """
    chosen = _between(start, until)
    value = source
    if start != "import" and not isinstance(source, Graph):
        value = stages.read_graph(Path(source))
        verify(value)
    steps: list[Step] = []
    graph = value
    for stage in chosen:
        context.progress(stage.name)
        begun = time.perf_counter()
        value = stage.run(value, context)
        stage.verify(value)
        steps.append(Step(stage, value, time.perf_counter() - begun))
        graph = value if stage.name == "import" else graph
        if save is not None:
            number = NAMES.index(stage.name) + 1
            stages.write(save, f"{number}_{stage.name}.txt", stage.show(value), value)
            if stage.name == "simplify":
                told = "".join(f"{step}\n" for step in context.applied)
                stages.write(save, f"{number}_{stage.name}_rules.txt", told, None)
    return Run(tuple(steps), context, graph)


def _between(start: str, until: str) -> tuple[Stage, ...]:
    for name in (start, until):
        if name not in NAMES:
            raise UsageError(f"there is no stage '{name}'", hint=f"the stages are {', '.join(NAMES)}")
    first, last = NAMES.index(start), NAMES.index(until)
    if first > last:
        raise UsageError(f"stage '{until}' comes before '{start}'", hint=f"their order is {', '.join(NAMES)}")
    if first > NAMES.index("fuse"):
        raise UsageError(
            f"a build cannot start at '{start}'",
            hint="plans and programs are saved to be read by people; graphs, up to the one fuse takes, read back",
        )
    return STAGES[first : last + 1]
