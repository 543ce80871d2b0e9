"""Outputs that are sent as they become final: right results in any shape of division, and none after a failure."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator

import numpy as np
import pytest
from random_frames import LATE, at_work, drawn, expected

from edgec.distribute.frames import Frames
from edgec.distribute.manifest import Manifest
from edgec.errors import LinkError, ModelError


def frames_of(manifest: Manifest, seed: int, count: int) -> list[np.ndarray]:
    random = np.random.default_rng(seed)
    return [random.integers(0, 1000, manifest.tensors["x"].shape).astype(np.int32) for _ in range(count)]


@pytest.mark.parametrize("seed", range(36))
def test_drawn_divisions(seed: int) -> None:
    """1 to 3 workers, one frame to several in flight, workers with and without overlap."""
    workers = 1 + seed % 3
    manifest, sides = drawn(seed, workers)
    inputs = frames_of(manifest, seed, 6)
    overlaps = [bool((seed >> w) & 3) for w in range(3)]
    with at_work(manifest, sides, seed, overlaps=overlaps) as (frames, _):
        for most in (1, 1 + seed % 5):
            found = list(frames.stream([{"x": x} for x in inputs], most, deque()))
            for x, got in zip(inputs, found, strict=True):
                want = expected(manifest, x)
                assert got.keys() == want.keys()
                assert all(np.array_equal(got[n], want[n]) for n in want)
            assert not any(c.due or c.outgoing or c.is_open or c.behind for c in frames.exchange.connections)


def _two_stages() -> tuple[Manifest, list]:
    """The first drawn division whose second part reads several outputs of the first, on another worker."""
    for seed in range(10_000):
        manifest, sides = drawn(seed, 2)
        a, b = manifest.parts[:2]
        if a.worker != b.worker and len(a.writes) > 2 and len({r.tensor for r in b.reads} & {*a.writes}) > 1:
            return manifest, sides
    raise AssertionError


def run(frames: Frames, x: np.ndarray, most: int = 2) -> Iterator[dict[str, np.ndarray]]:
    return frames.stream([{"x": x}] * 3, most, deque())


@pytest.mark.parametrize("how", ["closes", "fails", "hangs"])
def test_a_worker_that_is_lost_in_the_middle_of_an_answer(how: str) -> None:
    """Others have been sent its first outputs, and wait for more: the run ends, with the name of the one lost."""
    manifest, sides = _two_stages()
    (x,) = frames_of(manifest, 1, 1)
    go_on = threading.Event()
    with at_work(manifest, sides, 1, timeout=1.0 if how == "hangs" else LATE) as (frames, parts):
        first = manifest.parts[0].worker
        part = parts[first][0]
        part._tells = 1.0

        def lose(output: int) -> None:
            if output < 2:
                return
            if how == "fails":
                raise ModelError("it fails")
            if how == "hangs":
                assert go_on.wait(LATE)
                return
            raise LinkError("it is gone")  # the session ends

        part.before = lose
        begun = time.monotonic()
        with pytest.raises(LinkError) as error:
            next(run(frames, x))
        assert time.monotonic() - begun < LATE / 2
        assert f"worker {first}" in str(error.value)
        go_on.set()


def test_the_next_part_receives_what_is_final_while_others_are_computed() -> None:
    """The reader has its first inputs before the last one is computed."""
    manifest, sides = _two_stages()
    (x,) = frames_of(manifest, 2, 1)
    with at_work(manifest, sides, 1) as (frames, parts):
        writer, reader = parts[manifest.parts[0].worker][0], manifest.parts[1]
        writer._tells = 1.0
        seen: list[bool] = []
        last = len(manifest.parts[0].writes) - 1

        def look(output: int) -> None:
            if output == last:
                end = time.monotonic() + LATE / 4
                connection = frames.exchange.connections[reader.worker]
                while time.monotonic() < end and not seen:
                    if any(d.asked.part == 1 for d in connection.due):
                        seen.append(True)
                    time.sleep(1e-3)

        writer.before = look
        (got,) = frames.stream([{"x": x}], 1, deque())
        want = expected(manifest, x)
        assert all(np.array_equal(got[n], want[n]) for n in want)
        assert seen
