"""Keys that a constant mask hides: what blocks of queries still look at, and what becomes of the table."""

from __future__ import annotations

import numpy as np
import pytest
from attention_cases import attention
from hypothesis import given
from hypothesis import strategies as st
from small_graphs import graph, value

from edgec.device.load import load_device
from edgec.fuse import plan
from edgec.fuse.attention import DOT
from edgec.ir import expr as X
from edgec.ir.evaluate import Grid
from edgec.ir.graph import constant
from edgec.schedule.attention.attention import Attention
from edgec.schedule.attention.mask import MaskRange, as_range, by_position, visible
from edgec.schedule.build import schedule
from edgec.schedule.flat import Weights, evaluate_over
from edgec.schedule.gpu.attention import GpuAttention, largest_head
from edgec.schedule.options import ScheduleOptions
from edgec.schedule.program import Program

QUERIES, KEYS = 300, 320
M, N = np.mgrid[:QUERIES, :KEYS]


def program(mask: np.ndarray, name: str = "x86_64_avx2") -> Program:
    device = load_device(name)
    shapes = ("q", QUERIES, 16), ("k", KEYS, 16), ("v", KEYS, 16)
    q, k, v = (value(name, 2, rows, columns) for name, rows, columns in shapes)
    made = graph(attention(q, k, v, constant(mask if mask.dtype == bool else mask.astype(np.float32))))
    planned = plan(made, gpu=True, head=largest_head(device)) if device.is_gpu else plan(made)
    return schedule(planned, device, ScheduleOptions(fp32_blocks=0))


def params(of: Program) -> Attention | GpuAttention:
    (found,) = [k.schedule for k in of.kernels if k.template == "attention"]
    assert isinstance(found, Attention | GpuAttention)
    return found


def looked_at(found: Attention | GpuAttention) -> list[tuple[int, int]]:
    """The first and last key of every block of queries."""
    step = found.queries if isinstance(found, Attention) else found.tile.queries
    assert found.seen is not None
    first, last = (np.broadcast_to(evaluate_over(e, (found.m,)), (QUERIES,)) for e in found.seen)
    return list(zip(first[::step].tolist(), last[::step].tolist()))


@pytest.mark.parametrize("hidden", [-np.inf, np.finfo(np.float32).min, -1e30])
@pytest.mark.parametrize("device", ["x86_64_avx2", "cuda_sm90", "opencl_h200"])
def test_what_comes_later_is_not_looked_at(device: str, hidden: float) -> None:
    made = program(np.where(N <= M, 0, hidden), device)
    found = params(made)
    step = found.queries if isinstance(found, Attention) else found.tile.queries
    assert looked_at(found) == [(0, min(m + step, KEYS)) for m in range(0, QUERIES, step)]
    # The table is a comparison, or a line of it by distance.
    assert made.weights_bytes < 4 * (QUERIES + KEYS) + 64


def test_a_window_is_looked_at_from_where_it_begins() -> None:
    found = params(program(np.where((N <= M) & (N > M - 20), 0, -np.inf)))
    assert isinstance(found, Attention)
    assert looked_at(found) == [
        (max(m - 19, 0), min(m + found.queries, KEYS)) for m in range(0, QUERIES, found.queries)
    ]


def test_truth_values_hide_too() -> None:
    found = params(program((N // 100 == M // 100) & (N < 300), "cuda_sm90"))
    assert isinstance(found, GpuAttention)
    step = found.tile.queries
    blocks = [(m // 100 * 100, min((m + step - 1) // 100, 2) * 100 + 100) for m in range(0, QUERIES, step)]
    assert looked_at(found) == blocks


def test_what_a_mask_must_not_lose() -> None:
    everywhere = np.where(N <= M, 0, -np.inf)
    everywhere[7] = -np.inf  # this query's result is no number, as the mask has it
    assert params(program(everywhere)).seen is None
    # Less is still something: a score of 200 would win.
    assert params(program(np.where(N <= M, 0, -100))).seen is None
    # Another constant takes back what one has said.
    m, n = X.fresh(4), X.fresh(4)
    score, bounds = DOT + X.select(n <= m, 0.0, -1e30), X.select(n <= m, 0.0, 1e30)
    assert visible(score, m, n) is not None and visible(score + bounds, m, n) is None
    # It hides, and says more than that.
    more = program(np.where(N <= M, np.cos(N * M), -np.inf))
    assert params(more).seen is not None
    assert more.weights_bytes >= 4 * QUERIES * KEYS


def test_ranges_that_move_on_with_queries() -> None:
    m, n = X.fresh(8), X.fresh(12)
    score = DOT * 0.5

    def found(truth: X.Expr, otherwise: float = -np.inf) -> tuple[X.Expr, X.Expr] | None:
        return as_range(X.select(truth, score, otherwise), m, n)

    window = X.call("and", X.call("ge", n, m - 3), X.call("lt", n, m + 2))
    for truth in (window, *window.args):
        assert found(truth) == (truth, score)
        assert found(truth, -1e30) is None  # rows of which all keys are hidden differ
    table = Weights().add(np.arange(8))
    backwards = X.call("lt", n, X.const(9) - m)
    others = X.call("eq", n, m), X.call("ge", m, n), X.call("lt", n, n + m), X.call("or", *window.args)
    for truth in (backwards, X.call("lt", n, X.load(table, (m,), "i64")), *others):
        assert found(truth) is None
        assert found(X.call("and", window.args[0], truth)) is None
    assert as_range(score, m, n) is None


@given(st.integers(2, 40), st.integers(2, 40), st.integers(1, 9), st.data())
def test_no_visible_key_is_left_out(queries: int, keys: int, step: int, data: st.DataObject) -> None:
    ends = [sorted(data.draw(st.tuples(st.integers(0, keys), st.integers(0, keys)))) for _ in range(queries)]
    sees = np.array([[a <= n < b for n in range(keys)] for a, b in ends])
    m, n = X.fresh(queries), X.fresh(keys)
    weights = Weights()
    table = weights.add(np.where(sees, np.float32(0), np.float32(-np.inf)))
    score = DOT + X.load(table, (m * keys + n,), "f32")
    seen = visible(score, m, n)
    if seen is None:
        assert sees.all() or not sees.any(axis=1).all()
        return
    assert (seen.first == [a for a, _ in ends]).all() and (seen.last == [b for _, b in ends]).all()
    assert (over(seen, by_position(score, seen, weights)) == over(seen, score)).all()
    blocks = seen.of_blocks(step, weights)
    for start in range(0, queries, step):
        first, last = (0, keys) if blocks is None else (int(over(seen, e)[start, 0]) for e in blocks)
        assert not sees[start : start + step, :first].any() and not sees[start : start + step, last:].any()


def over(seen: MaskRange, e: X.Expr) -> np.ndarray:
    """An expression for every query and key, inner products 0."""
    lookup = lambda buffer: np.float32(0) if buffer == DOT.value else buffer.data  # noqa: E731
    found = Grid((seen.m, seen.n), lookup).value(X.substitute(e, {DOT: X.const(0.0, "f32")}))
    return np.broadcast_to(found, (len(seen.first), seen.keys))
