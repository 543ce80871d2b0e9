"""Plans and programs of random graphs, open dimensions among them, are equal after they were written and read."""

from __future__ import annotations

import pytest
from saved_cases import check_plan, check_program, made
from test_random_graphs import drawn

from edgec.device.load import load_device


@pytest.mark.parametrize("name", ["host", "cortex_m7", "cuda_sm90"])
def test_plans_and_programs_come_back(name: str) -> None:
    device = load_device(name)
    found = [kept for case in drawn() if (kept := made(case.graph, device)) is not None]
    assert len(found) > len(drawn()) / 3
    for planned, program in found:
        check_plan(planned)
        check_program(program, device)
