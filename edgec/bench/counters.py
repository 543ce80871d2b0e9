"""Bytes that a CUDA network moves by the counters of the GPU: Nsight Compute's, kernel by kernel.

Caches are empty before every kernel, so that what it reads is filled into the L2 cache from memory once, and as often
again as that was too small; what it writes is counted on its way into the cache, since most of it leaves that later.
"""

from __future__ import annotations

import csv
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from edgec.errors import DeviceError, ToolchainError
from edgec.schedule.program import Kernel
from edgec.text import printable

SECTOR = 32
"""Bytes that caches of NVIDIA's GPUs move at once."""

READ, WRITTEN = "lts__d_sectors_fill_device.sum", "lts__t_sectors_srcunit_tex_op_write.sum"

RUN = """
import sys
import numpy as np
sys.path.insert(0, sys.argv[1])
import net
with np.load(sys.argv[2]) as data:
    net.Net()(*(np.ascontiguousarray(data[k]) for k in data.files))
"""


@dataclass(frozen=True)
class Counted:
    """Bytes of one launch: filled into the cache from memory, code and all, and written to the cache."""

    kernel: str
    read: int
    written: int


def profiler() -> str:
    """The path of Nsight Compute. Raises ToolchainError where it is missing."""
    found = shutil.which("ncu")
    if found is None:
        raise ToolchainError(
            "Nsight Compute (ncu) is missing, which reads the counters of a GPU", hint="it comes with the CUDA toolkit"
        )
    return found


def count(folder: Path, inputs: Path, seconds: float) -> list[Counted]:
    """Every launch of one run of the network in a ``folder``, on ``inputs`` (.npz, in the order of its arguments).

    The network is called "net". Raises ToolchainError where Nsight Compute is missing, DeviceError where it counts
    nothing: without a GPU, without the right to its counters, or within ``seconds``.
    """
    return count_program((sys.executable, "-c", RUN, str(folder), str(inputs)), seconds)


def count_program(program: Sequence[str], seconds: float, options: Sequence[str] = ()) -> list[Counted]:
    """Every launch of a program, with more ``options`` of the profiler; errors are those of `count`."""
    command = [
        profiler(), "--csv", "--page", "raw", "--print-units", "base", "--clock-control", "none",
        "--metrics", f"{READ},{WRITTEN}", *options, *program,
    ]  # fmt: skip
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=seconds, stdin=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired:
        raise DeviceError(f"ncu took more than {seconds:g} s", hint="it takes a tenth of a second a kernel") from None
    lines = done.stdout.splitlines()
    start = next((k for k, line in enumerate(lines) if line.startswith('"ID"')), None)
    if done.returncode or start is None:
        told = printable(" ".join((done.stdout + done.stderr)[-400:].split()))
        raise DeviceError(f"ncu counted nothing: {told}", hint="it needs an NVIDIA GPU, and the right to its counters")
    return list(_read(lines[start:]))


def _read(lines: Iterable[str]) -> Iterator[Counted]:
    for row in csv.DictReader(lines):
        if not row["ID"]:  # the second line has the units
            continue
        try:
            read, written = (int(float(row[metric].replace(",", "")) * SECTOR) for metric in (READ, WRITTEN))
            yield Counted(row["Kernel Name"], read, written)
        except (KeyError, ValueError, OverflowError) as error:
            raise DeviceError(f"ncu answers without the counters that were asked for: {error}") from None


def prefetched(kernels: Iterable[Kernel]) -> int:
    """Bytes of weights that kernels fetch for later ones: with an empty cache before each, they are fetched twice."""
    return sum(size for k in kernels for _, size in getattr(k.schedule, "prefetch", ()))
