"""The ranking of variants: it learns what formulas miss, from the right features only, with and without trees."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from synthetic import by_name, seconds_of, spaces

from benchmarks.tuner_page import kendall
from edgec.tune.ranking import Ranking, Sample, fitted
from edgec.tune.search import Search, Trial

#: Rank correlation that a ranking has to reach on a product that it has not seen.
BAR = 0.8
SPACES = spaces()


def samples(of: Mapping[str, Sequence[Trial]], shuffled: bool = False) -> list[Sample]:
    """Times of the variants of products; ``shuffled``, each has the features of another one."""
    found = []
    for key, space in of.items():
        known = [t for t in space if t.features is not None]
        order = np.random.default_rng(1).permutation(len(known)) if shuffled else np.arange(len(known))
        found += [Sample(key, known[k].features or {}, seconds_of(t)) for t, k in zip(known, order)]
    return found


def correlation(ranking: Ranking, key: str) -> float:
    known = [t for t in SPACES[key] if t.features is not None]
    scores = ranking.scores([t.features for t in known if t.features is not None])
    return kendall(scores, np.array([seconds_of(t) for t in known]))


def left_out(trees: bool, shuffled: bool = False) -> list[float]:
    """The correlation on each product of a ranking that learned from the others."""
    return [
        correlation(fitted(samples({k: s for k, s in SPACES.items() if k != key}, shuffled), trees), key)
        for key in SPACES
    ]


@pytest.fixture
def without_trees(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.ensemble", None)


def test_trees_rank_what_formulas_miss() -> None:
    pytest.importorskip("sklearn")
    assert fitted(samples(SPACES)).name == "trees"
    assert np.mean([correlation(Ranking("formula"), key) for key in SPACES]) < 0.6
    assert np.mean(left_out(trees=True)) >= BAR


def test_it_works_without_scikit_learn(without_trees: None) -> None:
    assert fitted(samples(SPACES)).name == "ridge"
    assert np.mean(left_out(trees=True)) >= BAR


@pytest.mark.parametrize("trees", [True, False])
def test_shuffled_features_teach_nothing(trees: bool) -> None:
    assert np.mean(left_out(trees, shuffled=True)) < BAR - 0.15


def test_few_times_leave_the_formulas() -> None:
    assert fitted(samples(SPACES)[:5]).name == "formula"
    alone = [Sample(f"product {k}", s.features, s.seconds) for k, s in enumerate(samples(SPACES)[:100])]
    assert fitted(alone).name == "formula"  # a time without others of its product tells nothing


def test_a_factor_of_a_product_changes_nothing() -> None:
    """Formulas leave out what all variants of a product share: only times of one product are compared."""
    factors = {key: 10.0**k for k, key in enumerate(SPACES)}
    scaled = [Sample(s.product, s.features, s.seconds * factors[s.product]) for s in samples(SPACES)]
    for trees in (True, False):
        ranking = fitted(scaled, trees)
        assert min(correlation(ranking, key) for key in SPACES) >= BAR


def found_after(trials: int, learn: bool, seed: int = 0) -> tuple[list[float], list[str]]:
    """The quickest variant of each product after so many trials over the quickest there is, and all trials in order."""
    times = by_name(SPACES)
    search = Search(SPACES, {}, seed=seed, trials=trials)
    best, order = dict.fromkeys(SPACES, float("inf")), list[str]()
    while batch := search.next(12):
        told = {t.name: times.get(t.name) for t in batch}
        search.tell(told)
        if not learn:
            search.ranking = Ranking("formula")
        for name, seconds in told.items():
            key = name.partition("/")[0]
            best[key] = min(best[key], seconds or best[key])
        order += told
    least = {key: min(times[t.name] for t in space if t.name in times) for key, space in SPACES.items()}
    return [best[key] / least[key] for key in SPACES], order


def test_the_ranking_finds_quicker_variants_than_the_formulas() -> None:
    learned, by_formula = found_after(16, learn=True)[0], found_after(16, learn=False)[0]
    assert max(learned) <= 1.05
    assert np.mean(by_formula) > np.mean(learned) + 0.05


def test_one_seed_gives_the_same_trials() -> None:
    first, again, other = (found_after(12, learn=True, seed=seed)[1] for seed in (3, 3, 4))
    assert first == again
    assert first != other and len(first) == len(other)


def test_one_seed_grows_the_same_trees() -> None:
    pytest.importorskip("sklearn")
    known = samples(SPACES)[:100]
    first, again, other = (fitted(known, seed=seed).scores([s.features for s in known]) for seed in (3, 3, 4))
    assert (first == again).all() and (first != other).any()


def test_trials_are_shared_out_in_turns_and_never_repeated() -> None:
    order = found_after(10, learn=True)[1]
    keys = [name.partition("/")[0] for name in order]
    assert len(set(order)) == len(order)
    assert all(keys.count(key) == 10 for key in SPACES)
    for key, space in SPACES.items():  # the first trial of a product is its usual variant
        assert order[keys.index(key)] == space[0].name
    assert keys[: 4 * len(SPACES)] == [key for key in SPACES for _ in range(4)]


def test_what_cannot_be_had_is_not_asked_again() -> None:
    key = next(iter(SPACES))
    search = Search({key: SPACES[key]}, {}, trials=len(SPACES[key]))
    asked: list[str] = []
    while batch := search.next(5):
        asked += [t.name for t in batch]
        search.tell(dict.fromkeys((t.name for t in batch), None))
    assert sorted(asked) == sorted(t.name for t in SPACES[key])
