"""Frames a second of a stream: by what comes out while it is full, whatever it takes to fill it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from edgec.distribute import bench
from edgec.distribute.coordinator import Several

#: Seconds of a frame alone, of those between two frames, and frames at once.
LATENCY, PERIOD, IN_FLIGHT = 2.0, 0.125, 17


class Played:
    """A divided network that takes no time but on a clock of its own."""

    manifest = SimpleNamespace(in_flight=IN_FLIGHT)
    inputs = ()

    def __init__(self) -> None:
        self.now, self.frames = 0.0, 0

    def perf_counter(self) -> float:
        return self.now

    def run(self, given: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        (found,) = self.stream([given])
        return found

    def stream(self, supply: Iterable[Mapping[str, np.ndarray]]) -> Iterator[dict[str, np.ndarray]]:
        """Each frame is done when it has been on its way for the latency, and the one before for the period."""
        frames, begun, free = iter(supply), deque[float](), 0.0
        is_over = False
        while True:
            while not is_over and len(begun) < IN_FLIGHT:
                if next(frames, None) is None:
                    is_over = True
                else:
                    begun.append(self.now)
            if not begun:
                return
            free = max(begun.popleft() + LATENCY, free + PERIOD)
            self.now = max(self.now, free)
            self.frames += 1
            yield {}

    @property
    def moved(self) -> list[tuple[int, int]]:
        return [(self.frames * 100, 0)]

    def memory(self) -> list[int]:
        return [1]


@pytest.mark.parametrize("seconds", [0.1, 2.0, 20.0])
def test_frames_a_second_are_those_of_a_full_stream(seconds: float, monkeypatch: pytest.MonkeyPatch) -> None:
    network = Played()
    monkeypatch.setattr(bench, "time", network)
    found = bench.measure(cast(Several, cast(Any, network)), seconds, {})
    assert found.frames_per_second == pytest.approx(1 / PERIOD)
    assert found.timing.median_ms == pytest.approx(LATENCY * 1e3) and found.bytes_a_frame == 100
    assert found.frames >= max(2 * bench.LEAST, seconds / 2 / PERIOD) - 1
