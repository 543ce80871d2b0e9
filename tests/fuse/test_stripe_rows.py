"""Rows of a result alone: the operator on what they need of its operands gives the same numbers, and they need no less.

What is needed is found by changing one row of an operand after the other, and looking at which rows of the result
change with it.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from chance import RANDOM
from small_graphs import conv, graph, pad, pool, transpose, value, weights

from edgec import ops
from edgec.execute.executor import run_graph
from edgec.fuse.stripe_rows import ROWS, Rows, needed, on_rows, part, sliced, summed, total
from edgec.ir.graph import Node, constant, rewrite


def x(*shape: int) -> Node:
    return value("x", *shape)


def slice_of(n: Node, *parts: tuple[int, int, int]) -> Node:
    """Of each dimension the start, the step and the size."""
    starts, steps, shape = zip(*parts)
    return ops.node("slice", n, starts=starts, steps=steps, shape=shape)


MADE: dict[str, tuple[Node, int]] = {
    "exp": (ops.node("exp", x(2, 3, 6, 2)), 2),
    "exp, first": (ops.node("exp", x(5, 3)), 0),
    "cast": (ops.node("cast", x(2, 6), to="f64"), 1),
    "add of a column": (ops.node("add", x(1, 2, 5, 3), constant(np.float32(RANDOM.random((5, 1))))), 2),
    "broadcast": (ops.node("broadcast", x(5, 1), shape=(2, 3, 5, 4)), 2),
    "conv": (conv(x(1, 2, 9, 5), weights(3, 2, 3, 2)), 2),
    "conv, columns": (conv(x(1, 2, 4, 11), weights(3, 2, 3, 2), stride=(2, 3)), 3),
    "conv, apart": (conv(x(1, 2, 12, 5), weights(3, 2, 3, 2), stride=(2, 1), dilation=2), 2),
    "conv, one dimension": (conv(x(1, 2, 9), weights(3, 2, 4)), 2),
    "pool": (pool(x(1, 2, 11, 5), "max", (3, 2), 2, 2), 2),
    "pool, one dimension": (pool(x(1, 2, 11), "add", (3,), 1, 3), 2),
    "transpose": (transpose(x(2, 3, 4, 5), 0, 3, 1, 2), 2),
    "reduce": (ops.node("reduce", x(2, 3, 6, 2), combine="add", axes=(1, 3)), 2),
    "reduce, rows stay": (ops.node("reduce", x(4, 3), combine="max", axes=(1,)), 0),
    "pad": (pad(x(1, 2, 5, 3), (2, 3), 1), 2),
    "pad, nothing before": (pad(x(1, 2, 5, 3), (0, 1), 0), 2),
    "slice": (slice_of(x(1, 2, 9, 5), (0, 1, 1), (0, 1, 2), (3, 1, 4), (0, 2, 2)), 2),
    "concat": (ops.node("concat", x(1, 2, 6, 3), ops.node("exp", x(1, 2, 6, 3)), axis=1), 2),
    "rows of pixels": (ops.node("reshape", x(1, 3, 4, 6), shape=(1, 3, 24)), 2),
    "pixels of rows": (ops.node("reshape", x(1, 3, 24), shape=(1, 3, 4, 6)), 2),
    "uneven groups": (ops.node("reshape", x(1, 6, 4), shape=(1, 3, 8)), 1),
    "parts of groups": (ops.node("reshape", x(2, 3, 8), shape=(2, 6, 4)), 1),
}


def run(n: Node, fed: np.ndarray) -> np.ndarray:
    (found,) = run_graph(graph(n), {"x": fed}).values()
    return found


def rows_of(array: np.ndarray, rows: Rows) -> np.ndarray:
    return array[(*[slice(None)] * rows.dim, slice(rows.first, rows.end))]


def every(n: Node, dim: int) -> list[Rows]:
    extent = n.type.shape[dim]
    return [Rows(dim, a, b) for a in range(extent) for b in range(a + 1, extent + 1)]


@pytest.mark.parametrize("name", MADE)
def test_rows_alone(name: str) -> None:
    n, dim = MADE[name]
    given = value("x", *n.args[0].type.shape)
    fed = RANDOM.standard_normal(given.type.shape).astype(np.float32)
    whole = run(n, fed)
    for rows in every(n, dim):
        found = needed(n, rows)
        if n.op == "pad" and found is None:  # they are padding alone
            before = n.attributes["before"][dim]
            assert rows.end <= before or rows.first >= before + given.type.shape[dim]
            continue
        assert found is not None and len(found) == len(n.args)
        args = [a if r is None else sliced(a, r, 0) for a, r in zip(n.args, found)]
        assert np.array_equal(run(on_rows(n, args, rows), fed), rows_of(whole, rows)), rows


@pytest.mark.parametrize("name", MADE)
def test_no_more_rows_than_are_needed(name: str) -> None:
    n, dim = MADE[name]
    given = value("x", *n.args[0].type.shape)
    fed = RANDOM.standard_normal(given.type.shape).astype(np.float32)
    whole = run(n, fed)
    (own,) = {r.dim for r in (needed(n, Rows(dim, 0, n.type.shape[dim])) or [])[:1] if r is not None}
    reached: dict[int, set[int]] = {}
    for k in range(given.type.shape[own]):
        changed = fed.copy()
        changed[(*[slice(None)] * own, k)] += 10
        differs = np.moveaxis(run(n, changed) != whole, dim, 0).reshape(n.type.shape[dim], -1).any(1)
        for row in np.flatnonzero(differs):
            reached.setdefault(int(row), set()).add(k)
    for rows in every(n, dim):
        read = set().union(*(reached.get(r, set()) for r in range(rows.first, rows.end)))
        found = needed(n, rows)
        assert (found is None) == (not read)
        if found is not None and found[0] is not None:
            assert (found[0].first, found[0].end) == (min(read), max(read) + 1), rows


@pytest.mark.parametrize(
    ("n", "rows"),
    [
        (conv(x(1, 2, 9, 5), weights(3, 2, 3, 2)), Rows(1, 0, 1)),
        (pool(x(1, 2, 9, 5), "max", (3, 2)), Rows(0, 0, 1)),
        (ops.node("reduce", x(2, 6), combine="add", axes=(1,)), Rows(1, 0, 1)),
        (slice_of(x(9, 5), (0, 2, 4), (0, 1, 5)), Rows(0, 0, 2)),
        (ops.node("concat", x(4, 3), x(4, 3), axis=0), Rows(0, 0, 2)),
        (ops.node("reshape", x(6, 4), shape=(3, 1, 8)), Rows(1, 0, 1)),
        (ops.node("reshape", x(4, 6), shape=(3, 8)), Rows(1, 0, 2)),
        (ops.node("reshape", x(2, 15), shape=(2, 3, 5)), Rows(2, 0, 2)),
        (ops.node("reshape", x(6, 10), shape=(15, 4)), Rows(0, 0, 2)),
        (ops.node("matmul", x(4, 3), weights(3, 5)), Rows(0, 0, 2)),
    ],
    ids=lambda v: v.op if isinstance(v, Node) else None,
)
def test_rows_that_are_no_rows_of_an_operand(n: Node, rows: Rows) -> None:
    assert needed(n, rows) is None


def test_operands_that_rows_need_whole() -> None:
    """One row for all, or fewer dimensions."""
    for shape in ((5, 1, 3), (3,), ()):
        n = ops.node("add", x(5, 4, 3), constant(np.ones(shape, np.float32)))
        assert needed(n, Rows(1, 1, 3)) == [Rows(1, 1, 3), None]


def test_parts_are_even_and_all_there_is() -> None:
    n = x(1, 1, 11)
    for count in range(1, 12):
        parts = [part(n, 2, k, count) for k in range(count)]
        assert [p.first for p in parts] == [0, *(p.end for p in parts[:-1])] and parts[-1].end == 11
        sizes = [p.end - p.first for p in parts]
        assert max(sizes) - min(sizes) <= 1 and [p.share(n) for p in parts] == [s / 11 for s in sizes]
    assert Rows(2, 1, 4).hull(Rows(2, 3, 9)) == Rows(2, 1, 9) == Rows(2, 3, 9).hull(Rows(2, 1, 4))


def column(n: Node) -> Node:
    return ops.node("reduce", n, combine="add", axes=(ROWS, 3))


SUMS: dict[str, Callable[[], Node]] = {
    "of rows": lambda: column(x(2, 3, 8, 4)),
    "gradient of a kernel": lambda: conv(x(1, 2, 9, 6), ops.node("tanh", value("g", 3, 2, 7, 5))),
    "apart": lambda: conv(x(1, 2, 15, 6), ops.node("tanh", value("g", 3, 2, 5, 2)), stride=(2, 1), dilation=3),
}


@pytest.mark.parametrize("name", SUMS)
@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_parts_of_sums_over_rows_add_up(name: str, count: int) -> None:
    """Whole numbers, so that the order of additions does not matter."""
    whole = rewrite(graph(SUMS[name]()), lambda n, args: n.args[0] if n.op == "tanh" else n if n.args == args else
                    ops.node(n.op, *args, **n.attributes)).outputs[0][1]  # fmt: skip
    fed = {n.attributes["name"]: RANDOM.integers(-9, 10, n.type.shape).astype(np.float32) for n in graph(whole).inputs}
    parts = []
    for k in range(count):
        found = summed(whole, k, count)
        assert found is not None and len(found) == len(whole.args)
        args = [a if r is None else sliced(a, r, 0) for a, r in zip(whole.args, found)]
        parts.append(ops.node(whole.op, *args, **whole.attributes))
    got, want = (run_graph(graph(n), fed)["y0"] for n in (total(parts), whole))
    assert np.array_equal(got, want)


def test_what_is_no_sum_over_rows() -> None:
    for n in (
        ops.node("reduce", x(2, 3, 8, 4), combine="max", axes=(ROWS,)), ops.node("exp", x(2, 3, 8, 4)),
        ops.node("reduce", x(2, 3, 8, 4), combine="add", axes=(1, 3)), conv(x(1, 2, 9, 6), weights(3, 2, 7, 5)),
    ):  # fmt: skip
        assert summed(n, 0, 2) is None


@pytest.mark.parametrize("is_const", [False, True])
def test_slices_of_rows(is_const: bool) -> None:
    data = RANDOM.standard_normal((2, 6, 3)).astype(np.float32)
    n = constant(data) if is_const else x(2, 6, 3)
    assert sliced(n, Rows(1, 4, 10), 4) is n
    for rows, begin in ((Rows(1, 4, 9), 4), (Rows(1, 5, 10), 4), (Rows(1, 1, 3), 0), (Rows(1, 0, 1), 0)):
        found = sliced(n, rows, begin)
        assert found.is_const == is_const
        got = found.value if is_const else run(found, data)
        assert np.array_equal(got, data[:, rows.first - begin : rows.end - begin])
