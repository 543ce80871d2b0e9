"""Lists of cores: `--cores 0,4-7`, the cores that the threads of a network are kept on."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

from edgec.device.device import Device
from edgec.errors import UsageError
from edgec.text import counted, printable

#: Cores that a list may name: those of Linux's cpu_set_t.
MOST_CORES = 1024
#: The word for a network that stays where the system puts it.
ANY = "any"


def cores_of(text: str, where: str = "--cores") -> tuple[int, ...]:
    """The cores of a list, in order; none for "any". Raises UsageError for a text that is no list."""
    if text == ANY:
        return ()
    found: set[int] = set()
    for part in text.split(","):
        ends = re.fullmatch(r"([0-9]{1,4})(?:-([0-9]{1,4}))?", part.strip())
        first, last = (int(ends[1]), int(ends[2] or ends[1])) if ends is not None else (1, 0)
        if not first <= last < MOST_CORES:
            hint = f"write 4-7 or 0,2-3, below {MOST_CORES}, or {ANY}"
            raise UsageError(f"'{printable(text)}' is no list of cores", hint=hint, where=where)
        found |= set(range(first, last + 1))
    return tuple(sorted(found))


def cores_text(cores: Sequence[int]) -> str:
    """A list of cores as `cores_of` reads it."""
    runs: list[list[int]] = []
    for core in sorted(cores):
        if runs and core == runs[-1][1] + 1:
            runs[-1][1] = core
        else:
            runs.append([core, core])
    return ",".join(f"{a}" if a == b else f"{a}-{b}" for a, b in runs) or ANY


def takes_cores(device: Device, gpu: Device | None) -> bool:
    """True where all kernels run in threads of an operating system."""
    return device.hosted and not device.is_gpu and gpu is None


def asked_cores(given: Mapping[str, Any], device: Device, gpu: Device | None, threads: int) -> tuple[int, ...]:
    """The cores that settings ask for; none for any. Raises UsageError for cores that cannot be meant."""
    cores = cores_of(str(given["cores"])) if given["cores"] is not None else ()
    if not cores:
        return ()
    hint = "leave out --cores"
    if not takes_cores(device, gpu):
        what = (
            f"kernels run on the GPU '{(gpu or device).name}'" if gpu or device.is_gpu else f"'{device.name}' has none"
        )
        raise UsageError(f"threads are kept on cores of an operating system, and {what}", hint=hint, where="--cores")
    if given["loss"] is not None:
        raise UsageError("a training step stays where the system puts it", hint=hint, where="--cores")
    if threads > len(cores):
        hint = f"give at least {counted(threads, 'core')}, or --threads {len(cores)}"
        raise UsageError(f"{threads} threads would wait for {counted(len(cores), 'core')}", hint=hint, where="--cores")
    there = os.cpu_count() or MOST_CORES
    if device.name == "host" and cores[-1] >= there:
        hint = f"give some of {cores_text(range(there))}"
        raise UsageError(f"this machine has no core {cores[-1]}", hint=hint, where="--cores")
    return cores
