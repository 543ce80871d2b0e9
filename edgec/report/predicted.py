"""Predicted times of kernels beside measured ones: marks those that are slower than the planner assumed."""

from __future__ import annotations

from collections.abc import Sequence

from edgec.device.device import Device
from edgec.emit.function_comment import describe
from edgec.fuse.cost_model import CostModel
from edgec.report.kernels import blocks_of
from edgec.report.record import Record
from edgec.schedule.halo_fill import HaloFill
from edgec.schedule.program import Kernel, Program

#: A kernel that takes more than this many times its predicted time is marked; a machine that is slower than its
#: model by up to as much shifts the mark.
SLOW = 4.0


def predicted_seconds(kernel: Kernel, device: Device) -> float:
    """Seconds of a kernel on a CPU by the price of its blocks and of the halos that it fills, on one thread."""
    model = CostModel(device)
    halos = sum(s.schedule.halo_bytes for s in kernel.steps if isinstance(s.schedule, HaloFill))
    return float(sum(map(model, blocks_of(kernel))) + model.seconds_of_writing(halos))


def marks(measured: Sequence[float | None], predicted: Sequence[float]) -> list[Record]:
    """Of every kernel ``times_predicted`` (measured over predicted time, None if either is unknown) and ``is_slow``.

    The model is of a machine that nobody else uses, at its nominal clock. So the median of all ratios, weighted with
    the predicted times, counts as this machine's own pace, between 1 and `SLOW`; a kernel is slow if its ratio is more
    than `SLOW` times the pace.
    """
    ratios = [m / p if m is not None and p > 0 else None for m, p in zip(measured, predicted)]
    limit = SLOW * _pace(sorted((r, p) for r, p in zip(ratios, predicted) if r is not None))
    return [{"times_predicted": r, "is_slow": r is not None and r > limit} for r in ratios]


def _pace(ratios: Sequence[tuple[float, float]]) -> float:
    """The weighted median of ratios in ascending order, between 1 and SLOW."""
    half, passed = sum(weight for _, weight in ratios) / 2, 0.0
    for ratio, weight in ratios:
        passed += weight
        if passed >= half:
            return min(max(ratio, 1.0), SLOW)
    return 1.0


def by_price(program: Program, device: Device, seconds: Sequence[float | None]) -> list[Record]:
    """Every kernel with a measured time and a price, the one furthest above its price first."""
    predicted = [predicted_seconds(k, device) for k in program.kernels]
    rows: list[Record] = []
    for k, mark in enumerate(marks(seconds, predicted)):
        measured, kernel = seconds[k], program.kernels[k]
        if measured is not None and mark["times_predicted"] is not None:
            times = {"predicted_us": predicted[k] * 1e6, "measured_us": measured * 1e6, **mark}
            rows.append({"kernel": k, "template": kernel.template, "about": describe(kernel), **times})
    return sorted(rows, key=lambda row: -float(row["times_predicted"]))
