"""THE list of stages, and the runner that walks it: the only place where order exists.

Every stage is a plain function ``(value, context) -> value``. The value it leaves is verified, timed, printed where
that is asked for, and can be executed on numpy arrays, so that an error can be traced to the stage that brought it in.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgec.artifact import stages as saved
from edgec.artifact.compile import compiled_executor
from edgec.compress import Compressed
from edgec.emit.project import Project
from edgec.errors import UsageError
from edgec.execute.executor import Executor, executor, run_graph, run_plan, run_program
from edgec.execute.invariants import verify_plan, verify_program
from edgec.fuse import Plan
from edgec.fuse.assignment import Assignment
from edgec.fuse.stripes import Stripes
from edgec.ir.graph import Graph
from edgec.ir.verify import verify
from edgec.options import Options
from edgec.pipeline import stages
from edgec.pipeline.context import Context
from edgec.report import listing
from edgec.rewrite.engine import Applied
from edgec.schedule.program import Program


@dataclass(frozen=True)
class Stage:
    """One stage: its function, the package folder it lives in, and what can be done with its result."""

    name: str
    folder: str
    run: Callable[[Any, Context], Any]
    verify: Callable[[Any], None]
    show: Callable[[Any], str]
    executor: Callable[[Any, Context], Executor]


def graph_of(value: Any) -> Graph:
    """The graph in what import, simplify or compress left."""
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


def _show_graph(value: Any) -> str:
    return saved.show_graph(graph_of(value))


STAGES: tuple[Stage, ...] = (
    Stage("import", "frontend", stages.import_, verify, saved.show_graph, _graph_executor),
    Stage("simplify", "rewrite", stages.simplify, _verify_graph, _show_graph, _graph_executor),
    Stage("compress", "compress", stages.compress, _verify_graph, saved.show_compressed, _graph_executor),
    Stage("fuse", "fuse", stages.fuse, verify_plan, listing.show_plan, _plan_executor),
    Stage("schedule", "schedule", stages.schedule, verify_program, listing.show_program, _program_executor),
    Stage("emit", "emit", stages.emit, _nothing_to_verify, listing.show_project, _project_executor),
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
    def stripes(self) -> Stripes | None:
        return self["fuse"].stripes if "fuse" in self else None

    @property
    def assignment(self) -> Assignment | None:
        """The device of every block; None where there is one device."""
        return next((s.value.assignment for s in self.steps if s.stage.name in ("fuse", "schedule")), None)

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

    ``source`` is a model for ``import``; for a later stage it is the text that an earlier walk saved of the stage
    before it (or the graph in it). With ``save``, the text of every stage is written there as soon as it is known.

    Raises UsageError for stages that do not exist or cannot be started at.
    """
    chosen = _between(start, until)
    value = source if start == "import" else _left_before(start, source)
    steps: list[Step] = []
    graph = value if start == "import" else graph_of(value)
    for stage in chosen:
        context.progress(stage.name)
        begun = time.perf_counter()
        value = stage.run(value, context)
        stage.verify(value)
        steps.append(Step(stage, value, time.perf_counter() - begun))
        graph = value if stage.name == "import" else graph
        if save is not None:
            number = NAMES.index(stage.name) + 1
            saved.write(save, f"{number}_{stage.name}.txt", stage.show(value), value)
            if stage.name == "simplify":
                told = "".join(f"{step}\n" for step in value.applied)
                saved.write(save, f"{number}_{stage.name}_rules.txt", told, None)
    return Run(tuple(steps), context, graph)


def _left_before(start: str, source: Any) -> Any:
    """The value that ``start`` takes, from a graph or from the text of a saved stage."""
    if isinstance(source, Graph):
        compressed = Compressed(source)
    else:
        compressed = saved.read_compressed(Path(source))
        verify(compressed.graph)
    simplified = stages.Simplified(compressed.graph)
    return {"simplify": compressed.graph, "compress": simplified, "fuse": compressed}[start]


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
