"""Programs of one network for several processors, over one copy of the weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from edgec.device.device import Device
from edgec.schedule.program import Part, Program
from edgec.schedule.sharing import sharing


def with_levels(programs: Sequence[Program], devices: Sequence[Device]) -> Program:
    """The first program, with all of them as its levels; weights that are equal in several are stored once.

    Arena, weights and threads are those that the largest needs. Choices of a level are kept behind its name.
    """
    whole, *others = programs
    shared = [whole]
    for other in others:
        whole, own = sharing(whole, other)
        shared.append(own)
    choices = {f"{d.name} {key}": taken for p, d in zip(others, devices[1:]) for key, taken in p.choices.items()}
    return replace(
        whole,
        arena_bytes=max(p.arena_bytes for p in programs),
        arena_lower_bound_bytes=max(p.arena_lower_bound_bytes for p in programs),
        threads=max(p.threads for p in programs),
        choices={**whole.choices, **choices},
        levels=tuple(_part(d, p) for d, p in zip(devices, shared, strict=True)),
    )


def _part(device: Device, program: Program) -> Part:
    """A program that is all of the network on one device."""
    reads, writes = (tuple(node for _, _, node in ports) for ports in (program.inputs, program.outputs))
    return Part(device, program, reads, writes)


def choices_of(level: Device, choices: Mapping[str, str]) -> dict[str, str]:
    """The choices of a level among those of all."""
    start = f"{level.name} "
    return {key.removeprefix(start): taken for key, taken in choices.items() if key.startswith(start)}
