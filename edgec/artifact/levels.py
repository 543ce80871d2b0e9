"""The levels of a built library: the options that their sources are compiled with, from its lock file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from edgec.artifact.names import LOCK
from edgec.device.device import Device
from edgec.device.load import is_inert
from edgec.errors import UsageError


def compiled_for(lock: Mapping[str, Any], device: Device) -> tuple[Device, dict[str, Device]]:
    """(the device of most sources, those of others by the names of the sources), for a folder built for ``device``.

    A library without levels is compiled for its device. What chooses among levels runs on any processor of the
    architecture. Raises UsageError for options of a lock that could make a compiler run a program.
    """
    levels = lock.get("levels")
    if not levels:
        return device, {}
    try:
        each = [(entry["sources"], _told(device, entry["cflags"], entry["zig_mcpu"])) for entry in levels]
        others = {str(source): own for sources, own in each for source in sources}
    except (TypeError, KeyError):
        raise UsageError(f"{LOCK} does not tell how levels are compiled", hint="build it again") from None
    return _told(device, (), "baseline"), others


def _told(device: Device, cflags: Sequence[str], zig_mcpu: str) -> Device:
    """The device as compilers are told of it. Raises KeyError for what may not stand in a command."""
    if not (all(is_inert("toolchain.cflags", flag) for flag in cflags) and is_inert("toolchain.zig_mcpu", zig_mcpu)):
        raise KeyError
    return replace(device, toolchain=replace(device.toolchain, cflags=tuple(cflags), zig_mcpu=zig_mcpu))
