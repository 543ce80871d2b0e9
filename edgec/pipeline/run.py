"""The list of stages in order, and the function that runs them. No other module knows the order.

Every stage is a plain function ``(value, context) -> value``. Its result is verified, timed, printed on request, and
can be executed on numpy arrays, so that an error can be traced to the stage that caused it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from edgec import limits
from edgec.artifact import stages as saved
from edgec.artifact.compile import compiled_executor
from edgec.compress import Compressed
from edgec.emit.project import Project
from edgec.errors import EdgecError, ModelError, UsageError
from edgec.execute.executor import Executor, executor, run_graph, run_plan, run_program
from edgec.execute.invariants import verify_plan, verify_program, warn_of_repeats
from edgec.fuse import Plan
from edgec.fuse.assignment import Assignment
from edgec.fuse.stripes import Stripes
from edgec.fuse.text import write_plan
from edgec.ir.graph import Graph
from edgec.ir.records.writer import Written
from edgec.ir.verify import verify
from edgec.options import Options
from edgec.pipeline import stages
from edgec.pipeline.context import Context
from edgec.rewrite.applied import Applied
from edgec.schedule.contract.micro_kernel import load_micro_kernels
from edgec.schedule.program import Program
from edgec.text import one_of


@dataclass(frozen=True)
class Stage:
    """One stage: its name, folder and function, and the functions that verify, show and execute its result."""

    name: str
    folder: str
    run: Callable[[Any, Context], Any]
    verify: Callable[[Any], None]
    show: Callable[[Any, Context], Written]
    executor: Callable[[Any, Context], Executor]


def graph_of(value: Any) -> Graph:
    """The graph in the result of a stage before emit."""
    return value if isinstance(value, Graph) else value.graph


def _verify_graph(value: Any) -> None:
    verify(graph_of(value))


def _graph_executor(value: Any, context: Context) -> Executor:
    return executor(run_graph, graph_of(value))


def _plan_executor(plan: Plan, context: Context) -> Executor:
    return executor(run_plan, plan)


def _program_executor(program: Program, context: Context) -> Executor:
    return executor(run_program, program)


def _project_executor(project: Project, context: Context) -> Executor:
    return compiled_executor(project, context)


def _nothing_to_verify(value: Any) -> None:
    """The sources are verified by the compiler."""


def _show_graph(value: Any, context: Context) -> Written:
    return saved.show_graph(graph_of(value))


def _show_compressed(compressed: Compressed, context: Context) -> Written:
    return saved.show_compressed(compressed)


def _show_plan(plan: Plan, context: Context) -> Written:
    return write_plan(plan)


def _show_program(program: Program, context: Context) -> Written:
    return saved.show_program(program, stages.settled(context.options, program.assignment).device)


def _show_project(project: Project, context: Context) -> Written:
    """Every file with its size and content hash."""
    rows = (
        f"{len(content):>12} {sha256(content).hexdigest()[:16]} {path}\n" for path, content in project.files.items()
    )
    return Written("".join(rows), {})


STAGES: tuple[Stage, ...] = (
    Stage("import", "frontend", stages.import_, verify, _show_graph, _graph_executor),
    Stage("simplify", "rewrite", stages.simplify, _verify_graph, _show_graph, _graph_executor),
    Stage("compress", "compress", stages.compress, _verify_graph, _show_compressed, _graph_executor),
    Stage("fuse", "fuse", stages.fuse, verify_plan, _show_plan, _plan_executor),
    Stage("schedule", "schedule", stages.schedule, verify_program, _show_program, _program_executor),
    Stage("emit", "emit", stages.emit, _nothing_to_verify, _show_project, _project_executor),
)
NAMES: tuple[str, ...] = tuple(s.name for s in STAGES)


@dataclass(frozen=True)
class Step:
    """Result of one stage, and its time."""

    stage: Stage
    value: Any
    seconds: float


@dataclass(frozen=True)
class Run:
    """The results of a run through several stages, in order.

    ``graph`` is the first graph: imported, or read from a saved stage. ``given`` is the name and the result of the
    saved stage that was read; None where the run began with a model.
    """

    steps: tuple[Step, ...]
    context: Context
    graph: Graph
    given: tuple[str, Any] | None = None

    @property
    def result(self) -> Any:
        return self.steps[-1].value

    @property
    def options(self) -> Options:
        """The options after partition: those of the GPU alone, where it runs the whole network."""
        return stages.settled(self.context.options, self.assignment)

    @property
    def applied(self) -> tuple[Applied, ...]:
        """The rules that were applied, in order; none where the run began later."""
        return self["simplify"].applied if "simplify" in self else ()

    @property
    def compressed(self) -> Compressed | None:
        """The compressed network with its findings; None where the run began later or ended earlier."""
        return next((s.value for s in self.steps if s.stage.name == "compress"), None)

    @property
    def plan(self) -> Plan | None:
        """The plan of the blocks; None where the run began later or ended earlier."""
        try:
            found: Plan = self["fuse"]
        except KeyError:
            return None
        return found

    @property
    def stripes(self) -> Stripes | None:
        return self.plan.stripes if self.plan is not None else None

    @property
    def assignment(self) -> Assignment | None:
        """The device of every block; None where there is one device."""
        return next((self[name].assignment for name in ("fuse", "schedule") if name in self), None)

    @property
    def seconds(self) -> dict[str, float]:
        return {s.stage.name: s.seconds for s in self.steps}

    def __getitem__(self, name: str) -> Any:
        """The result of the stage ``name``; KeyError when it did not run and its result was not read."""
        for step in self.steps:
            if step.stage.name == name:
                return step.value
        if self.given is not None and self.given[0] == name:
            return self.given[1]
        raise KeyError(name)

    def __contains__(self, name: object) -> bool:
        return name in {s.stage.name for s in self.steps} or (self.given is not None and self.given[0] == name)


def run(
    source: Any,
    context: Context,
    start: str = "import",
    until: str = "emit",
    save: Path | None = None,
) -> Run:
    """Run the stages from ``start`` to ``until``, both included.

    ``source`` is a model for ``import``; for a later stage it is the saved text of the stage before it (or the graph in
    it up to ``fuse``, and for ``schedule`` the plan). With ``save``, the text of every stage is written to that
    folder when the stage is done.

    Raises UsageError for unknown stages, or where ``until`` is before ``start``.
    """
    chosen = _between(start, until)
    load_micro_kernels(context.options.micro_kernels)
    value = source if start == "import" else _left_before(start, source, context)
    context = replace(context, model=source) if start == "import" else context
    given = None if start == "import" else (NAMES[NAMES.index(start) - 1], value)
    steps: list[Step] = []
    graph = value if start == "import" else graph_of(value)
    for stage in chosen:
        context.progress(stage.name)
        begun = time.perf_counter()
        with limits.stage(stage.name, context.options.limits):
            value = stage.run(value, context)
        stage.verify(value)
        if stage.name == "schedule":
            warn_of_repeats(value)
        steps.append(Step(stage, value, time.perf_counter() - begun))
        graph = value if stage.name == "import" else graph
        if save is not None:
            number = NAMES.index(stage.name) + 1
            own = None if stage.name == "emit" else graph_of(value)
            saved.write(save, f"{number}_{stage.name}.txt", stage.show(value, context), own)
            if stage.name == "simplify":
                told = "".join(f"{step}\n" for step in value.applied)
                saved.write(save, f"{number}_{stage.name}_rules.txt", Written(told, {}))
    return Run(tuple(steps), context, graph, given)


def _left_before(start: str, source: Any, context: Context) -> Any:
    """The argument of the stage ``start``, from a graph or from the text of a saved stage."""
    if isinstance(source, Plan):
        return source
    if start == "schedule":
        return _verified(saved.read_plan(Path(source)), verify_plan, source)
    if start == "emit":
        o = context.options
        devices = [d for d in (o.device, o.gpu, *o.levels) if d is not None]
        return _verified(saved.read_program(Path(source), devices), verify_program, source)
    if isinstance(source, Graph):
        compressed = Compressed(source)
    else:
        compressed = saved.read_compressed(Path(source))
        verify(compressed.graph)
    simplified = stages.Simplified(compressed.graph)
    return {"simplify": compressed.graph, "compress": simplified, "fuse": compressed}[start]


def _verified(value: Any, verify_value: Callable[[Any], None], source: Any) -> Any:
    """The value of a saved stage, verified because the file may have been edited."""
    try:
        verify(value.graph)
        verify_value(value)
    except EdgecError as error:
        raise ModelError(f"{error.message} ({error.where})", hint="save the stages again", where=str(source)) from None
    return value


def _between(start: str, until: str) -> tuple[Stage, ...]:
    for name in (start, until):
        if name not in NAMES:
            raise UsageError(f"there is no stage '{name}'", hint=one_of(name, NAMES))
    first, last = NAMES.index(start), NAMES.index(until)
    if first > last:
        raise UsageError(f"stage '{until}' comes before '{start}'", hint=f"their order is {', '.join(NAMES)}")
    return STAGES[first : last + 1]
