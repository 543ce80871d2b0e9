"""Parts of a network that cost most, and parts of vectors that odd numbers of channels leave empty."""

from __future__ import annotations

from dataclasses import dataclass

from edgec.advise.price import seconds_of
from edgec.device.device import Device
from edgec.report.kernels import blocks_of, kernel_record
from edgec.schedule.program import Kernel, Program

#: Kernels that are named, and the least share of the time that is worth a word.
MOST, WORTH = 5, 0.01


@dataclass(frozen=True)
class Costly:
    """A kernel by its number, its nodes and its share of the predicted time."""

    kernel: int
    nodes: tuple[str, ...]
    operators: tuple[str, ...]
    ms: float
    share: float


@dataclass(frozen=True)
class Uneven:
    """A product whose ``channels`` leave ``lost`` of the time to empty lanes; ``even`` are the numbers around it."""

    kernel: int
    nodes: tuple[str, ...]
    channels: int
    even: tuple[int, ...]
    lost: float


def costliest(program: Program, device: Device, threads: int) -> list[Costly]:
    """The kernels that take most of the predicted time, most first."""
    seconds = [seconds_of(k, device, threads) for k in program.kernels]
    total = sum(seconds) or 1.0
    order = sorted(range(len(seconds)), key=lambda k: -seconds[k])[:MOST]
    rows = []
    for k in order:
        said = kernel_record(program.kernels[k])
        if seconds[k] / total >= WORTH:
            rows.append(Costly(k, tuple(said["nodes"]), tuple(said["operators"]), seconds[k] * 1e3, seconds[k] / total))
    return rows


def uneven(program: Program, device: Device, threads: int) -> list[Uneven]:
    """Products with numbers of channels that fill no whole vectors, those that lose most first."""
    lanes = 8 if device.is_gpu else device.lanes(4)
    seconds = [seconds_of(k, device, threads) for k in program.kernels]
    total = sum(seconds) or 1.0
    rows = []
    for k, kernel in enumerate(program.kernels):
        channels = _channels(kernel)
        if lanes < 2 or channels is None or channels % lanes == 0:
            continue
        above = -(-channels // lanes) * lanes
        lost = seconds[k] / total * (1 - channels / above)
        if lost >= WORTH:
            even = tuple(n for n in (above - lanes, above) if n)
            rows.append(Uneven(k, tuple(kernel_record(kernel)["nodes"]), channels, even, lost))
    return sorted(rows, key=lambda row: -row.lost)[:MOST]


def _channels(kernel: Kernel) -> int | None:
    """Output channels of a convolution or a matmul; None where the kernel computes something else, or they are open."""
    for block in blocks_of(kernel):
        for node in block.nodes:
            if block.kind == "contract" and node.op in ("conv", "matmul"):
                size = node.type.shape[1 if node.op == "conv" else -1]
                return size if isinstance(size, int) else None
    return None
