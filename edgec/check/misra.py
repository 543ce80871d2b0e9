"""Rules of MISRA C:2012 that the addon of cppcheck finds broken, counted. The texts of the rules are not needed."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from edgec.errors import ToolchainError
from edgec.link.base import tool

_FOUND = re.compile(r"^(\S+?):(\d+):\d+: .*\[misra-c2012-(\d+\.\d+)\]$", re.MULTILINE)


def broken(folder: Path, sources: Sequence[Path]) -> str:
    """Findings of cppcheck in sources with the headers of a folder, without vector instructions.

    Raises ToolchainError where it is missing, or fails.
    """
    command = [
        tool("cppcheck", "apt install cppcheck"),
        "--addon=misra",
        "--std=c11",
        "-q",
        "--enable=style",
        "--max-configs=1",
    ]
    done = subprocess.run(
        [*command, f"-I{folder}", *map(str, sources)], capture_output=True, text=True, check=False, timeout=900
    )
    if done.returncode:
        raise ToolchainError(f"cppcheck failed: {done.stdout.strip()[-500:]}", hint="has it its addon for MISRA C?")
    return done.stderr


def counted(said: str) -> dict[str, Counter[str]]:
    """Counts of broken rules by file; a place counts once, however many sources include it."""
    places = {(Path(path).name, line, rule) for path, line, rule in _FOUND.findall(said)}
    files: dict[str, Counter[str]] = {}
    for file, _, rule in sorted(places):
        files.setdefault(file, Counter())[rule] += 1
    return files
