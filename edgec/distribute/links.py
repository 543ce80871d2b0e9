"""The links of a divided network as prices see them: workers, wires, and the coordinator that every message passes.

A message costs the coordinator time, since it is one process that sends, receives and adds one thing after the other;
it occupies the wire to a worker elsewhere; and it costs the worker time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf

from edgec.distribute.places import Place, Speed

#: One side's part in a message, where it was not measured: bytes a second, and seconds for any message.
HANDLING = Speed(2.5e9, 90e-6)
#: The coordinator's seconds for a frame, where they were not measured.
FRAME = 30e-6
#: Bytes of partial sums that the coordinator adds in a second.
ADDED = 4e9


@dataclass(frozen=True)
class Links:
    """Speeds between the coordinator and its workers, in order.

    ``wires`` are None for workers of this machine whose messages were measured as a whole. ``hub`` and ``workers`` are
    what a message costs the coordinator and the worker. ``shared`` is the coordinator's own wire to workers elsewhere.
    ``cores`` is how many parts compute at once on this machine, the coordinator's work included. ``frame_s`` are the
    coordinator's seconds for a frame, beside its messages.
    """

    wires: tuple[Speed | None, ...]
    workers: tuple[Speed, ...]
    hub: Speed
    shared: Speed | None = None
    cores: float = inf
    frame_s: float = 0.0

    def first(self, count: int) -> Links:
        """The links of the first workers alone."""
        return replace(self, wires=self.wires[:count], workers=self.workers[:count])

    def wire(self, worker: int, moved: int) -> float:
        """Seconds that bytes occupy the wire to a worker, in one direction."""
        found = self.wires[worker]
        return 0.0 if found is None else found.seconds(moved)

    def carried(self, moved: Mapping[int, int]) -> float:
        """Seconds until messages of so many bytes, begun at once in one direction, have passed the wires to workers.

        Those to workers elsewhere follow one another on the coordinator's own wire.
        """
        far = sum(n for w, n in moved.items() if self.wires[w] is not None)
        together = self.shared.seconds(far) if self.shared is not None else 0.0
        return max([together, *(self.wire(w, n) for w, n in moved.items())])

    def latency(self, worker: int) -> float:
        """Seconds on the wire to a worker, of a message of any length."""
        found = self.wires[worker]
        return 0.0 if found is None else found.latency_s

    def handled(self, worker: int, moved: int) -> float:
        """Seconds that a message of so many bytes costs a worker."""
        return cost(self.workers[worker], moved)

    def passed(self, moved: int, added: int = 0) -> float:
        """Seconds that a message costs the coordinator, which adds so many of its bytes to a sum."""
        return cost(self.hub, moved) + added / ADDED


def cost(speed: Speed, moved: int) -> float:
    """Seconds of a message of so many bytes, where each message costs the latency too."""
    return speed.latency_s + speed.seconds(moved)


@dataclass(frozen=True)
class Handled:
    """Messages between processes of this machine, measured: of both sides together, and the coordinator's part.

    ``frame_s`` are the coordinator's seconds for a frame, beside its messages.
    """

    whole: Speed
    hub: Speed
    frame_s: float = 0.0

    @property
    def worker(self) -> Speed:
        """The worker's part: what is left."""
        rate = 1 / self.whole.bytes_per_s - 1 / self.hub.bytes_per_s
        return Speed(1 / rate if rate > 0 else inf, max(self.whole.latency_s - self.hub.latency_s, 0.0))


def links_of(
    places: Sequence[Place], speeds: Sequence[Speed], here: Handled | None = None, cores: float = inf
) -> Links:
    """The links to places whose wires have these speeds; ``here`` stands for those of this machine.

    ``cores`` counts where all workers are processes of this machine.
    """
    far = [s for p, s in zip(places, speeds) if not p.is_here]
    wires = tuple(None if p.is_here and here is not None else s for p, s in zip(places, speeds))
    workers = tuple(here.worker if p.is_here and here is not None else HANDLING for p in places)
    shared = max(far, key=lambda s: s.bytes_per_s) if far else None
    hub = here.hub if here is not None else HANDLING
    return Links(wires, workers, hub, shared, inf if far else cores, here.frame_s if here is not None else FRAME)
