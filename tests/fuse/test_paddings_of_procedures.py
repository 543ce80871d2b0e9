"""Operands of procedures lie row by row and by themselves, also paddings beside paddings of others."""

from __future__ import annotations

import numpy as np
import pytest
from small_graphs import conv, graph, value, weights

from edgec import ops
from edgec.device.load import load_device
from edgec.execute.executor import run_graph, run_program
from edgec.execute.samples import random_inputs
from edgec.fuse import plan
from edgec.ir.graph import Graph
from edgec.schedule.build import schedule
from edgec.schedule.options import ScheduleOptions

AROUND = (((2, 0, 1, 2), (3, 1, 1, 0)), ((0, 0, 1, 1), (0, 0, 1, 1)), ((0, 0, 2, 0), (0, 0, 2, 2)))


def sorted_and_convolved(around: int, parts: int, others: tuple[int, ...], is_last: bool) -> Graph:
    """A padding that is sorted, and paddings of the same that convolutions read."""
    every = [ops.node("floor", value(f"x{k}", 6, 4, 6, 3)) for k in range(parts)]
    whole = every[0] if parts == 1 else ops.node("concat", *every, axis=1)
    before, after = AROUND[around]
    padded = ops.node("pad", whole, before=before, after=after, value=-1.0)
    order = ops.node("argsort", padded, axis=2, count=5, descending=False)
    found = [ops.node("gather_elements", padded, order, axis=2)]
    for n in others:
        beside = ops.node("pad", every[-1], before=(0, 0, n, 1), after=(0, 0, 1, n), value=-1.0)
        found.append(conv(beside, weights(5, 4, 3, 3)))
    return graph(*(reversed(found) if is_last else found))


@pytest.mark.parametrize("is_last", [False, True])
@pytest.mark.parametrize("others", [(), (1,), (2, 1)])
@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize("around", range(len(AROUND)))
def test_paddings_of_procedures(around: int, parts: int, others: tuple[int, ...], is_last: bool) -> None:
    made = sorted_and_convolved(around, parts, others, is_last)
    given = random_inputs(made, 0)
    got = run_program(schedule(plan(made), load_device("x86_64_avx2"), ScheduleOptions(1)), given)
    for name, want in run_graph(made, given).items():
        np.testing.assert_allclose(got[name], want, rtol=1e-4, atol=1e-4)
