"""View of attention of few queries: slots for queries, keys, values, scores and results, and how threads share them."""

from __future__ import annotations

from functools import cached_property

from edgec.emit.gpu.slots import Slot, SlotView
from edgec.fuse.attention import DOT, MIXED
from edgec.ir.expr import Expr, Extent
from edgec.ir.nest import extent
from edgec.schedule.gpu.few_queries import KEYS, PARTS, GpuFewQueries


class FewQueriesView(SlotView):
    """In the template ``m`` numbers queries, ``n`` keys, ``k`` features of both and ``d`` those of values."""

    @property
    def params(self) -> GpuFewQueries:
        schedule = self.kernel.schedule
        assert isinstance(schedule, GpuFewQueries)
        return schedule

    @property
    def groups(self) -> int:
        return self.params.batches * self.params.blocks

    @property
    def keys(self) -> Extent:
        return extent(self.params.n)

    @property
    def block(self) -> int:
        """Keys of a thread block at a time."""
        return KEYS

    @property
    def parts(self) -> int:
        """Sets of threads that share the features of a key."""
        return PARTS

    @property
    def value_parts(self) -> int:
        """Sets of threads that share the keys of a weighted sum of values."""
        return max(1, self.threads // self.params.width)

    @property
    def slots(self) -> list[Slot]:
        return [self.query, self.key, self.value, self.score]

    @cached_property
    def query(self) -> Slot:
        p = self.params
        return self.slot("query", {"batch": p.batch, "m": p.m, "k": p.k}, p.query, None)

    @cached_property
    def key(self) -> Slot:
        p = self.params
        return self.slot("key", {"batch": p.batch, "n": (p.n,), "k": p.k}, p.key, None)

    @cached_property
    def value(self) -> Slot:
        p = self.params
        return self.slot("value", {"batch": p.batch, "n": (p.n,), "d": (p.d,)}, p.value, None)

    @cached_property
    def score(self) -> Slot:
        """The score of a query and a key, from their inner product ``dot``."""
        p = self.params
        given: dict[Expr, str] = {DOT: "dot"}
        return self.slot("score", {"batch": p.batch, "m": p.m, "n": (p.n,)}, p.score, None, given)

    @cached_property
    def finish(self) -> Slot:
        p = self.params
        return self.finisher({"batch": p.batch, "m": p.m, "d": (p.d,)}, p.result, MIXED, None)
