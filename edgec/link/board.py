"""Boards without an operating system, as qemu's system emulation has them; files go through semihosting."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from edgec.device.device import Device
from edgec.errors import LinkError
from edgec.link.base import Ended, Link, call, tool

#: One instruction a nanosecond, so that times are counts of instructions and the same in every run.
_COUNTING = ("-icount", "shift=0,align=off,sleep=off")


class Board(Link):
    """A board of qemu-system-arm. Programs are images; their arguments and files reach them by semihosting."""

    def __init__(self, device: Device, machine: str) -> None:
        self.name = f"board:{machine}"
        self._emulator = tool("qemu-system-arm", "install qemu-system-arm (apt install qemu-system-arm)")
        known = {line.split()[0] for line in call([self._emulator, "-M", "help"], "qemu").output.splitlines() if line}
        if machine not in known:
            raise LinkError(f"qemu knows no board '{machine}'", hint="qemu-system-arm -M help", where=device.name)
        self._machine = machine
        self._folder = Path(tempfile.mkdtemp(prefix="edgec-"))

    def send(self, path: Path, name: str) -> None:
        shutil.copyfile(path, self._folder / name)

    def fetch(self, name: str, path: Path) -> None:
        source = self._folder / name
        if not source.is_file():
            raise LinkError(f"there is no file '{name}'", where=self.name)
        shutil.copyfile(source, path)

    def start(self, program: str, arguments: Sequence[str], timeout: float) -> Ended:
        words = ",".join(f"arg={_quoted(word)}" for word in (program, *arguments))
        command = [
            self._emulator, "-M", self._machine, "-nographic", "-monitor", "none", "-serial", "none", *_COUNTING,
            "-semihosting-config", f"enable=on,target=native,{words}", "-kernel", program,
        ]  # fmt: skip
        return call(command, self.name, timeout, self._folder)

    def close(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)


def _quoted(word: str) -> str:
    """An argument as qemu takes it, with every comma twice, and between quotes where the board would split it."""
    word = word.replace(",", ",,")
    return f'"{word}"' if " " in word else word
