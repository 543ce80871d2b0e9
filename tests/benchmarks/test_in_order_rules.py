"""The rules by which loops are timed for cores that run in order."""

from __future__ import annotations

import pytest

from benchmarks.cpu.in_order import cycles

SUM = "fmla v{0}.4s, v30.4s, v31.s[0]"


@pytest.mark.parametrize(
    ("beside", "a55", "a53"),
    [
        (None, 8, 8),
        ("ldr q29, [x0]", 24, 24),  # two cycles in which nothing else starts
        ("ldr d29, [x0]", 8, 16),
        ("ldr x9, [x0]", 8, 8),
        ("ins v29.d[1], x9", 16, 16),  # each waits for the one before it, which it changes a part of
        ("add x9, x9, 4", 8, 8),
    ],
)
def test_what_starts_beside_a_multiply_add(beside: str | None, a55: int, a53: int) -> None:
    body = [line for k in range(8) for line in (SUM.format(k), beside) if line]
    assert round(cycles(body, "cortex-a55")) == a55
    assert round(cycles(body, "cortex-a53")) == a53


def test_a_sum_waits_for_itself() -> None:
    assert round(cycles([SUM.format(0)], "cortex-a55")) == 4
