"""The least arena of a plan: never more than its program takes, and as much as that in most networks."""

from __future__ import annotations

import pytest
from saved_cases import made, some
from small_graphs import graph, value

from edgec import ops
from edgec.device.load import load_device
from edgec.fuse import plan
from edgec.schedule.build import schedule
from edgec.schedule.chain import VECTOR_BYTES
from edgec.schedule.least import least_arena
from edgec.schedule.options import ScheduleOptions


@pytest.mark.parametrize("device", ["x86_64_avx2", "cortex_m4"])
def test_no_more_than_programs_take(device: str) -> None:
    reached = count = 0
    for made_of in some(13):
        found = made(made_of, load_device(device))
        if found is None:
            continue
        planned, program = found
        least = least_arena(planned, program.views)
        assert least <= program.arena_bytes
        count += 1
        reached += least == program.arena_bytes
    assert count > 20 and 2 * reached > count


def arena(*rows: int, keep: bool = False) -> tuple[int, int]:
    """(least, actual) bytes of sorted rows, one after the other."""
    x = value("x", rows[0], VECTOR_BYTES)
    first = y = ops.node("argsort", x, axis=1, descending=False)
    for _ in rows[1:]:
        y = ops.node("argsort", y, axis=1, descending=True)
    made_of = graph(ops.node("add", y, first) if keep else y)
    planned = plan(made_of)
    program = schedule(planned, load_device("cortex_m4"), ScheduleOptions())
    return least_arena(planned, program.views), program.arena_bytes


def test_values_that_live_at_one_time() -> None:
    """Each of these kernels reads all of a row before it has written it."""
    one = 2 * 8 * VECTOR_BYTES
    assert arena(2)[0] == 0 and arena(2, 2)[0] == one
    for rows, keep in (((2, 2, 2), False), ((2, 2, 2, 2), False), ((2, 2, 2, 2), True)):
        least, actual = arena(*rows, keep=keep)
        assert one <= least <= actual
    assert arena(2, 2, 2, 2, keep=True)[0] > arena(2, 2, 2, 2)[0]
