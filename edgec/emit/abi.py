"""ABIs of an Android library beside that of the build's device: the C that is compiled for each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from edgec.device.device import Device
from edgec.device.names import ABI, ABI_DEVICES
from edgec.errors import UsageError
from edgec.text import printable

#: Files of a project that no other project compiles.
_OF_PROJECTS = ("CMakeLists.txt", "README.md", "main.c", "runner.c", "edgec.lock")
WHERE = "--abi"


@dataclass(frozen=True)
class AbiFiles:
    """One of them: Android's name of it, its device, its folder in the artifact, its files, those that are compiled."""

    abi: str
    device: Device
    folder: str
    files: Mapping[str, bytes]
    sources: Sequence[str]

    @property
    def flags(self) -> str:
        """Options of the compiler, each behind a space."""
        return "".join(f" {flag}" for flag in self.device.toolchain.cflags)


def names_of(given: Sequence[str], device: Device, extras: Sequence[str]) -> list[str]:
    """The ABIs of a list, without that of the device. Raises UsageError for others, and without an Android app."""
    for name in given:
        if name not in ABI_DEVICES:
            message = f"Android has no ABI '{printable(name)}' that networks are built for"
            raise UsageError(message, hint=f"one of {', '.join(ABI_DEVICES)}", where=WHERE)
    if given and not {"android", "apk"} & set(extras):
        raise UsageError("ABIs are those of an Android library", hint="add --app android", where=WHERE)
    return [name for name in dict.fromkeys(given) if name != ABI.get(device.arch)]


def abi_files(abi: str, device: Device, files: Mapping[str, bytes], sources: Sequence[str]) -> AbiFiles:
    """The C of a project that was built for the device of an ABI; paths are those in the project."""
    kept = {
        path: content
        for path, content in files.items()
        if path not in _OF_PROJECTS and not path.endswith((".py", ".toml"))
    }
    return AbiFiles(abi, device, f"android/abi/{abi}", kept, sources)
