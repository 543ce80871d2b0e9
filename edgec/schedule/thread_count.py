"""Whether a network is worth several threads at all.

Threads meet at nearly every kernel, and what one of them wrote has to reach the other's cache. A network of
microseconds spends more on that than it saves, so it is built to run on the caller's thread alone.
"""

from __future__ import annotations

from edgec.device.device import Device
from edgec.fuse import Plan
from edgec.rewrite.measure import total

#: Cycles of waking the others, and of meeting them once with what they need. Between cores of one cache the second is
#: about 300, between caches 4000: the parts that follow one another rarely read what they wrote themselves.
_START, _MEET = 3000, 1500
#: Multiply-adds of one vector, and bytes, that a core does in a cycle at best.
_FMAS, _BYTES = 2, 32


def thread_count(plan: Plan, device: Device, threads: int) -> int:
    """The number of threads to build for, at most ``threads``: all of them, or one where sharing costs more."""
    if threads == 1 or device.is_gpu:
        return threads
    cost = total(plan.graph)
    cycles = cost.flops / (2 * _FMAS * device.vector_lanes) + cost.bytes / _BYTES
    saved = cycles * (1 - 1 / threads)
    return threads if saved > _START + _MEET * len(plan.blocks) else 1
