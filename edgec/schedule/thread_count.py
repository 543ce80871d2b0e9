"""The number of threads: one for networks too small to gain from several.

Threads meet at nearly every kernel, and what one of them wrote has to reach the other's cache. A network of
microseconds spends more on that than it saves, so it is built to run on the caller's thread alone.
"""

from __future__ import annotations

from edgec.device.device import Device
from edgec.fuse import Plan
from edgec.rewrite.measure import total


def thread_count(plan: Plan, device: Device, threads: int) -> int:
    """The number of threads to build for, at most ``threads``: all of them, or one where sharing costs more."""
    if threads == 1 or device.is_gpu:
        return threads
    cost, costs = total(plan.graph), device.costs.threads
    cycles = cost.flops / (2 * costs.fmas * device.vector_lanes) + cost.bytes / costs.bytes
    saved = cycles * (1 - 1 / threads)
    return threads if saved > costs.wake + costs.barrier * len(plan.blocks) else 1
