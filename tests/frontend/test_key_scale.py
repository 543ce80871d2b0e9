"""Scales of keys that become scales of queries: a constant number, with any movement around the scaling."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from chance import RANDOM
from small_graphs import graph, number, transpose, value

from edgec import ops
from edgec.execute.executor import run_graph
from edgec.frontend.onnx.key_scale import on_queries
from edgec.ir.graph import Node, constant

Q, K = value("q", 2, 3, 4), value("k", 2, 5, 4)


def scaled(k: Node) -> Node:
    return ops.node("mul", k, number(0.25))


def turned(k: Node) -> Node:
    return transpose(k, 0, 2, 1)


def sliced(k: Node) -> Node:
    return ops.node("slice", k, starts=(0, 1, 0), steps=(1, 1, 1), shape=(2, 3, 4))


MOVED: dict[str, Callable[[Node], Node]] = {
    "as it is": lambda k: scaled(turned(k)),
    "turned": lambda k: turned(scaled(k)),
    "number first": lambda k: turned(ops.node("mul", number(0.25), k)),
    "a part": lambda k: turned(sliced(scaled(k))),
    "in rows": lambda k: turned(ops.node("reshape", scaled(ops.node("reshape", k, shape=(10, 4))), shape=(2, 5, 4))),
    "repeated": lambda k: ops.node(
        "broadcast", scaled(turned(ops.node("reshape", k, shape=(10, 1, 4)))), shape=(10, 4, 6)
    ),
}
OTHERS: dict[str, Callable[[Node], Node]] = {
    "unscaled": turned,
    "a scale of each": lambda k: turned(ops.node("mul", k, constant(np.ones(4, np.float32)))),
    "of one element": lambda k: turned(ops.node("mul", k, constant(np.ones((1, 1, 1), np.float32)))),
    "computed": lambda k: turned(ops.node("mul", k, value("c"))),
    "added": lambda k: turned(ops.node("add", k, number(0.25))),
    "behind a function": lambda k: turned(ops.node("exp", scaled(k))),
}


@pytest.mark.parametrize("name", MOVED)
def test_numbers_are_moved(name: str) -> None:
    keys = MOVED[name](K)
    q = value("q", keys.type.shape[0], 3, 4)
    product = ops.node("matmul", q, keys)
    found = on_queries(product)
    fed = {n.attributes["name"]: RANDOM.integers(-9, 10, n.type.shape).astype(np.float32) for n in graph(found).inputs}
    assert np.array_equal(*(run_graph(graph(n), fed)["y0"] for n in (found, product)))
    queries, plain = found.args
    assert queries.op == "mul" and q in queries.args
    assert all(n.op != "mul" for n in graph(plain).nodes())


@pytest.mark.parametrize("name", OTHERS)
def test_other_keys_stay(name: str) -> None:
    product = ops.node("matmul", Q, OTHERS[name](K))
    assert on_queries(product) is product
