"""Built parts timed as they run: those of all workers at once, and each while the others rest."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from divided_cases import divided

from edgec.distribute import timed
from edgec.distribute.timeline import Seconds

#: Seconds that a call waits for others.
PATIENCE = 0.2


class Meeting:
    """Calls that wait a while for so many others at once, until they have met; ``most`` are as many as ever were."""

    def __init__(self, workers: int) -> None:
        self.workers, self.running, self.most = workers, 0, 0
        self.changed = threading.Condition()

    def __call__(self) -> None:
        with self.changed:
            self.running += 1
            self.most = max(self.most, self.running)
            self.changed.notify_all()
            self.changed.wait_for(lambda: self.most >= self.workers, PATIENCE)
            self.running -= 1


@pytest.fixture(autouse=True)
def briefly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timed, "TIMED", 0.0)


def workers_of(
    monkeypatch: pytest.MonkeyPatch, calls: list[list[Callable[[], None]]], threads: int, cores: int, parts: Path
) -> list[list[Seconds]]:
    """Workers whose parts are these calls, timed; folders and networks are those of real parts."""
    left = [call for own in calls for call in own]
    monkeypatch.setattr(timed, "_bound", lambda folder, network: left.pop(0))
    return timed.time_workers([[parts] * len(own) for own in calls], threads, cores)


@pytest.fixture(scope="module")
def part(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return divided(tmp_path_factory.mktemp("timed"), 1, "auto", threads=2).folder / "part0"


def test_workers_are_timed_at_once_and_alone(monkeypatch: pytest.MonkeyPatch, part: Path) -> None:
    together = Meeting(2)
    found = workers_of(monkeypatch, [[together], [together]], 1, 2, part)
    assert together.most == 2
    assert all(0 < s.alone <= s.busy for own in found for s in own) and [len(own) for own in found] == [1, 1]


@pytest.mark.parametrize(("threads", "cores", "most"), [(1, 1, 1), (1, 2, 2), (2, 4, 2), (2, 3, 1), (1, 8, 3)])
def test_no_more_workers_are_at_work_than_have_cores(
    threads: int, cores: int, most: int, monkeypatch: pytest.MonkeyPatch, part: Path
) -> None:
    together = Meeting(most)
    found = workers_of(monkeypatch, [[together], [together, together], [together]], threads, cores, part)
    assert together.most == most and [len(own) for own in found] == [1, 2, 1]


def test_a_part_that_cannot_run_ends_the_timing(monkeypatch: pytest.MonkeyPatch, part: Path) -> None:
    def fails() -> None:
        raise RuntimeError("status 3")

    with pytest.raises(RuntimeError, match="status 3"):
        workers_of(monkeypatch, [[lambda: None], [fails]], 1, 2, part)


def test_predictions_are_by_times_of_workers_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def times(workers: list[list[Path]], threads: int, cores: int, on_gpu: list[bool]) -> list[list[Seconds]]:
        return [[Seconds(0.01, 0.02) for _ in folders] for folders in workers]

    monkeypatch.setattr("edgec.distribute.build.time_workers", times)
    pipeline = divided(tmp_path, 2, "pipeline", link_speed="100G/0").manifest
    assert 0.02 <= pipeline.period_s < 0.03 and 0.02 <= pipeline.latency_s < 0.03  # one after the other, alone
    assert [p.seconds for p in pipeline.parts] == [0.01, 0.01]
    tensor = divided(tmp_path, 2, "tensor", link_speed="100G/0").manifest
    stages = sum(p.worker == 1 for p in tensor.parts)
    assert tensor.latency_s >= 0.02 * stages, "both workers are at work in each"


def test_parts_as_they_are_built_are_timed(tmp_path: Path) -> None:
    built = divided(tmp_path, 2, "pipeline")
    times = timed.time_workers([[built.folder / "part0"], [built.folder / "part1"]], 1, 2)
    assert all(0 < s.alone <= s.busy < 1 for own in times for s in own)
