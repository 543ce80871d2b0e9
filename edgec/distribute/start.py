"""Worker processes, started for a coordinator and ended with it."""

from __future__ import annotations

import os
import selectors
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from edgec.distribute.protocol import SECRET
from edgec.errors import LinkError
from edgec.link.base import Link
from edgec.text import printable

#: Seconds until a worker listens, and until one that is told to end has ended.
PATIENCE, LAST = 60.0, 3.0
#: How a worker says where it listens.
LISTENS = "listening at "


@dataclass
class Started:
    """A worker process and the address that it listens at; for one elsewhere, the ssh to it, and the link."""

    process: subprocess.Popen[bytes]
    address: str
    errors: IO[bytes]
    link: Link | None = None

    def told(self) -> str:
        """The last line of what it complained about."""
        self.errors.seek(0)
        lines = self.errors.read(100_000).decode(errors="replace").strip().splitlines()
        return printable(lines[-1], 300) if lines else ""

    def end(self) -> None:
        """End it: it goes by itself when its connection is closed, and is killed where it does not."""
        if self.process.stdin is not None:
            with suppress(OSError):
                self.process.stdin.close()
        try:
            self.process.wait(LAST)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()
        self.errors.close()
        if self.link is not None:
            self.link.close()


def start(
    folders: Sequence[Path],
    secret: bytes,
    threads: int,
    core: int | None,
    name: str,
    host: str = "127.0.0.1",
    within: Sequence[str] = (),
    overlaps: bool = True,
    once: bool = True,
) -> Started:
    """Start a worker for the parts in ``folders`` on a free port of ``host``, on one core where that is given.

    ``within`` is a command that runs it, such as that of a network namespace. Where it ``overlaps``, messages
    come and go while a part is computed; where not ``once``, it serves coordinators until it is ended. Raises
    LinkError, which calls it ``name``, where it does not come to listen.
    """
    places = [str(folder.absolute()) for folder in folders]
    command = [
        *within,
        sys.executable,
        "-m",
        "edgec",
        "worker",
        *places,
        "--listen",
        f"{host}:0",
        *(["--once"] if once else []),
    ]
    command += ["--threads", str(threads), *(["--core", str(core)] if core is not None else [])]
    command += [] if overlaps else ["--no-overlap"]
    errors = tempfile.TemporaryFile()  # noqa: SIM115  (it is closed with the process)
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors,
        env={**os.environ, SECRET: secret.decode()},
        cwd=Path(__file__).resolve().parents[2],  # Python takes modules from the folder that it starts in first
    )  # fmt: skip
    found = Started(process, "", errors)
    line = first_line(process)
    if not line.startswith(LISTENS):
        process.kill()
        process.wait()
        told = found.told()
        found.end()
        raise LinkError(f"the worker does not start{f': {told}' if told else ''}", where=name)
    found.address = line.removeprefix(LISTENS).strip()
    return found


def first_line(process: subprocess.Popen[bytes]) -> str:
    """The first line that a process prints; what there is of it where it ends, or takes too long."""
    assert process.stdout is not None
    said, end = b"", time.monotonic() + PATIENCE
    with selectors.DefaultSelector() as ready:
        ready.register(process.stdout, selectors.EVENT_READ)
        while b"\n" not in said and len(said) < 1000 and (left := end - time.monotonic()) > 0:
            if ready.select(left):
                data = os.read(process.stdout.fileno(), 1000)
                if not data:
                    break
                said += data
    return said.decode(errors="replace").partition("\n")[0]
