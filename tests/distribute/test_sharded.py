"""Blocks with shardings of their own: graphs with branches, skips and several outputs give what one device gives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
from small_graphs import arrays, conv, graph, pad, relu, softmax, value, weights
from test_ilp import exhaustive

from edgec.distribute.choose import MISSING, Wanted, choose
from edgec.distribute.consecutive import chain_of
from edgec.distribute.ilp import is_there, solve
from edgec.distribute.links import Links, links_of
from edgec.distribute.parts import Division
from edgec.distribute.places import Speed, places_of
from edgec.distribute.prices import Prices
from edgec.distribute.sharded import Sharded, sharded
from edgec.execute.executor import run_graph
from edgec.fuse import Plan
from edgec.ir.graph import Graph, Node
from edgec.ops import node
from edgec.options import resolve

x, image = value("x", 6, 12), value("image", 1, 6, 9, 7)


def dense(y: Node, to: int) -> Node:
    return node("matmul", y, weights(int(y.type.shape[1]), to))


def near(y: Node, to: int) -> Node:
    return relu(conv(pad(y, 0, 0, 1, 1), weights(to, int(y.type.shape[1]), 3, 3)))


def diamond() -> Graph:
    begun = relu(dense(x, 14))
    return graph(node("add", softmax(dense(begun, 9), 1), dense(softmax(begun, 1), 9)))


def residual() -> Graph:
    y: Node = dense(x, 12)
    for wide in (17, 23):
        y = softmax(node("add", y, dense(relu(dense(y, wide)), 12)), 1)
    return graph(y)


def two_outputs() -> Graph:
    begun = softmax(dense(x, 10), 1)
    return graph(softmax(dense(begun, 7), 1), relu(dense(begun, 8)))


def two_towers(times: int = 1) -> Graph:
    words = softmax(dense(relu(dense(value("words", 5, 8 * times), 20 * times)), 6), 1)
    pictures = dense(relu(dense(value("x", 6, 12 * times), 30 * times)), 6)
    return graph(node("matmul", pictures, node("transpose", words, perm=(1, 0))))


def skips() -> Graph:
    first = near(image, 5)
    second = near(first, 8)
    return graph(near(node("concat", near(second, 4), first, axis=1), 3))


GRAPHS = {"diamond": diamond, "residual": residual, "two outputs": two_outputs, "two towers": two_towers,
          "skips": skips}  # fmt: skip


def planned(g: Graph, workers: int) -> tuple[Plan, Prices, Links]:
    """A network that takes long beside its messages, on workers of different speed."""
    options = resolve({})
    prices = Prices((options,) * workers, (1e3, 1.4e3, 0.8e3)[:workers])
    speeds = [Speed(1e9, 1e-6), Speed(3e8, 1e-6), Speed(5e8, 2e-6)][:workers]
    return prices.planned(g, 0), prices, links_of(places_of(["host@ssh:board"] * workers), speeds)


def ways_of(g: Graph, workers: int) -> tuple[Sharded, Prices]:
    plan, prices, links = planned(g, workers)
    found = sharded(chain_of(plan, prices.of_blocks(plan)), replace(links, hub=Speed(1e10, 1e-7)), True)
    assert found is not None
    return found, prices


def run(division: Division, given: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The outputs of a division, part by part; sums and slices are the coordinator's."""
    there = dict(given)
    for part in division.parts:
        ports = {
            r.port: there[r.tensor] if r.axis is None else there[r.tensor].take(range(r.begin, r.end), r.axis)
            for r in part.reads
        }
        there.update(run_graph(part.graph, ports))
        for name, terms in division.sums.items():
            if all(t in there for t in terms):
                there[name] = sum(there[t] for t in terms)  # type: ignore[assignment]
    return {name: there[name] for name in division.outputs}


@pytest.mark.parametrize("workers", [2, 3])
@pytest.mark.parametrize("name", GRAPHS)
def test_gives_what_one_device_gives(name: str, workers: int) -> None:
    """Also under limits on memory, which lead to other divisions."""
    g = GRAPHS[name]()
    ways, prices = ways_of(g, workers)
    given = arrays(g, 3)
    want = run_graph(g, given)
    weights_of = sum(n.type.bytes for n in g.nodes() if n.is_const)
    kinds = set()
    for limit in (None, int(0.9 * weights_of), int(1.15 * weights_of / workers)):
        problem = ways.problem(limit)
        found = solve(problem)
        if found is None:
            assert limit is not None
            continue
        division = ways.divided(problem, found, prices.of_graph)
        kinds |= {way.kind for v in ways.chain.values for way in ways.ways_of(v)}
        got = run(division, given)
        for key in want:
            assert np.abs(got[key] - want[key]).max() <= 1e-5 * np.abs(want[key]).max()
        for w in range(workers):
            consts = (n.type.bytes for p in division.parts if p.worker == w for n in p.graph.nodes() if n.is_const)
            assert limit is None or sum(consts) <= limit
    assert {"one", "all", "slices"} <= kinds


@pytest.mark.parametrize("name", ["diamond", "residual", "two outputs"])
def test_is_the_least_of_exhaustive_search(name: str) -> None:
    ways, _ = ways_of(GRAPHS[name](), 2)
    few = replace(ways, ways=tuple(w[:4] for w in ways.ways))
    heavy = sum(max(max(s.weights) for s in b) for b in few.problem().blocks)
    limits = [None, heavy // 2, heavy // 3]
    for limit, least in zip(limits, exhaustive(few.problem(), limits)):
        found = solve(few.problem(limit))
        assert found.seconds == pytest.approx(least, rel=1e-6) if found is not None else least == float("inf")


def test_branches_that_share_no_value_are_divided(monkeypatch: pytest.MonkeyPatch) -> None:
    """No value of two towers is one that all paths go through: only their blocks can be shared."""
    g = two_towers(50)
    plan, prices, links = planned(g, 2)
    quick = replace(links, hub=Speed(1e10, 1e-7), wires=(Speed(1e10, 1e-7),) * 2, workers=(Speed(1e10, 1e-7),) * 2)
    choice = choose(g, plan, prices, quick, Wanted("tensor", "latency"))
    assert choice.division.split == "tensor" and "integer program, proved" in choice.verdict
    assert choice.tried.predicted.latency_s < 0.8 * choice.alone_s
    assert is_there()
    monkeypatch.setattr("edgec.distribute.ilp.is_there", lambda: False)
    without = choose(g, plan, prices, quick, Wanted("auto", "latency"))
    assert MISSING in without.verdict and without.tried.predicted.latency_s > choice.tried.predicted.latency_s
