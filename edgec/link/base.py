"""Operations of every link, and the commands that implement them."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, TypeVar

from edgec.errors import LinkError, ToolchainError

Result = TypeVar("Result")
#: How often a step is tried, and the seconds between, growing.
TRIES, PAUSE = 3, 0.5
#: Seconds a command that only moves files or asks something may take.
PATIENCE = 120.0
#: The most that a program may say.
MOST_SAID = 16 * 2**20


@dataclass(frozen=True)
class Ended:
    """The end of a program on a device."""

    code: int
    output: str
    errors: str


class Link(ABC):
    """A folder of our own on a device. Use it in a ``with`` statement: the folder goes when it ends.

    Every method raises LinkError when the device cannot be reached.
    """

    #: How users write it: ``ssh:pi@raspberry``.
    name: str

    @abstractmethod
    def send(self, path: Path, name: str) -> None:
        """Put a file into the folder, executable."""

    @abstractmethod
    def fetch(self, name: str, path: Path) -> None:
        """Get a file of the folder."""

    @abstractmethod
    def start(self, program: str, arguments: Sequence[str], timeout: float) -> Ended:
        """Run a program of the folder, in it, for at most ``timeout`` seconds."""

    def shell(self, line: str) -> str | None:
        """Output of a line of the device's shell, whatever it ends with; None for a device without one."""
        return None

    @abstractmethod
    def close(self) -> None:
        """Remove the folder; a device that is gone is no error."""

    def __enter__(self) -> Link:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


class NoAnswer(LinkError):
    """A device did not answer in the time that it had."""


def tool(command: str, hint: str) -> str:
    """The path of a program of this machine; raises ToolchainError where it is not installed."""
    path = shutil.which(command)
    if path is None:
        raise ToolchainError(f"{command} is not installed", hint=hint)
    return path


def call(command: Sequence[str], where: str, timeout: float | None = None, cwd: Path | None = None) -> Ended:
    """Run a program of this machine; raises LinkError, about ``where``, when it takes too long or says too much.

    ``timeout`` is what the user grants it, in seconds; one that only moves files or asks something has ``PATIENCE``.

    What it says goes to files, not pipes, and it has a process group of its own: a child of it that lives on, or keeps
    its outputs open, holds nobody up, and ends with it when the time is over.
    """
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        try:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=errors, cwd=cwd, start_new_session=True
            )
        except OSError as error:
            raise LinkError(f"cannot start {command[0]}: {error.strerror or error}", where=where) from None
        try:
            _wait(process, timeout, (output, errors), where)
        except BaseException:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            raise
        said = []
        for file in (output, errors):
            file.seek(0)
            said.append(file.read(MOST_SAID + 1).decode(errors="replace"))
    return Ended(process.returncode, *said)


def _wait(process: subprocess.Popen[bytes], granted: float | None, files: Sequence[IO[bytes]], where: str) -> None:
    """Until the program ends. Raises LinkError when it takes too long, or says more than anybody reads."""
    timeout = PATIENCE if granted is None else granted
    hint = "is it on, and connected?" if granted is None else "give it more --timeout"
    end, pause = time.monotonic() + timeout, 0.001
    while process.poll() is None:
        if time.monotonic() > end:
            raise NoAnswer(f"no answer within {timeout:g} s", hint=hint, where=where)
        if any(os.fstat(file.fileno()).st_size > MOST_SAID for file in files):
            raise LinkError(f"it says more than {MOST_SAID:,} bytes", hint="is that the right device?", where=where)
        time.sleep(pause)
        pause = min(2 * pause, 0.05)


def again(step: Callable[[], Result], where: str) -> Result:
    """Try a step that may be repeated without harm until it succeeds; the last failure is the answer, and so is the
    first step without one, which has been waited for long enough."""
    for k in range(TRIES):
        try:
            return step()
        except NoAnswer:
            raise
        except LinkError as error:
            if k == TRIES - 1:
                hint = error.hint or "is it on, and connected?"
                raise LinkError(f"{error.message} (tried {TRIES} times)", hint=hint, where=where) from None
            time.sleep(PAUSE * (k + 1))
    raise AssertionError("unreachable")


def told(ended: Ended) -> str:
    """The last lines of what a program complained about, for an error message."""
    lines = (ended.errors or ended.output).strip().splitlines()[-4:]
    return "".join(f"\n    {line}" for line in lines)
