"""Facts of a device, as records have them."""

from __future__ import annotations

from typing import TypedDict

from edgec.device.costs import Costs
from edgec.device.device import Arch, Board, Gpu, Language, Link, Precision, Toolchain


class DeviceFacts(TypedDict):
    """Every fact of a device file (`edgec.device.device.Device`), and the figures that were measured."""

    name: str
    description: str
    arch: Arch
    bases: list[str]
    language: Language
    instruction_sets: list[str]
    vector_bytes: int
    vector_registers: int
    in_order: bool
    dual_issue_load: bool
    unroll: int
    cores: int
    l1d_bytes: int
    l2_bytes: int
    l3_bytes: int
    ram_bytes: int
    page_bytes: int
    gpu_device: str
    gpu: Gpu
    board: Board
    toolchain: Toolchain
    precision: Precision
    hosted: bool
    link: Link
    measured: dict[str, float]
    costs: Costs
