"""The options of scheduling: everything besides the plan and the device that decides a schedule."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from edgec.rewrite.rule import Numeric
from edgec.schedule.variants import Variants


@dataclass(frozen=True)
class ScheduleOptions:
    """Options of a schedule.

    ``threads`` is the number that share the work at most. With ``numeric`` "exact", sums are taken as they stand: by
    no fewer products, and not in fp16. ``tiles`` are (rows, vectors) that were decided for matmuls, by the last node of
    the model in them. ``variants`` has the measured variants of matmuls. On a device whose precision is below fp32, the
    first ``fp32_blocks`` blocks compute in fp32 all the same; None: as many as `leading` gives. ``bf16_layers`` are
    layers, by their names, that alone multiply bf16 on a CPU. ``micro_kernels`` are those of the user's own, by name.
    """

    threads: int = 1
    numeric: Numeric = "reassociates"
    tiles: Mapping[str, tuple[int, int]] = field(default_factory=lambda: MappingProxyType({}))
    variants: Variants | None = None
    fp32_blocks: int | None = None
    bf16_layers: Collection[str] | None = None
    micro_kernels: tuple[str, ...] = ()
