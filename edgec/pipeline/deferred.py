"""A run whose code was written before: its stages are executed when somebody asks for their results."""

from __future__ import annotations

import time
from functools import cached_property
from typing import Any

from edgec.ir.graph import Graph
from edgec.options import Options
from edgec.pipeline.context import Context
from edgec.pipeline.run import STAGES, Run, Step, run


class DeferredRun(Run):
    """Import when the graph is asked for, the stages until schedule when their results are; emit never.

    ``source`` is the model, and the context that of the build whose code is there.
    """

    _source: Any

    def __init__(self, source: Any, context: Context) -> None:
        self.__dict__.update(context=context, given=None, _source=source)

    @cached_property
    def _imported(self) -> Step:
        begun = time.perf_counter()
        graph = run(self._source, self.context, until="import").graph
        return Step(STAGES[0], graph, time.perf_counter() - begun)

    @cached_property
    def graph(self) -> Graph:
        found: Graph = self._imported.value
        return found

    @cached_property
    def steps(self) -> tuple[Step, ...]:
        rest = run(self.graph, self.context, STAGES[1].name, "schedule")
        return (self._imported, *rest.steps)

    @property
    def options(self) -> Options:
        """Those of the context where there is no second device, which partition could choose."""
        return self.context.options if self.context.options.gpu is None else super().options
