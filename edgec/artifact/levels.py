"""The levels of a built library: the options that their sources are compiled with, from its lock file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from edgec.device.device import Device


def compiled_for(lock: Mapping[str, Any], device: Device) -> tuple[Device, dict[str, Device]]:
    """(the device of most sources, those of others by the names of the sources), for a folder built for ``device``.

    A library without levels is compiled for its device. What chooses among levels runs on any processor of the
    architecture.
    """
    levels = lock.get("levels", [])
    if not levels:
        return device, {}
    others = {
        source: _told(device, entry["cflags"], entry["zig_mcpu"]) for entry in levels for source in entry["sources"]
    }
    return _told(device, (), "baseline"), others


def _told(device: Device, cflags: Any, zig_mcpu: str) -> Device:
    return replace(device, toolchain=replace(device.toolchain, cflags=tuple(cflags), zig_mcpu=zig_mcpu))
