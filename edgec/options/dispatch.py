"""Levels of a library: `--dispatch`, further devices of one architecture whose kernels are built in too."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from edgec.device.device import Device
from edgec.errors import UsageError
from edgec.text import printable

#: Architectures whose processors tell a program what they have, and devices of each that make a set of levels.
LEVELS: Mapping[str, Sequence[str]] = {
    "x86_64": ("x86_64_sse4", "x86_64_avx2", "x86_64_avx512", "x86_64_avx512_vnni"),
    "aarch64": ("arm64", "arm64_dotprod", "arm64_i8mm"),
}
_WHERE = "--dispatch"


def names_of(text: str | None) -> tuple[str, ...]:
    """The devices of a list with commas. Raises UsageError for a text that is none."""
    names = tuple(name.strip() for name in text.split(",")) if text is not None else ()
    if not all(names):
        hint = f"write them with commas: {','.join(LEVELS['x86_64'][1:3])}"
        raise UsageError(f"'{printable(text or '')}' is no list of devices", hint=hint, where=_WHERE)
    return names


def level_name(device: Device) -> str:
    """The name of a level in C and in EDGEC_LEVEL: that of its device, of letters, digits and underscores."""
    return re.sub(r"\W+", "_", device.name, flags=re.ASCII)


def levels_of(device: Device, others: Sequence[Device], gpu: Device | None, given: Mapping[str, Any]) -> list[Device]:
    """All devices of a build with levels, from the one that asks least of a processor; none without ``others``.

    Raises UsageError for devices that one library cannot serve, and for options that such a build does not take.
    """
    if not others:
        return []
    _require_alone(given, gpu)
    found = sorted((device, *others), key=lambda d: (len(d.instruction_sets), d.vector_bytes))
    for one in found:
        _require_level(one)
        if one.arch != device.arch:
            hint = f"levels of '{device.arch}' are {', '.join(LEVELS[device.arch])}"
            message = f"'{one.name}' is another architecture than '{device.name}'"
            raise UsageError(message, hint=hint, where=_WHERE)
    names = [level_name(one) for one in found]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise UsageError(f"'{twice}' is there twice", hint="--device is one of the levels", where=_WHERE)
    return found


def _require_level(device: Device) -> None:
    """Raises UsageError for a device whose code is not one of several that a program could choose from."""
    if device.name == "host" or device.name.startswith("host_"):
        hint = f"name the one that asks least: --device {LEVELS['x86_64'][0]}"
        message = f"'{device.name}' is the processor of this machine, and levels are for those of others"
        raise UsageError(message, hint=hint, where=_WHERE)
    if device.is_gpu or not device.hosted or device.arch not in LEVELS:
        kind = "a GPU" if device.is_gpu else f"of '{device.arch}'"
        hint = f"there are levels of {' and '.join(LEVELS)}; build for '{device.name}' alone"
        message = f"'{device.name}' is {kind}, which tells a program nothing of what it has"
        raise UsageError(message, hint=hint, where=_WHERE)


def _require_alone(given: Mapping[str, Any], gpu: Device | None) -> None:
    """Raises UsageError for options that do not go with levels."""
    hint = "leave out --dispatch"
    if gpu is not None:
        raise UsageError("a network on two devices has no levels", hint=f"{hint}, or --place", where=_WHERE)
    if given["loss"] is not None:
        raise UsageError("a training step has no levels", hint=f"{hint}, or --loss", where=_WHERE)
    if given["weights"] == "stream":
        message = "weights that are read as the network runs are laid out for one level"
        raise UsageError(message, hint="give --weights file", where=_WHERE)


def require_one(levels: Sequence[Device], what: str) -> None:
    """Raises UsageError where ``what`` is of one device, and a build is for several."""
    if levels:
        hint = "leave out --dispatch, and do it for each device"
        raise UsageError(f"{what} for one device at a time", hint=hint, where=_WHERE)
