"""Ways through the cuts of a network, beside all that there are."""

from __future__ import annotations

from itertools import combinations, pairwise, product
from random import Random
from typing import Any

import pytest

from edgec.distribute import tensor
from edgec.distribute.tensor import Stretch, Way, is_shared, ways


class Cut:
    """A place where a way may divide the network."""

    def __init__(self, name: str, kind: str) -> None:
        self.name, self.kind = name, kind

    def __repr__(self) -> str:
        return self.name


def drawn(seed: int) -> tuple[list[list[Any]], Any]:
    random = Random(seed)
    stages: list[list[Any]] = [
        [Cut(f"{k}{kind}", kind) for kind in ("one", "slices")[: random.randint(1, 2)]] for k in range(6)
    ]
    prices: dict[tuple[object, object], Stretch | None] = {}

    def lead(begin: object, end: object) -> Stretch | None:
        if (begin, end) not in prices:
            stretch = Stretch(float(random.randint(1, 40)), (random.randint(0, 9), random.randint(0, 9)))
            prices[begin, end] = stretch if random.random() < 0.85 else None
        return prices[begin, end]

    return stages, lead


def every(stages: list[list[Any]], lead: Any, required: tuple[int, ...]) -> list[Way]:
    """Every way: some stages in order, the last and the required ones among them, none further apart than may be."""
    found = []
    last = len(stages) - 1
    for count in range(last + 1):
        for inner in combinations(range(last), count):
            places = (*inner, last)
            if not set(required) <= set(places) or any(b - a > tensor.REACH for a, b in pairwise(places)):
                continue
            for cuts in product(*(stages[p] for p in places)):
                parts = [lead(a, b) for a, b in zip((None, *cuts), cuts)]
                if all(p is not None for p in parts):
                    weights = tuple(sum(p.weights[w] for p in parts) for w in range(2))
                    found.append(Way(cuts, sum(p.seconds for p in parts), weights))
    return [w for w in found if is_shared(w)]


@pytest.mark.parametrize("required", [(), (0,), (2,), (5,), (1, 3), (0, 4)])
@pytest.mark.parametrize("seed", range(12))
def test_the_fastest_way_is_found(seed: int, required: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    if seed % 2:
        monkeypatch.setattr(tensor, "REACH", 2)
    stages, lead = drawn(seed)
    wanted, found = every(stages, lead, required), ways(stages, lead, required)
    assert min((w.seconds for w in wanted), default=None) == (found[0].seconds if found else None)
    assert [w.seconds for w in found] == sorted(w.seconds for w in found)
    known = {w.cuts: w for w in wanted}
    assert all(known[w.cuts].seconds == w.seconds and known[w.cuts].weights == w.weights for w in found)


@pytest.mark.parametrize("seed", range(12))
def test_under_a_limit_no_way_is_beaten_in_seconds_and_weights(seed: int) -> None:
    stages, lead = drawn(seed)
    limit = 14
    able = [w for w in every(stages, lead, ()) if max(w.weights) <= limit]
    found = ways(stages, lead, limit=limit)
    assert all(max(w.weights) <= limit for w in found)

    def beats(a: Way, b: Way) -> bool:
        return a.seconds <= b.seconds and all(x <= y for x, y in zip(a.weights, b.weights))

    for way in able:
        assert any(beats(w, way) for w in found), way
