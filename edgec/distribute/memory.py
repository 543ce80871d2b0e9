"""Memory of the workers of a divided network: weights and arenas of their parts, and limits on them."""

from __future__ import annotations

from dataclasses import dataclass

from edgec.distribute.held import Held
from edgec.distribute.parts import Division
from edgec.distribute.prices import Prices, own
from edgec.errors import UsageError
from edgec.ir.graph import Graph
from edgec.pipeline.context import Context
from edgec.pipeline.run import run
from edgec.schedule.program import Program


@dataclass
class Memory:
    """A limit in bytes on what every worker keeps, and the least that a division needs of those held against it."""

    prices: Prices
    limit: int | None
    least: int | None = None

    def needed(self, division: Division) -> tuple[int, ...]:
        """Bytes of weights, arenas and states of each worker's parts."""
        found = [0] * (max(p.worker for p in division.parts) + 1)
        for p in division.parts:
            found[p.worker] += self._of(p.worker, p.graph)
        return tuple(found)

    def _of(self, worker: int, graph: Graph) -> int:
        options = own(self.prices.options[worker], graph)
        program: Program = run(graph, Context(options), "fuse", "schedule").result
        states = sum(n.type.bytes for n in Held(graph).loops)
        return int(program.arena_bytes) + int(program.weights_bytes) + states

    def fits(self, division: Division) -> bool:
        """Does every worker hold its parts? Without a limit, yes."""
        if self.limit is None:
            return True
        most = max(self.needed(division))
        self.least = most if self.least is None else min(self.least, most)
        return most <= self.limit

    def refusal(self) -> UsageError:
        """The error that nothing of what was tried fits, with the least that would."""
        assert self.limit is not None
        what = f"no division fits {self.limit / (1 << 20):.4g} MiB a worker"
        hint = "give more workers, or more of it"
        if self.least is not None:
            hint = f"the least that one of these needs is {self.least / (1 << 20):.4g} MiB (--memory {self.least})"
        return UsageError(what, hint=hint, where="--memory")
