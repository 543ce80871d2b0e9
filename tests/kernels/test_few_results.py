"""Products of one or two rows that read channels side by side: lanes run along the sum."""

from __future__ import annotations

import pytest
from compiled import program_of
from kernel_cases import cases

from edgec.device.load import load_device

CASES = cases()["few"]


@pytest.mark.parametrize("name", CASES)
def test_lanes_run_along_the_sum(name: str) -> None:
    """Where the results of a pixel are two at most, and what lies side by side fills the 8 lanes: 5 x 5 channels do."""
    program = program_of(CASES[name], load_device("x86_64_avx2"))
    assert (program.kernels[-1].template == "row") == (name != "16->3 2x2 by 1")
