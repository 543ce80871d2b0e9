"""Tuning without a stopwatch: its budget, its trials, the times it keeps, and the lock that keeps its choices."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from synthetic import SHAPES, Clock, Stopwatch, convolutions

import edgec
from edgec.api import resolve
from edgec.artifact.folder import read_lock
from edgec.errors import UsageError
from edgec.tune import local
from edgec.tune.budget import Budget
from edgec.tune.database import Profiles
from edgec.tune.features import NAMES
from edgec.tune.known import target
from edgec.tune.local import history_of

NETWORK = convolutions(SHAPES[:3])


@pytest.fixture
def database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Profiles:
    monkeypatch.setenv("EDGEC_PROFILES", str(tmp_path / "profiles.sqlite"))
    return Profiles()


@pytest.fixture
def stopwatch(monkeypatch: pytest.MonkeyPatch) -> Stopwatch:
    clock = Clock()
    made = Stopwatch(clock)
    monkeypatch.setattr(local, "measured", made)
    monkeypatch.setattr(local, "Budget", lambda seconds: Budget(seconds, clock))
    return made


def names(database: Profiles) -> list[str]:
    return sorted(n for n in database.known(target(resolve({}))) if n.startswith("product "))


@pytest.mark.parametrize("seconds", [10.0, 25.0, 60.0])
def test_a_budget_is_kept_to_a_tenth(seconds: float, database: Profiles, stopwatch: Stopwatch) -> None:
    done = edgec.tune(NETWORK, seconds)
    assert done.skipped > 0
    assert 0.9 * seconds <= done.seconds <= 1.1 * seconds


def test_batches_that_take_longer_than_before_are_made_smaller() -> None:
    clock = Clock()
    budget, made = Budget(100.0, clock), 0
    while count := budget.fitting(12):
        begun = budget.spent
        clock.now += count * (0.5 if made < 20 else 2.0)
        made += count
        budget.took(count, budget.spent - begun)
    assert 90 <= budget.spent <= 110


def test_no_second_is_no_trial(database: Profiles, stopwatch: Stopwatch) -> None:
    assert edgec.tune(NETWORK, 0.0).measured == 0
    assert stopwatch.calls == 0


def test_trials_are_limited_and_counted_with_those_of_before(database: Profiles, stopwatch: Stopwatch) -> None:
    first = edgec.tune(NETWORK, 1e6, trials=5)
    assert (first.skipped, len(names(database))) == (0, 15)
    calls = stopwatch.calls
    assert edgec.tune(NETWORK, 1e6, trials=5).measured == 0
    assert stopwatch.calls == calls
    assert edgec.tune(NETWORK, 1e6, trials=7).measured == 6


def test_two_runs_with_one_seed_choose_the_same(tmp_path: Path, database: Profiles, stopwatch: Stopwatch) -> None:
    found: list[tuple[list[str], Any]] = []
    for seed in (5, 5, 6):
        database.clear()
        edgec.tune(NETWORK, 1e6, seed=seed, trials=12)
        built = edgec.build(NETWORK, tmp_path / str(len(found)), compile=False)
        found.append((names(database), built.program.choices))
    assert found[0] == found[1]
    assert found[0][0] != found[2][0]


def test_the_lock_keeps_the_choice(
    tmp_path: Path, database: Profiles, stopwatch: Stopwatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    untuned = edgec.build(NETWORK, tmp_path / "untuned", compile=False)
    edgec.tune(NETWORK, 1e6, trials=12)
    tuned = edgec.build(NETWORK, tmp_path / "tuned", compile=False)
    choices = read_lock(tmp_path / "tuned")["choices"]
    assert choices and tuned.program.choices == choices
    assert dict(tuned.stages["emit"].files) != dict(untuned.stages["emit"].files)
    database.clear()
    calls = stopwatch.calls
    again = edgec.build(NETWORK, tmp_path / "again", compile=False, lock=tmp_path / "tuned", tune=60.0)
    assert stopwatch.calls == calls
    assert dict(again.stages["emit"].files) == dict(tuned.stages["emit"].files)


def test_times_are_kept_with_what_rankings_learn_from(tmp_path: Path, database: Profiles, stopwatch: Stopwatch) -> None:
    edgec.tune(NETWORK, 1e6, trials=4)
    on = target(resolve({}))
    learned = history_of(database, on)
    assert len(learned) == 12 and all(set(s.features) == set(NAMES) for s in learned)
    exported = json.loads(json.dumps(database.exported()))
    other = Profiles(tmp_path / "other.sqlite")
    other.import_(exported, "here")
    assert history_of(other, on) == learned
    for wrong in ({"rows": "many"}, {"rows": float("nan")}, ["rows"], {"rows": True}):
        damaged = {**exported, "times": [{**m, "features": wrong} for m in exported["times"]]}
        with pytest.raises(UsageError, match="no export"):
            other.import_(damaged, "here")
    older = {**exported, "times": [{k: v for k, v in m.items() if k != "features"} for m in exported["times"]]}
    third = Profiles(tmp_path / "third.sqlite")
    assert third.import_(older, "here") == len(exported["times"]) and history_of(third, on) == []


def test_damaged_features_count_as_none(database: Profiles, stopwatch: Stopwatch) -> None:
    edgec.tune(NETWORK, 1e6, trials=4)
    with database._open() as opened:
        opened.execute("UPDATE features SET features = '{\"rows\": 1e400'")
    assert history_of(database, target(resolve({}))) == []
    assert edgec.tune(NETWORK, 1e6, trials=5).measured == 3


def test_gpus_draw_no_trials(database: Profiles, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgec.api.runs_here", lambda *given: True)
    with pytest.raises(UsageError, match="none is drawn"):
        edgec.tune(NETWORK, 1.0, trials=5, device="cuda_sm90", compiler="emulated")


@pytest.mark.parametrize("seconds", [float("nan"), float("inf"), -1.0])
def test_seconds_are_a_time(seconds: float) -> None:
    with pytest.raises(UsageError, match="is no time"):
        edgec.tune(NETWORK, seconds)
