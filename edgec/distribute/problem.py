"""The choice of one sharding for each block of a network, as numbers: seconds, bytes of weights, and what crosses.

Blocks whose shardings fit one another are computed in one part. Between parts a value crosses: it is given to the
coordinator once, and read by the parts behind it. Workers keep nothing between parts, so all paths from a part to a
later one cross.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True)
class Sharding:
    """One way to compute a block: ``seconds`` of the slowest worker, and bytes of weights of every worker.

    ``given`` are the seconds in which its value is given to the coordinator. ``is_shared``: several workers compute
    parts of it.
    """

    seconds: float
    weights: tuple[int, ...]
    given: float
    is_shared: bool = False


@dataclass(frozen=True)
class Edge:
    """A block that another one reads. ``read`` are seconds by the reader's shardings, where the value crosses.

    ``fits`` are pairs of shardings (producer, reader) that need no crossing, ``refused`` those that cannot be together.
    """

    producer: int
    reader: int
    read: tuple[float, ...]
    fits: frozenset[tuple[int, int]]
    refused: frozenset[tuple[int, int]] = frozenset()


@dataclass(frozen=True)
class Problem:
    """Blocks in order, each with its shardings; edges from earlier ones to later ones; and a limit on weights in bytes.

    A solution has a block that is shared.
    """

    blocks: tuple[tuple[Sharding, ...], ...]
    edges: tuple[Edge, ...]
    limit: int | None = None

    @cached_property
    def workers(self) -> int:
        return len(self.blocks[0][0].weights)

    @cached_property
    def turns(self) -> Mapping[Edge, int]:
        """Number of every edge among those of its producer: readers that depend on one another have different ones.

        Readers of one turn are together in a part, and read the value once.
        """
        behind: list[set[int]] = [set() for _ in self.blocks]  # the blocks that each one depends on
        for e in sorted(self.edges, key=lambda e: e.reader):
            behind[e.reader] |= {e.producer} | behind[e.producer]
        found: dict[Edge, int] = {}
        own: dict[int, list[Edge]] = {}
        for e in sorted(self.edges, key=lambda e: e.reader):
            before = own.setdefault(e.producer, [])
            found[e] = 1 + max((found[b] for b in before if b.reader in behind[e.reader]), default=-1)
            before.append(e)
        return found

    def cost(self, chosen: Sequence[int], crossing: Collection[Edge]) -> float:
        """Seconds of a solution: all blocks, what is given, and what is read in each turn."""
        seconds = sum(b[k].seconds for b, k in zip(self.blocks, chosen))
        seconds += sum(self.blocks[p][chosen[p]].given for p in {e.producer for e in crossing})
        read: dict[tuple[int, int], float] = {}
        for e in crossing:
            turn = e.producer, self.turns[e]
            read[turn] = max(read.get(turn, 0.0), e.read[chosen[e.reader]])
        return seconds + sum(read.values())

    def weights(self, chosen: Sequence[int]) -> tuple[int, ...]:
        """Bytes of weights of every worker."""
        return tuple(sum(b[k].weights[w] for b, k in zip(self.blocks, chosen)) for w in range(self.workers))

    def stages(self, crossing: Collection[Edge]) -> list[int] | None:
        """Stages of blocks: equal along edges that do not cross, later behind those that do. None: impossible."""
        group = list(range(len(self.blocks)))

        def first(k: int) -> int:
            while group[k] != k:
                k = group[k]
            return k

        for e in self.edges:
            if e not in crossing:
                group[first(e.reader)] = first(e.producer)
        found = [0] * len(self.blocks)
        steps = [(first(e.producer), first(e.reader)) for e in crossing]
        for _ in range(len(self.blocks) + 1):
            late = [(a, b) for a, b in steps if found[b] <= found[a]]
            if not late:
                return [found[first(k)] for k in range(len(self.blocks))]
            for a, b in late:
                found[b] = max(found[b], found[a] + 1)
        return None

    def is_valid(self, chosen: Sequence[int], crossing: Collection[Edge]) -> bool:
        """Is this a solution?"""
        pairs = [(e, (chosen[e.producer], chosen[e.reader])) for e in self.edges]
        is_shared = any(b[k].is_shared for b, k in zip(self.blocks, chosen))
        is_held = self.limit is None or max(self.weights(chosen)) <= self.limit
        fits = all(pair not in e.refused and (pair in e.fits or e in crossing) for e, pair in pairs)
        return is_shared and is_held and fits and self.stages(crossing) is not None
