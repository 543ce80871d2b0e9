"""The options of scheduling: everything besides the plan and the device that decides a schedule."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from math import inf
from types import MappingProxyType

from edgec.rewrite.rule import Numeric
from edgec.schedule.known import Known
from edgec.schedule.variants import Variants


@dataclass(frozen=True)
class ScheduleOptions:
    """Options of scheduling.

    ``threads`` is the largest number of threads. With ``numeric`` "exact", neither Winograd's method nor fp16
    accumulation is used. ``tiles`` are the (rows, vectors) of ``--tile``, by the last node of the model in a matmul.
    ``variants`` has the measured variants of matmuls. On a device whose precision is below fp32, the first
    ``fp32_blocks`` blocks compute in fp32 nevertheless; None: as many as `leading` returns, which store fp32 and
    multiply in TF32 where tensor cores can. If ``bf16_layers`` are given, these layers (by name) multiply in bf16 on a
    CPU, and no others. ``micro_kernels`` are the names of the user's own. With ``in_levels`` small kernels of a CUDA
    program share launches, in another order. Equal blocks take the schedules that are ``known``; None: each is
    scheduled for itself. A program whose arena takes more than ``arena`` bytes is not wanted. Weights of a run are not
    transformed where a thread would need more than ``scratch`` bytes for that.
    """

    threads: int = 1
    numeric: Numeric = "reassociates"
    tiles: Mapping[str, tuple[int, int]] = field(default_factory=lambda: MappingProxyType({}))
    variants: Variants | None = None
    fp32_blocks: int | None = None
    bf16_layers: Collection[str] | None = None
    micro_kernels: tuple[str, ...] = ()
    in_levels: bool = False
    known: Known | None = None
    arena: float = inf
    scratch: float = inf
