"""Lifetimes of values in memory, as ways in stripes are compared by them, beside a count at every moment."""

from __future__ import annotations

import numpy as np
import pytest
from small_graphs import graph, pad, value

from edgec import ops
from edgec.fuse.stripe_rows import Rows
from edgec.fuse.stripe_ways import Lives
from edgec.fuse.stripes import Region
from edgec.ir.graph import Graph, Node


def drawn(seed: int) -> tuple[Graph, list[Node]]:
    """A graph of values of several sizes, and those of its nodes that lie in memory."""
    random = np.random.default_rng(seed)
    nodes: list[Node] = [value("a", 3, 4), value("b", 5, 4)]
    for _ in range(14):
        n = nodes[random.integers(len(nodes))]
        kind = random.integers(4)
        if kind == 0:
            m = nodes[random.integers(len(nodes))]
            nodes.append(ops.node("concat", n, m, axis=0))
        elif kind == 1:
            rows = int(random.integers(1, n.type.shape[0] + 1))
            nodes.append(ops.node("slice", n, starts=(0, 0), steps=(1, 1), shape=(rows, 4)))
        elif kind == 2:
            padded = pad(n, (1, 2), 0)
            nodes.append(ops.node("tanh", padded) if random.integers(2) else padded)
        else:
            nodes.append(ops.node("exp", n))
    made = graph(*dict.fromkeys((nodes[-1], nodes[int(random.integers(2, len(nodes)))])))
    inside = [n for n in made.nodes() if n.op not in ("input", "const")]
    results = {n for _, n in made.outputs}
    return made, [n for n in inside if n in results or random.integers(3)]


def readers(made: Graph, standing: list[Node], n: Node) -> list[int]:
    """When a value is read: directly, or through values that are not in memory."""
    users, found, stack, seen = made.users(), [], [n], set[Node]()
    while stack:
        for u in users[stack.pop()]:
            if u not in seen:
                seen.add(u)
                found.append(standing.index(u)) if u in standing else stack.append(u)
    return found


def size_of(made: Graph, n: Node) -> int:
    """Bytes of a value, or of the largest that a padding makes of it; what slices read of that, where nothing else
    does."""
    users = made.users()
    sizes = [n.type.bytes]
    for u in users[n]:
        if u.op == "pad":
            parts = users[u]
            sizes.append(
                max(p.type.bytes for p in parts) if parts and all(p.op == "slice" for p in parts) else u.type.bytes
            )
    return max(sizes)


@pytest.mark.parametrize("seed", range(24))
def test_most_bytes_at_once(seed: int) -> None:
    made, standing = drawn(seed)
    lives, results = Lives(made, standing), {n for _, n in made.outputs}
    ports = sum(n.type.bytes for n in {*made.inputs}) + sum(n.type.bytes for n in results)
    spans = {n: (k, max([k, *readers(made, standing, n)])) for k, n in enumerate(standing) if n not in results}
    sizes = {n: size_of(made, n) for n in spans}

    def most(begin: int, end: int) -> int:
        moments = range(begin, end + 1)
        return ports + max((sum(sizes[n] for n, (a, b) in spans.items() if a <= t <= b) for t in moments), default=0)

    last = len(standing) - 1
    assert lives.peak == most(0, last)
    assert lives.between(None, None) == most(0, last)
    for k, n in enumerate(standing):
        assert lives.between(None, n) == most(0, k)
        assert lives.between(n, None) == most(k + 1, last)
        for j in range(k + 1, len(standing)):
            assert lives.between(n, standing[j]) == most(k + 1, j)


def test_what_a_region_reads_and_stores_is_there_as_a_whole() -> None:
    a = value("a", 1, 1, 8, 4)
    b, given = ops.node("exp", a), ops.node("tanh", a)
    c = ops.node("add", b, given)
    d = ops.node("exp", c)
    made = graph(ops.node("sin", d))
    standing = [given, b, c, d, made.outputs[0][1]]
    lives, ports = Lives(made, standing), 2 * 128
    rows = Rows(2, 0, 2)
    wanted = dict.fromkeys((a, b, c, d, given), rows)
    region = Region(d, ((d, 2),), given=frozenset((given,)))
    assert lives.during(region, wanted) == ports + 2 * 32 + 2 * 128  # a quarter of b and c; d and what is given whole
    assert lives.during(Region(d, ((d, 2),)), wanted) == ports + 2 * 32 + 32 + 128
