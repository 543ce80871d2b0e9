"""Occupancy of a multiprocessor, compared with the arithmetic of NVIDIA's occupancy tables."""

from __future__ import annotations

import pytest

from edgec.device.load import load_device
from edgec.device.occupancy import occupancy, resident_groups


@pytest.mark.parametrize(
    ("device", "threads", "registers", "shared", "groups"),
    [
        ("jetson", 256, 32, 0, 6),  # as many threads as there can be
        ("jetson", 32, 16, 0, 16),  # as many groups
        ("jetson", 128, 255, 0, 2),  # eight warps of 8192 registers
        ("jetson", 256, 40, 49_152, 3),  # 49 KiB each, of 164
        ("jetson", 256, 40, 166_912, 1),
        ("cuda_sm90", 256, 64, 0, 4),
        ("cuda_sm90", 1024, 65, 0, 0),  # does not fit
        ("jetson_agx_xavier", 256, 32, 49_152, 2),  # nothing is kept of 96 KiB
        ("generic", 256, 32, 0, 0),
    ],
)
def test_groups_of_a_multiprocessor(device: str, threads: int, registers: int, shared: int, groups: int) -> None:
    assert resident_groups(load_device(device), threads, registers, shared) == groups


def test_occupancy_is_a_share_of_the_threads() -> None:
    assert occupancy(load_device("jetson"), 256, 32, 0) == 1
    assert occupancy(load_device("cuda_sm90"), 256, 64, 0) == 0.5
