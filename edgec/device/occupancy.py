"""Occupancy: the threads of a kernel that one multiprocessor of an NVIDIA GPU holds at once."""

from __future__ import annotations

from math import ceil

from edgec.device.device import Device

WARP = 32
#: A warp gets registers in blocks of so many, and a multiprocessor hands them out in four parts.
_REGISTERS, _PARTS = 256, 4
#: Shared memory is given in blocks of so many bytes; from compute capability 8.0 on the driver keeps 1 KiB of each.
_SHARED, _KEPT = 128, 1024


def resident_groups(device: Device, threads: int, registers: int, shared_bytes: int) -> int:
    """Blocks of ``threads`` that one multiprocessor holds: a thread needs ``registers``, a block ``shared_bytes``.

    0 where the device's facts are not known, or where a group does not fit.
    """
    if not device.gpu.resident_threads or threads < 1:
        return 0
    warps = ceil(threads / WARP)
    of_a_warp = ceil(max(registers, 1) * WARP / _REGISTERS) * _REGISTERS
    by_registers = device.gpu.registers // of_a_warp // _PARTS * _PARTS // warps
    kept = _KEPT if device.gpu.compute_capability >= 80 else 0
    of_a_group = ceil((shared_bytes + kept) / _SHARED) * _SHARED
    by_memory = device.gpu.resident_shared_bytes // of_a_group if of_a_group else device.gpu.resident_groups
    return min(device.gpu.resident_groups, device.gpu.resident_threads // (warps * WARP), by_registers, by_memory)


def occupancy(device: Device, threads: int, registers: int, shared_bytes: int) -> float:
    """The share of the threads that a multiprocessor can hold that it holds, 0 to 1."""
    groups = resident_groups(device, threads, registers, shared_bytes)
    return groups * ceil(threads / WARP) * WARP / device.gpu.resident_threads if groups else 0.0
