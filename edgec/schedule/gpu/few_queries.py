"""Attention of few queries over many keys on a GPU: thread blocks share the keys, and join what they have found.

The thread blocks of a batch take turns at its keys, for all queries that read them (the heads of a group). Keys and
values are read once, straight into registers; scores and softmax weights pass through shared memory. Each block leaves
the largest score, the sum of weights and the weighted values of each query: in scratch memory, which the last block to
arrive reads, or, where the blocks of a batch are a cluster, in one another's shared memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, prod
from typing import ClassVar

from edgec.device.device import Device
from edgec.fuse.attention import attention_of
from edgec.ir import expr as X
from edgec.ir.expr import Expr
from edgec.ir.nest import coefficient, extent, is_fixed, most
from edgec.schedule.flat import Flat
from edgec.schedule.gpu.kernel import LANES, GpuKernel, Prefetch
from edgec.schedule.gpu.loops import GROUP
from edgec.schedule.gpu.tile_cycles import CLUSTER
from edgec.schedule.program import Buffer

#: Keys that a block takes at a time, most queries that share them, and blocks that share the keys of a batch.
KEYS, QUERIES, BLOCKS = 64, 8, 64
#: Most parts of the keys that a block of a cluster takes one after the other: for more, more blocks pay.
ROUNDS = 4
#: Sets of threads that share the features of a key.
PARTS = GROUP // KEYS
#: Numbers of keys and values that a thread may hold.
HELD = 64


@dataclass(frozen=True)
class GpuFewQueries(GpuKernel):
    """Loops and parts as in `edgec.schedule.attention.attention.Parts`; ``m`` may be several loops, or none."""

    template: ClassVar[str] = "few_queries"
    batch: tuple[Expr, ...]
    m: tuple[Expr, ...]
    n: Expr
    d: Expr
    k: tuple[Expr, ...]
    query: Expr
    key: Expr
    value: Expr
    weight: Expr  # a factor of each value beside its share; 1 where there is none
    score: Expr
    result: Expr
    blocks: int  # that share the keys of a batch, at most
    is_cluster: bool = False  # blocks of a batch run together
    fresh: Expr | None = None  # the one key that the kernel before writes: others are read before that one ends
    prefetch: Prefetch = ()

    @property
    def bodies(self) -> list[Expr]:
        return [self.query, self.key, self.value, self.weight, self.score, self.result]

    @property
    def is_weighted(self) -> bool:
        """Has each value a factor beside its share?"""
        return self.weight.op != "const"

    @property
    def batches(self) -> int:
        return prod(map(most, self.batch))

    @property
    def queries(self) -> int:
        return prod(map(most, self.m))

    @property
    def features(self) -> int:
        return prod(map(most, self.k))

    @property
    def width(self) -> int:
        return most(self.d)

    @property
    def rounds(self) -> int:
        """Parts of KEYS keys that a block takes, at most."""
        return ceil(most(self.n) / (KEYS * self.blocks))

    @property
    def prefetched(self) -> tuple[Buffer, ...]:
        return tuple(buffer for buffer, _ in self.prefetch)

    @property
    def part(self) -> int:
        """Numbers that a block leaves."""
        return self.queries * (self.width + 2)

    @property
    def scratch_bytes(self) -> int:
        return 0 if self.is_cluster else 4 * self.batches * self.blocks * self.part

    @property
    def locks(self) -> int:
        return 0 if self.is_cluster else self.batches

    @property
    def describe(self) -> str:
        sizes = f"{self.queries} queries, {extent(self.n)} keys of {self.features}, values of {self.width}"
        together = " of a cluster" if self.is_cluster else ""
        return f"{self.batches} x {sizes}, {KEYS * self.rounds} keys a block{together}"


def stored(number: Expr) -> Expr:
    """The load of a key or value, which may be narrower than what is multiplied."""
    lies: Expr = number.args[0] if number.op == "cast" else number
    return lies


def few_queries(flat: Flat, device: Device) -> GpuFewQueries | None:
    """Schedule ``flat`` as attention of few queries; None when it is none, or has many."""
    found = attention_of(flat.body)
    if found is None or device.language != "cuda" or not is_fixed(*found.features, *flat.loops):
        return None
    query, key, value = (X.free_variables(e) for e in (found.query, found.key, found.value))
    theirs = [v for v in flat.loops if v in value and v not in query | key]
    if len(theirs) != 1:
        return None
    (d,) = theirs
    m = tuple(v for v in flat.loops if v is not d and v not in key | value)
    batch = tuple(v for v in flat.loops if v is not d and v not in m)
    queries, features = prod(map(most, m)), prod(map(most, found.features))
    held = ceil(features / PARTS), ceil(KEYS / max(1, GROUP // most(d)))
    if queries > QUERIES or max(held) > HELD or most(d) > GROUP or coefficient(flat.address, d) is None:
        return None
    parts = ceil(most(found.keys) / KEYS)
    is_cluster = device.has_clusters and 1 < parts <= CLUSTER * ROUNDS and most(d) % LANES == 0
    blocks = min(CLUSTER, 1 << (parts - 1).bit_length()) if is_cluster else ceil(parts / ceil(parts / BLOCKS))
    return GpuFewQueries(
        flat.store, flat.address, batch, m, found.keys, d, found.features,
        found.query, found.key, found.value, found.weight, found.score, found.result,
        blocks, is_cluster,
    )  # fmt: skip
