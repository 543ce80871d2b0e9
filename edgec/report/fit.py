"""Memory that a network needs, and that its device has: known before anything is flashed."""

from __future__ import annotations

from typing import Any

from edgec.device.device import Device
from edgec.fuse.stripes import Stripes
from edgec.schedule.program import Program

#: Number of values that are named, those that need the most memory.
NAMED = 3


def fit(program: Program, device: Device, room: int | None = None, stripes: Stripes | None = None) -> dict[str, Any]:
    """RAM (arena, inputs and outputs) and flash (weights; code comes on top) in bytes, beside what the device has.

    ``fits`` is None where the device's memory is not known. ``largest`` are the values of the arena that need the most.
    ``room`` is what RAM may be taken instead of all of the device's, ``stripes`` how the head is computed for that.
    """
    room = room or device.ram_bytes
    ports = sum(buffer.bytes for _, buffer, _ in (*program.inputs, *program.outputs))
    ram, flash = program.arena_bytes + ports, program.weights_bytes
    values = sorted((b for b in program.offsets if b.space == "arena"), key=lambda b: -b.bytes)
    writers = {kernel.writes: kernel for kernel in program.kernels}
    room_of_weights = device.board.constants_bytes or device.board.flash_bytes
    return {
        "ram": {
            "arena": program.arena_bytes,
            "inputs_and_outputs": ports,
            "bytes": ram,
            "of": room,
            "fits": ram <= room if room else None,
        },
        "flash": {
            "bytes": flash,
            "of": room_of_weights,
            "fits": flash <= room_of_weights if room_of_weights else None,
        },
        "largest": [
            {"bytes": b.bytes, "nodes": list(writers[b].names[:3]) if b in writers else []} for b in values[:NAMED]
        ],
        "stripes": None
        if stripes is None
        else {
            "count": stripes.count,
            "until": list(stripes.cut[:1]),
            "shape": list(stripes.shape),
            "ram_without": stripes.whole_bytes,
            "work": stripes.work,
        },
    }
