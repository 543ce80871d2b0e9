"""The number of threads: one for networks too small to gain from several.

Threads meet at nearly every kernel, and what one of them wrote has to reach the other's cache. A network of
microseconds spends more on that than it saves, so it is built to run on the caller's thread alone.
"""

from __future__ import annotations

from edgec.device.device import Device
from edgec.fuse import Plan
from edgec.ir.graph import Graph
from edgec.rewrite.measure import total
from edgec.schedule.program import Program, Training


def thread_count(plan: Plan, device: Device, threads: int) -> int:
    """The number of threads to build for, at most ``threads``: all of them, or one where sharing costs more."""
    if threads == 1 or device.is_gpu:
        return threads
    read = sum(n.type.bytes for b in plan.blocks for n in b.inputs if not n.is_const and n.op != "input")
    lost = device.costs.threads.wake + meeting_cycles(len(plan.blocks), read, device, threads)
    return threads if work_cycles(plan.graph, device) * (1 - 1 / threads) > lost else 1


def most_threads(network: Program, training: Training) -> int:
    """The largest number of threads of a ``network`` and of the steps that train it."""
    return max(network.threads, training.step.threads, training.replicas.count if training.replicas is not None else 1)


def work_cycles(graph: Graph, device: Device) -> float:
    """Cycles that a graph takes at best on one thread."""
    cost, costs = total(graph), device.costs.threads
    return cost.flops / (2 * costs.fmas * device.vector_lanes) + cost.bytes / costs.bytes


def meeting_cycles(kernels: int, read_bytes: int, device: Device, threads: int) -> float:
    """Cycles that ``threads`` lose where they share every kernel: barriers, and reading what others wrote.

    ``read_bytes`` are those that kernels read of one another's results, of which every thread has written a part.
    """
    costs = device.costs.threads
    return costs.barrier * kernels + read_bytes / threads * (1 - 1 / threads) / costs.exchange
