"""The machine that a benchmark runs on, in words."""

from __future__ import annotations

import os
from pathlib import Path


def processor() -> str:
    """The name of this machine's processor, and how many cores there are."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").is_file() else []
    name = next(
        (line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown processor"
    )
    return f"{name}, {len(os.sched_getaffinity(0))} cores"
