"""Shards of values: slices and partial sums are what numpy says, and the choice is that of exhaustive search."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pytest
from small_graphs import arrays, conv, graph, pad, relu, softmax, transpose, value, weights

from edgec.distribute import shards
from edgec.distribute.cuts import Cut, cuts, narrow
from edgec.distribute.links import links_of
from edgec.distribute.places import Speed, places_of
from edgec.distribute.rows import Indivisible, Span
from edgec.distribute.shards import Shards
from edgec.distribute.tensor import Stretch, is_shared, leads, ways
from edgec.execute.executor import run_graph
from edgec.ir.graph import Graph, Node
from edgec.ops import node

x, image = value("x", 3, 12), value("x", 1, 12, 5, 5)
split = node("reshape", node("matmul", x, weights(12, 20)), shape=(3, 5, 4))

SLICES = {
    "columns": (node("add", node("matmul", x, weights(12, 9)), weights(9)), 1),
    "rows": (node("matmul", x, weights(12, 9)), 0),
    "heads": (transpose(split, 1, 0, 2), 0),
    "joined heads": (node("reshape", relu(split), shape=(3, 20)), 1),
    "channels": (conv(pad(image, 0, 0, 1, 1), weights(7, 12, 3, 3)), 1),
    "by channel": (conv(relu(image), weights(12, 1, 3, 3), groups=12), 1),
    "groups": (conv(image, weights(8, 3, 1, 1), groups=4), 1),
    "between columns": (softmax(node("matmul", x, weights(12, 9)), 1), 1),
    "positions": (node("add", x, node("broadcast", node("iota", shape=(12,), axis=0, dtype="f32"), shape=(3, 12))), 1),
    "turned": (node("slice", x, starts=(0, 11), steps=(1, -1), shape=(3, 12)), 1),
}


def is_part(n: Node, span: Span) -> None:
    given = arrays(graph(n), 3)
    part = Shards().part(n, span)
    got = run_graph(Graph(graph(n).inputs, (("y", part),)), given)["y"]
    want = np.take(run_graph(graph(n), given)["y0"], range(span.begin, span.end), span.axis)
    assert np.allclose(got, want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", SLICES)
def test_a_slice_is_that_of_the_whole(name: str) -> None:
    n, axis = SLICES[name]
    for begin, end in ((0, 1), (1, n.type.shape[axis]), (0, 4), (2, 3)):
        if end <= n.type.shape[axis]:
            is_part(n, Span(axis, begin, end))


SUMS = {
    "matmul": node("matmul", relu(x), weights(12, 5)),
    "conv": conv(image, weights(4, 12, 3, 3)),
    "after heads": node("matmul", node("reshape", relu(split), shape=(3, 20)), weights(20, 6)),
}


@pytest.mark.parametrize("unit", [1, 4])
@pytest.mark.parametrize("name", SUMS)
def test_parts_of_sums_add_up(name: str, unit: int) -> None:
    n, given, made = SUMS[name], arrays(graph(SUMS[name]), 3), Shards()
    pieces = [made.sums(n, a, b, unit) for a, b in ((0.0, 0.3), (0.3, 0.7), (0.7, 1.0))]
    got = sum(run_graph(Graph(graph(n).inputs, (("y", p),)), given)["y"] for p in pieces)
    assert np.allclose(got, run_graph(graph(n), given)["y0"], rtol=1e-4, atol=1e-5)


def test_heads_are_cut_between_heads_and_weights_too() -> None:
    piece = Shards().sums(SUMS["after heads"], 0.0, 0.5, 4)
    product = piece.args[0].args[0].args[0].args[0]
    assert product.op == "matmul" and product.args[1].type.shape == (12, 8)


def test_what_adds_nothing_up_is_refused() -> None:
    for n in (relu(x), softmax(x, 1), conv(image, weights(12, 1, 3, 3), groups=12)):
        with pytest.raises(Indivisible):
            Shards().sums(n, 0.0, 0.5, 1)
    with pytest.raises(Indivisible, match="pieces are too few"):
        Shards().sums(SUMS["matmul"], 0.0, 0.01, 1)


def test_the_comparison_sees_a_wrong_slice(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mistake is planted: what depends on where it stands is computed as if it did not."""
    monkeypatch.setattr(shards, "_is_slice", lambda n, span, wanted, found: True)
    with pytest.raises(AssertionError):
        is_part(SLICES["positions"][0], Span(1, 3, 6))


def drawn(seed: int) -> Graph:
    """A few products with activations and values that are carried past them."""
    random = np.random.default_rng(seed)
    y: Node = x
    for _ in range(3):
        wide = int(random.integers(5, 30))
        z = node("matmul", relu(node("matmul", y, weights(12, wide))), weights(wide, 12))
        y = node("add", y, z) if random.integers(2) else z
        y = relu(y) if random.integers(2) else softmax(y, 1)
    return graph(y)


def everything(stages: Sequence[Sequence[Cut]]) -> Iterator[tuple[Cut, ...]]:
    """All choices of cuts, with or without each stage, that end with the last."""
    if len(stages) == 1:
        yield from ((c,) for c in stages[0])
        return
    for rest in everything(stages[1:]):
        yield rest
        yield from ((c, *rest) for c in stages[0])


@pytest.mark.parametrize("seed", range(8))
def test_the_choice_is_that_of_exhaustive_search(seed: int) -> None:
    random = np.random.default_rng(seed)
    g = drawn(seed)
    rates = [float(r) for r in random.uniform(1e7, 1e9, 2)]
    stages = cuts(g, rates)
    speeds = [Speed(float(b), 1e-5) for b in random.uniform(1e6, 1e9, 2)]
    lead = leads(g, rates, links_of(places_of(["host@ssh:a", "host@ssh:b"]), speeds))
    assert 3 <= len(stages) <= 7
    prices: list[tuple[float, int]] = []
    for chosen in everything(stages):
        steps: list[Stretch] = []
        for a, b in zip((None, *chosen), chosen):
            step = lead(a, b)
            if step is None:
                break
            steps.append(step)
        if len(steps) == len(chosen) and any(c.kind != "one" for c in chosen):
            most = max(sum(s.weights[w] for s in steps) for w in range(2))
            prices.append((sum(s.seconds for s in steps), most))
    found = ways(stages, lead)
    assert all(map(is_shared, found))
    assert found[0].seconds == pytest.approx(min(prices)[0], rel=1e-9)
    for limit in sorted({most for _, most in prices}):
        best = min(seconds for seconds, most in prices if most <= limit)
        under = ways(stages, lead, limit=limit)
        assert under[0].seconds == pytest.approx(best, rel=1e-9) and max(under[0].weights) <= limit


def test_all_paths_go_through_narrow_values() -> None:
    y = relu(node("matmul", x, weights(12, 12)))
    z = node("add", y, node("matmul", y, weights(12, 12)))
    assert narrow(graph(z)) == [y.args[0], y, z]
    assert narrow(graph(node("add", x, y))) == [node("add", x, y)]


def test_a_value_that_is_carried_on_may_be_shared() -> None:
    """As in a transformer that normalizes what it reads: each layer adds to what is carried past it."""
    carried = x
    for wide in (30, 31):
        made = node("matmul", relu(node("matmul", carried, weights(12, wide))), weights(wide, 12))
        carried = node("add", carried, made)
    first = carried.args[0]
    found = {stage[0].value: [c.kind for c in stage] for stage in cuts(graph(carried), [1.0, 1.0])}
    assert "sums" in found[first] and "sums" in found[carried]
    biased = node("add", node("matmul", relu(carried), weights(12, 12)), weights(3, 12))
    stages = [stage[0].value for stage in cuts(graph(relu(biased)), [1.0, 1.0])]
    assert biased in stages and biased.args[0] not in stages
