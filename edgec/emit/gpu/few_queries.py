"""View of attention of few queries: slots for queries, keys, values, scores and results, and how threads share them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

from edgec.emit.gpu.slots import Slot, SlotView
from edgec.fuse.attention import DOT, MIXED
from edgec.ir.expr import Expr, Extent
from edgec.ir.nest import extent
from edgec.schedule.gpu.few_queries import KEYS, PARTS, GpuFewQueries, stored

#: The types of elements as they are stored, in registers.
RAW = {"f32": "float", "f16": "ec_f16", "i8": "int"}


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
    def cluster(self) -> int:
        return self.params.blocks if self.params.is_cluster else 1

    @property
    def shared_bytes(self) -> int:
        """The struct of the template: of each query features, dots, shares, parts, three facts; parts from others."""
        p = self.params
        each = p.features + (self.parts + 1 + p.is_weighted) * KEYS + self.value_parts * p.width + 3
        return 4 * (p.queries * each + 2 + (p.blocks * (self.share + p.queries) * 4 if p.is_cluster else 0))

    @property
    def share(self) -> int:
        """Of results, four at a time, that a block of a cluster joins."""
        p = self.params
        return -(-p.queries * p.width // (4 * p.blocks))

    @property
    def prefetch(self) -> list[tuple[str, int]]:
        return self.prefetched(self.params.prefetch)

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
        return [self.query, self.key, self.value, self.score, *([self.weight] if self.params.is_weighted else [])]

    @cached_property
    def query(self) -> Slot:
        p = self.params
        return self.slot("query", {"batch": p.batch, "m": p.m, "k": p.k}, p.query, None)

    @cached_property
    def key(self) -> Slot:
        p = self.params
        return self._source("key", {"batch": p.batch, "n": (p.n,), "k": p.k}, p.key)

    @cached_property
    def value(self) -> Slot:
        p = self.params
        return self._source("value", {"batch": p.batch, "n": (p.n,), "d": (p.d,)}, p.value)

    def _source(self, what: str, loops: Mapping[str, Sequence[Expr]], value: Expr) -> Slot:
        """The slot of an element; of its address, where some are read before the kernels before this one end."""
        return self.slot(what, loops, value, None) if self.fresh is None else self.place(what, loops, stored(value))

    def read(self, source: Slot, is_early: bool) -> str:
        """An element, before or after the kernels before this one end: L1 may hold what was before."""
        if self.fresh is None:
            return source.call()
        return f"{'ec_raw' if is_early else 'ec_raw_fresh'}({source.call()})"

    def raw(self, number: Expr) -> str:
        """The type of an element that was read."""
        return "float" if self.fresh is None else RAW[stored(number).value.dtype]

    @cached_property
    def weight(self) -> Slot:
        """The factor of a value beside its share."""
        p = self.params
        return self.slot("weight", {"batch": p.batch, "n": (p.n,)}, p.weight, None)

    @property
    def fresh(self) -> Extent | None:
        """The number of the one key that the kernel before this one writes."""
        return self.params.fresh

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
