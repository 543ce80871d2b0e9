"""Runs of a step of training side by side."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Replicas:
    """Runs of a step's program for one thread, so many at a time, on other micro-batches.

    Each has an arena; between two of them are the sums of gradients of the second, ``stride`` bytes together. Sums
    that are read in another order than the state's lie in each arena too: ``reordered`` has their places and bytes.
    """

    count: int
    arena_bytes: int
    stride: int
    reordered: tuple[tuple[int, int], ...] = ()

    @property
    def bytes(self) -> int:
        """Bytes of all arenas and sums, of which the first replica has none."""
        return self.arena_bytes + (self.count - 1) * self.stride

    def first_of(self, replica: int, micro_batches: int) -> int:
        """The number of the first micro-batch of a replica; those of one follow each other."""
        return micro_batches * replica // self.count
