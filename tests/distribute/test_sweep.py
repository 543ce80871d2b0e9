"""Shardings by a sweep over the values: what exhaustive search finds, at drawn prices."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from math import inf

import numpy as np
import onnx
import pytest
from test_tensor_networks import carried_twice, convs, mlp

from edgec import pipeline
from edgec.distribute import sweep as sweeping
from edgec.distribute.offers import Offers
from edgec.distribute.pieces import Sharding
from edgec.distribute.sweep import Chosen, Exchange, Lies, sweep
from edgec.frontend.source import read
from edgec.ir.graph import Node
from edgec.options import resolve
from edgec.pipeline.context import Context

NETWORKS = {"mlp": mlp(12), "carried": carried_twice(), "convs": convs(12)}


def offers(made: onnx.ModelProto, split: str, seed: int) -> tuple[Offers, Exchange]:
    """The offers of a network, at prices that are drawn."""
    random = np.random.default_rng(seed)
    options = resolve({"device": "cuda_sm90"})
    graph = pipeline.run(read(made), Context(options), until="compress").result.graph
    found = Offers.of(graph, options, 2, 1.0, split)
    seconds = tuple(random.uniform(0, 1, len(found.chain.values)))
    exchange = Exchange(2, random.uniform(0, 0.5), 10 ** random.uniform(2, 5))
    return replace(found, chain=replace(found.chain, seconds=(seconds,)), start_s=random.uniform(0, 0.3)), exchange


def placed(n: Node, sharding: Sharding) -> list[Lies]:
    if sharding.kind != "slices":
        return [Lies(True, None)]
    return [Lies(False, sharding.axis), Lies(True, sharding.axis)]


def choices(o: Offers) -> Iterator[tuple[dict[Node, Lies], list[tuple[Sharding, Lies]]]]:
    """All ways to place the inputs and to compute the values."""
    inputs = [[Lies(True, None), *(Lies(False, axis) for axis in o.inputs.get(n, ()))] for n in o.chain.graph.inputs]
    values = [[(s, lies) for s in own for lies in placed(v, s)] for v, own in zip(o.chain.values, o.shardings)]
    for given in product(*inputs):
        for found in product(*values):
            yield dict(zip(o.chain.graph.inputs, given)), list(found)


def cost(o: Offers, exchange: Exchange, given: dict[Node, Lies], found: list[tuple[Sharding, Lies]]) -> float:
    """Seconds of a choice; infinite where something is not there that is needed, or nothing is shared."""
    there, total = dict(given), 0.0
    for v, seconds, (sharding, lies) in zip(o.chain.values, o.chain.seconds[0], found):
        for n, axis in sharding.needs:
            if n in there and not (there[n].whole if axis is None else there[n].axis == axis):
                return inf
        start = min(o.start_s, seconds)
        total += start + (seconds - start) * min(sharding.share, 1.0)
        if sharding.kind == "sums":
            total += exchange.summed(o.bytes_of[v])
        elif sharding.kind == "slices" and lies.whole:
            total += exchange.gathered(o.bytes_of[v])
        there[v] = lies
    ends = [there[n] for _, n in o.chain.graph.outputs]
    firsts = [n.type.shape[: lies.axis or 0] for (_, n), lies in zip(o.chain.graph.outputs, ends)]
    if any(not lies.whole and any(e > 1 for e in first) for lies, first in zip(ends, firsts)):
        return inf
    return total if any(s.kind != "all" for s, _ in found) else inf


def swept(o: Offers, exchange: Exchange) -> Chosen | None:
    return sweep(o.chain, o.shardings, exchange, o.bytes_of, o.inputs, o.start_s)


@pytest.mark.parametrize("split", ["tensor", "rows", "auto"])
@pytest.mark.parametrize("name", NETWORKS)
def test_a_sweep_finds_the_cheapest(name: str, split: str) -> None:
    for seed in range(4):
        o, exchange = offers(NETWORKS[name], split, seed)
        least = min((cost(o, exchange, *choice) for choice in choices(o)), default=inf)
        found = swept(o, exchange)
        assert (found is None) == (least == inf)
        if found is not None:
            own = [found.values[v] for v in o.chain.values]
            assert found.seconds == pytest.approx(least) == cost(o, exchange, found.inputs, own)


def test_few_states_still_give_a_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    o, exchange = offers(NETWORKS["carried"], "tensor", 1)
    best = swept(o, exchange)
    monkeypatch.setattr(sweeping, "MOST_STATES", 4)
    found = swept(o, exchange)
    assert best is not None and found is not None and found.seconds >= best.seconds
    assert cost(o, exchange, found.inputs, [found.values[v] for v in o.chain.values]) == pytest.approx(found.seconds)
