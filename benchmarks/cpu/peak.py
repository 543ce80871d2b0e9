"""Peak of this machine: multiply-adds, and reading memory. C programs that do nothing else, on threads.

    python -m benchmarks.cpu.peak [THREADS ...]

Prints a line a number of threads: GFLOP/s, and GB/s of reading 4 MB on each thread.
"""

from __future__ import annotations

import sys

from edgec.bench.peak import gflops, programs, read_speed, run
from edgec.device.load import load_device
from edgec.device.toolchain import pick_compiler

__all__ = ["gflops", "programs", "read_speed", "run"]

if __name__ == "__main__":
    host = load_device("host")
    chosen = pick_compiler(host)
    for count in map(int, sys.argv[1:] or ["1"]):
        print(f"{gflops(host, chosen, count):.1f} {read_speed(host, chosen, count, count << 22):.1f}", flush=True)
