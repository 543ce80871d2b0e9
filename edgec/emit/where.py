"""The device of every kernel and the reason for it, as rows of the lock and as a table in C that nothing else reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from edgec.device.device import Device
from edgec.emit.render import render
from edgec.options.dispatch import level_name
from edgec.schedule.program import Program
from edgec.version import __version__

ALONE = "the build is for this device alone"


def where_rows(program: Program, device: Device) -> list[dict[str, Any]]:
    """The names of the model's operators, kind, device and reason for every kernel, in order.

    Of a library for several processors, each has rows of its own; of a network with a program for one token, that too.
    """
    if program.assignment is not None:
        return program.assignment.described(program.graph)
    if program.levels:
        why = "the processor has the instructions of this level of the library, and of none before it"
        return [row for level in program.levels for row in _rows(level.program, level_name(level.device), why)]
    single = _rows(program.single, device.name, f"{ALONE}; of one token") if program.single is not None else []
    return _rows(program, device.name, ALONE) + single


def _rows(program: Program, device: str, why: str) -> list[dict[str, Any]]:
    return [
        {"operators": list(dict.fromkeys(k.names)), "kind": k.template, "device": device, "why": why}
        for k in program.kernels
    ]


def where_names(name: str) -> tuple[str, str]:
    """The source and the header of a network's table."""
    return f"{name}_where.c", f"{name}_where.h"


def where_files(
    rows: Sequence[Mapping[str, Any]], device: Device, name: str, templates: Sequence[Path] = ()
) -> dict[str, bytes]:
    """The table in C, by the names of its files."""
    values = {"name": name, "NAME": name.upper(), "version": __version__, "device": device, "where": rows}
    return {path: render(f"project/where.{path[-1]}.jinja", templates, **values).encode() for path in where_names(name)}
