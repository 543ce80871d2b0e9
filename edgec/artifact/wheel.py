"""Wheels of a built folder: its C compiled for another system by zig, with the module that loads it.

Formats: wheel 1.0 and core metadata 2.1 of the PyPA; tags of PEP 600 (manylinux) and PEP 656 (musllinux).
"""

from __future__ import annotations

import base64
import hashlib
import keyword
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from edgec import files as files_of_user
from edgec.artifact.folder import library_name, read_lock, refuse_existing
from edgec.artifact.levels import compiled_for
from edgec.artifact.names import LOCK
from edgec.device.device import Device, Toolchain
from edgec.device.load import is_inert, load_device
from edgec.device.toolchain import compile_shared, pick_compiler
from edgec.errors import UsageError
from edgec.files import zipped
from edgec.text import printable

VERSION = "1.0.0"


@dataclass(frozen=True)
class System:
    """One kind of system: zig's target and the tag of wheels, each with the names of its processors."""

    target: str
    tag: str
    processors: Mapping[str, tuple[str, str]]  # by architecture, in the target and in the tag


def _linux(libc: str, abi: str) -> Mapping[str, tuple[str, str]]:
    names = {"x86_64": "x86_64", "aarch64": "aarch64", "arm": "armv7l", "riscv64": "riscv64"}
    return {arch: (f"{arch}-linux-{libc}{abi if arch == 'arm' else ''}", tag) for arch, tag in names.items()}


#: Systems by the name that `--target` takes.
SYSTEMS: Mapping[str, System] = {
    # glibc 2.17 is of 2012; RISC-V came with 2.27.
    "manylinux": System("{processor}.2.17", "manylinux_2_17_{processor}", _linux("gnu", "eabihf")),
    "musllinux": System("{processor}", "musllinux_1_1_{processor}", _linux("musl", "eabihf")),
    "macos": System(
        "{processor}-macos.11.0",
        "macosx_11_0_{processor}",
        {"x86_64": ("x86_64", "x86_64"), "aarch64": ("aarch64", "arm64")},
    ),
    "windows": System(
        "{processor}-windows-gnu", "win_{processor}", {"x86_64": ("x86_64", "amd64"), "aarch64": ("aarch64", "arm64")}
    ),
}


@dataclass(frozen=True)
class Wheel:
    """A wheel that was written: its file, its tag, and what the code asks of the processor (empty: nothing special)."""

    file: Path
    tag: str
    needs: str


def wheel(folder: Path, system: str = "manylinux", out: Path | None = None) -> Wheel:
    """Compile the C of a built folder for a system and write the wheel of it into ``out`` (the folder itself).

    Raises UsageError for a build that has no C of its own for that system, and where the wheel is there already;
    ToolchainError where zig is missing, or refuses.
    """
    lock = read_lock(folder)
    chosen = SYSTEMS.get(system)
    if chosen is None:
        raise UsageError(f"there is no system '{printable(system)}'", hint=f"one of {', '.join(SYSTEMS)}")
    device, name = _device(lock, folder), str(lock["name"])
    if keyword.iskeyword(name):
        raise UsageError(f"'{name}' cannot be a name in Python", hint="build with another --name", where=str(folder))
    if device.arch not in chosen.processors:
        there = ", ".join(chosen.processors)
        raise UsageError(f"{system} has no wheels for {device.arch}", hint=f"build with a --device of {there}")
    place = (lock.get("weights") or {}).get("place")
    if place != "incbin":
        raise UsageError(
            "a wheel has its weights beside the library", hint="build without --weights", where=str(folder)
        )
    processor, label = chosen.processors[device.arch]
    tag = "py3-none-" + chosen.tag.format(processor=label)
    output = (folder if out is None else out) / f"{name}-{VERSION}-{tag}.whl"
    refuse_existing(output)
    library = _library(folder, lock, device, chosen.target.format(processor=processor))
    content = {f"{name}/__init__.py": f"{name}.py", f"{name}/{name}_weights.bin": f"{name}_weights.bin"}
    files = {path: (folder / source).read_bytes() for path, source in content.items()}
    files[f"{name}/{library_name(name)}"] = library
    files_of_user.replace(output, _packed(files, name, tag, _summary(lock, device)))
    return Wheel(output, tag, device.needs)


def _device(lock: Mapping[str, Any], folder: Path) -> Device:
    """The facts of the build's device that a compiler has to know; those of a lock are not trusted."""
    facts = lock.get("device_facts")
    tools = facts.get("toolchain") if isinstance(facts, dict) else None
    facts, tools = (facts, tools) if isinstance(facts, dict) and isinstance(tools, dict) else ({}, {})
    lists = {"toolchain.cflags": tools.get("cflags"), "instruction_sets": facts.get("instruction_sets", [])}
    said = [("name", lock.get("device")), ("toolchain.zig_mcpu", tools.get("zig_mcpu"))]
    said += [(key, text) for key, texts in lists.items() for text in (texts if isinstance(texts, list) else [None])]
    if not all(isinstance(text, str) and is_inert(key, text) for key, text in said):
        raise UsageError("does not tell the device of the build", hint="build it again", where=str(folder / LOCK))
    if facts.get("language") != "c" or not facts.get("hosted") or not isinstance(facts.get("arch"), str):
        hint = "build with a --device of C and an operating system, such as arm64 (edgec device list)"
        raise UsageError(f"wheels are of networks in C for computers, not for '{lock['device']}'", hint=hint)
    known = [s for s in lists["instruction_sets"] or () if s not in _EVERYWHERE.get(facts["arch"], ())]
    tools_of_zig = Toolchain(cflags=tuple(tools["cflags"]), zig_mcpu=tools["zig_mcpu"])
    return replace(
        load_device("generic"), name=str(lock["device"]), arch=facts["arch"], instruction_sets=tuple(known),
        toolchain=tools_of_zig,
    )  # fmt: skip


#: Instruction sets that every processor of an architecture has.
_EVERYWHERE = {"aarch64": ("neon",)}


def _library(folder: Path, lock: Mapping[str, Any], device: Device, target: str) -> bytes:
    """The shared library for a target of zig."""
    device = replace(device, toolchain=replace(device.toolchain, zig_target=target))
    compiler = replace(pick_compiler(device, "zig"), target=target)
    with tempfile.TemporaryDirectory(prefix="edgec-") as scratch:
        output = Path(scratch) / "library"
        most, others = compiled_for(lock, device)
        sources = [folder / source for source in lock["sources"]]
        compile_shared(compiler, most, sources, output, include=[folder], others=others)
        return output.read_bytes()


def _summary(lock: Mapping[str, Any], device: Device) -> str:
    needs = f" (needs {device.needs})" if device.needs else ""
    return f"A neural network, compiled by edgec for {device.name}{needs}"


def _packed(files: Mapping[str, bytes], name: str, tag: str, summary: str) -> bytes:
    """The archive, with metadata and the digests of all files."""
    info = f"{name}-{VERSION}.dist-info"
    about = f"Metadata-Version: 2.1\nName: {name}\nVersion: {VERSION}\nSummary: {summary}\nRequires-Python: >=3.8\n"
    content = dict(files)
    content[f"{info}/METADATA"] = f"{about}Requires-Dist: numpy\n".encode()
    content[f"{info}/WHEEL"] = f"Wheel-Version: 1.0\nGenerator: edgec\nRoot-Is-Purelib: false\nTag: {tag}\n".encode()
    record = "".join(f"{path},sha256={_digest(data)},{len(data)}\n" for path, data in content.items())
    content[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n".encode()
    return zipped(content)


def _digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
