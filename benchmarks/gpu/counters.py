"""Bytes that a CUDA network moves by the counters of the GPU: Nsight Compute's, kernel by kernel.

Caches are empty before every kernel, so that what it reads is filled into the L2 cache from memory once, and as often
again as that was too small; what it writes is counted on its way into the cache, since most of it leaves that later.
"""

from __future__ import annotations

import csv
import shutil
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from benchmarks import environment

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
    read: float
    written: float


def count(folder: Path, inputs: Path, seconds: float) -> list[Counted]:
    """Every launch of one run of the network in a ``folder``; ``inputs`` (.npz) are in the order of its arguments."""
    program = shutil.which("ncu")
    if program is None:
        raise FileNotFoundError("ncu is not there; it comes with CUDA")
    command = [
        program, "--csv", "--page", "raw", "--print-units", "base", "--clock-control", "none",
        "--metrics", f"{READ},{WRITTEN}",
        sys.executable, "-c", RUN, str(folder), str(inputs),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, env=environment())
    lines = done.stdout.splitlines()
    start = next((k for k, line in enumerate(lines) if line.startswith('"ID"')), None)
    if done.returncode or start is None:
        raise RuntimeError(f"ncu counted nothing: {' '.join((done.stdout + done.stderr)[-400:].split())}")
    return list(_read(lines[start:]))


def _read(lines: Iterable[str]) -> Iterable[Counted]:
    for row in csv.DictReader(lines):
        if row["ID"]:  # the second line has the units
            read, written = (float(row[metric].replace(",", "")) * SECTOR for metric in (READ, WRITTEN))
            yield Counted(row["Kernel Name"], read, written)
