"""This machine, and processors that qemu emulates on it."""

from __future__ import annotations

import shutil
import signal
import tempfile
from collections.abc import Sequence
from pathlib import Path

from edgec.device.device import Device
from edgec.errors import LinkError
from edgec.link.base import Ended, Link, call, tool

_EMULATORS = {"aarch64": "qemu-aarch64", "arm": "qemu-arm", "riscv64": "qemu-riscv64", "x86_64": "qemu-x86_64"}


class Local(Link):
    """A folder of this machine; ``prefix`` is what programs are started by."""

    def __init__(self, name: str = "local", prefix: Sequence[str] = ()) -> None:
        self.name = name
        self.prefix = tuple(prefix)
        self._folder = Path(tempfile.mkdtemp(prefix="edgec-"))

    def send(self, path: Path, name: str) -> None:
        shutil.copyfile(path, self._folder / name)
        (self._folder / name).chmod(0o755)

    def fetch(self, name: str, path: Path) -> None:
        source = self._folder / name
        if not source.is_file():
            raise LinkError(f"there is no file '{name}'", where=self.name)
        shutil.copyfile(source, path)

    def start(self, program: str, arguments: Sequence[str], timeout: float) -> Ended:
        return call([*self.prefix, str(self._folder / program), *arguments], self.name, timeout, self._folder)

    def shell(self, line: str) -> str | None:
        return None if self.prefix else call(["sh", "-c", line], self.name).output

    def close(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)


def emulated(device: Device, processor: str) -> Local:
    """The device under qemu's user emulation, as ``processor`` (qemu's own spelling; empty: the device's, or `max`).

    Raises ToolchainError without qemu, LinkError for a processor it does not know.
    """
    if device.arch not in _EMULATORS:
        raise LinkError(f"qemu runs no programs of '{device.arch}'", where=device.name)
    emulator = tool(_EMULATORS[device.arch], "install qemu-user (apt install qemu-user)")
    known = {_listed(line) for line in call([emulator, "-cpu", "help"], "qemu").output.splitlines() if line.strip()}
    if processor and processor.partition(",")[0] not in known:
        raise LinkError(f"qemu knows no processor '{processor}'", hint=f"{Path(emulator).name} -cpu help", where="qemu")
    own = (c for c in _processors(device) if c.partition(",")[0] in known)
    chosen = processor or next(own, "max" if "max" in known else "")
    prefix = [emulator, *(["-cpu", chosen] if chosen else [])]
    return Local(f"qemu:{chosen}" if chosen else "qemu", prefix)


def _listed(line: str) -> str:
    """The processor in a line of qemu's list: a name alone, or one with a description, or behind its architecture."""
    first, *others = line.split()
    return others[0] if first == "x86" and others else first


def _processors(device: Device) -> list[str]:
    """The processors that the device's own compiler options name, or that have its vectors."""
    if device.arch == "riscv64" and device.has("v"):
        return [f"rv64,v=true,vext_spec=v1.0,vlen={8 * device.vector_bytes}"]
    own = [flag.split("=", 1)[1] for flag in device.toolchain.cflags if flag.startswith("-mcpu=")]
    return [*own, f"max,sve{8 * device.vector_bytes}=on"] if device.has("sve") else own


def signalled(code: int) -> str:
    """Signal that killed a program, in words; empty if none did."""
    number = -code if code < 0 else code - 128 if code > 128 else 0
    try:
        return signal.Signals(number).name if number else ""
    except ValueError:
        return ""
