"""Disks that are full: commands whose output, caches or temporary files lie on a small file system.

`python -m benchmarks.robustness.full_disk` (as root on Linux: it mounts file systems in memory, in a namespace of its
own) runs each command with each place on a file system of each size. Allowed is that it works, or that it ends with 2
and an error in words; a build that was there is there afterwards, or the new one, whole.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from benchmarks import ROOT
from edgec.artifact.folder import read_lock

DIGITS = ROOT / "apps" / "digits" / "digits.onnx"
#: KiB of the file system; what of the command lies there; the command, in which {net} is the folder of the build.
SIZES = (64, 400, 1500, 6000)
PLACES = ("output", "caches", "temporary files")
COMMANDS = {
    "build": "build {model} -o {net} --report --quick",
    "check": "check {model} --samples 1",
    "bench": "bench {model} --seconds 0.2",
    "tune": "tune {model} --seconds 1",
}


def outcome(command: str, place: str, kib: int, folder: Path) -> str:
    """The end of a command: works, refused, or the mistake in words."""
    small, large = folder / "small", folder / "large"
    for path in (small, large):
        path.mkdir(exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={kib}k", "tmpfs", str(small)], check=True)
    try:
        output, caches, temporary = (small if p == place else large for p in PLACES)
        net = output / "net"
        words = COMMANDS[command].format(model=DIGITS, net=net).split()
        environment = {**os.environ, "XDG_CACHE_HOME": str(caches), "XDG_DATA_HOME": str(caches)}
        environment |= {"XDG_CONFIG_HOME": str(caches), "TMPDIR": str(temporary), "PYTHONPATH": str(ROOT)}
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-m", "edgec", *words],
            capture_output=True, text=True, env=environment, cwd=folder, check=False,
        )  # fmt: skip
        if done.returncode not in (0, 2) or "mistake in edgec" in done.stderr or "Traceback" in done.stderr:
            return f"ended with {done.returncode}: {done.stderr.strip()[-600:]}"
        left = [p.name for p in output.iterdir() if p.name.startswith(".edgec")]
        if left:
            return f"left {', '.join(left)}"
        if net.is_dir() and any(not (net / name).is_file() for name in read_lock(net)["files"]):
            return "a build that is not whole"
        return "refused" if done.returncode else "works"
    finally:
        subprocess.run(["umount", "-l", str(small)], check=True)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--commands", nargs="+", choices=COMMANDS, default=list(COMMANDS))
    given = parser.parse_args(arguments)
    if sys.platform != "linux" or os.geteuid():
        parser.error("mounting file systems needs root on Linux")
    if os.environ.get("EDGEC_FULL_DISK") is None:
        words = ["unshare", "--mount", sys.executable, "-m", "benchmarks.robustness.full_disk"]
        os.execvpe(words[0], [*words, "--commands", *given.commands], {**os.environ, "EDGEC_FULL_DISK": "1"})
    counts: Counter[str] = Counter()
    for command in given.commands:
        for place in PLACES:
            for kib in SIZES:
                with tempfile.TemporaryDirectory(prefix="edgec-full-") as folder:
                    told = outcome(command, place, kib, Path(folder))
                counts[told if told in ("works", "refused") else "wrong"] += 1
                print(f"{command}, {place} on {kib} KiB: {told}", flush=True)
    print(", ".join(f"{n} {told}" for told, n in sorted(counts.items())))
    return int(counts["wrong"] > 0)


if __name__ == "__main__":
    raise SystemExit(main())
