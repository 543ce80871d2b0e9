"""Wheels of a built folder: its C compiled for another system by zig, with the module that loads it.

Formats: wheel 1.0 and core metadata 2.1 of the PyPA; tags of PEP 600 (manylinux) and PEP 656 (musllinux).
"""

from __future__ import annotations

import base64
import hashlib
import keyword
import re
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


#: Systems by the name that `--target` takes: by architecture, zig's target and the tag of wheels.
SYSTEMS: Mapping[str, Mapping[str, tuple[str, str]]] = {
    # glibc 2.17 is of 2012; RISC-V came with 2.27.
    "manylinux": {
        "x86_64": ("x86_64-linux-gnu.2.17", "manylinux_2_17_x86_64"),
        "aarch64": ("aarch64-linux-gnu.2.17", "manylinux_2_17_aarch64"),
        "arm": ("arm-linux-gnueabihf.2.17", "manylinux_2_17_armv7l"),
        "riscv64": ("riscv64-linux-gnu.2.27", "manylinux_2_27_riscv64"),
    },
    "musllinux": {
        "x86_64": ("x86_64-linux-musl", "musllinux_1_1_x86_64"),
        "aarch64": ("aarch64-linux-musl", "musllinux_1_1_aarch64"),
        "arm": ("arm-linux-musleabihf", "musllinux_1_1_armv7l"),
        "riscv64": ("riscv64-linux-musl", "musllinux_1_1_riscv64"),
    },
    "macos": {
        "x86_64": ("x86_64-macos.11.0", "macosx_11_0_x86_64"),
        "aarch64": ("aarch64-macos.11.0", "macosx_11_0_arm64"),
    },
    "windows": {
        "x86_64": ("x86_64-windows-gnu", "win_amd64"),
        "aarch64": ("aarch64-windows-gnu", "win_arm64"),
    },
}
#: Other names of systems and processors that `--target` takes. A Jetson's processor runs Ubuntu.
_SYSTEM_NAMES = {"musl": "musllinux", "linux": "manylinux", "gnu": "manylinux", "win": "windows", "macosx": "macos"}
_ARCH_NAMES = {
    "x86_64": "x86_64", "amd64": "x86_64", "aarch64": "aarch64", "arm64": "aarch64", "armv7": "arm", "armv7l": "arm",
    "arm": "arm", "riscv64": "riscv64",
}  # fmt: skip
#: A device of each architecture, and others of it for levels of one library.
_DEVICES = {
    "x86_64": ("x86_64_sse4", "x86_64_avx2,x86_64_avx512"), "aarch64": ("arm64", "arm64_dotprod,arm64_i8mm"),
    "arm": ("arm32", ""), "riscv64": ("riscv64", ""),
}  # fmt: skip


@dataclass(frozen=True)
class Wheel:
    """A wheel that was written: its file and tag.

    ``needs`` is what the code asks of the processor (empty: nothing special), ``hint`` a build that asks less.
    """

    file: Path
    tag: str
    needs: str
    hint: str


def wheel(folder: Path, target: str = "manylinux", out: Path | None = None) -> Wheel:
    """Compile the C of a built folder for a system and write the wheel of it into ``out`` (the folder itself).

    ``target`` is a system (`SYSTEMS`), or one with the processor of the build behind it: manylinux_aarch64. ``out`` is
    made where it is missing. Raises UsageError for a build that has no C of its own for that system, and where the
    wheel is there already; ToolchainError where zig is missing, or refuses.
    """
    lock = read_lock(folder)
    system, arch = _system(target)
    device, name = _device(lock, folder), str(lock["name"])
    if keyword.iskeyword(name):
        raise UsageError(f"'{name}' cannot be a name in Python", hint="build with another --name", where=str(folder))
    if device.arch not in SYSTEMS[system]:
        there = " or ".join(_DEVICES[known][0] for known in SYSTEMS[system])
        raise UsageError(f"{system} has no wheels for {device.arch}", hint=f"build with --device {there}")
    if arch not in ("", device.arch):
        hint = f"edgec build MODEL --device {_DEVICES[arch][0]} -o DIR, then edgec wheel DIR --target {target}"
        raise UsageError(f"the build is for {device.arch}, not for {arch}", hint=hint, where=str(folder))
    zig_target, tag = SYSTEMS[system][device.arch]
    output = (folder if out is None else out) / f"{name}-{VERSION}-py3-none-{tag}.whl"
    if out is not None and not out.exists():
        with files_of_user.writing(out):
            out.mkdir(parents=True)
    refuse_existing(output)
    content = {f"{name}/__init__.py": f"{name}.py", **_weights(lock, name, system, folder)}
    files = {path: (folder / source).read_bytes() for path, source in content.items()}
    files[f"{name}/{library_name(name)}"] = _library(folder, lock, device, zig_target)
    files_of_user.replace(output, _packed(files, name, f"py3-none-{tag}", _summary(lock, device)))
    return Wheel(output, f"py3-none-{tag}", device.needs, _less_needy(device))


def _system(target: str) -> tuple[str, str]:
    """(system, architecture) of a target; the architecture is empty where it is left to the build."""
    name, behind, processor = target.partition("_")
    if target in _ARCH_NAMES:
        name, behind, processor = "manylinux", "_", target
    system = _SYSTEM_NAMES.get(name, name)
    if target == "jetson":
        return "manylinux", "aarch64"
    if system not in SYSTEMS or (behind and _ARCH_NAMES.get(processor) not in SYSTEMS[system]):
        known = ", ".join(SYSTEMS)
        told = f"one of {known}; with the processor behind it, as {' or '.join(_EXAMPLES)}; or jetson"
        raise UsageError(f"there is no system '{printable(target)}'", hint=told, where="--target")
    return system, _ARCH_NAMES[processor] if processor else ""


_EXAMPLES = ("manylinux_x86_64", "musllinux_aarch64")


def _weights(lock: Mapping[str, Any], name: str, system: str, folder: Path) -> dict[str, str]:
    """The file that the Python module reads its weights from, by its path in the wheel; none for a C array."""
    place = (lock.get("weights") or {}).get("place")
    if place == "stream" and system == "windows":
        message = "the C that reads weights as the network runs is for POSIX systems"
        raise UsageError(message, hint="build with --weights file, or without", where=str(folder))
    return {
        "incbin": {f"{name}/{name}_weights.bin": f"{name}_weights.bin"},
        "file": {f"{name}/{name}.weights": f"{name}.weights"},
        "stream": {f"{name}/{name}.weights": f"{name}.weights"},
    }.get(str(place), {})


def _less_needy(device: Device) -> str:
    """Options of a build for more processors than those that the code needs; empty where it needs nothing special."""
    if not device.needs or device.arch not in _DEVICES:
        return ""
    least, more = _DEVICES[device.arch]
    if device.needs == load_device(least).needs:
        return ""
    levels = f", with --dispatch {more} for its best code on each" if more else ""
    return f"for other processors, build with --device {least}{levels}"


def _device(lock: Mapping[str, Any], folder: Path) -> Device:
    """The facts of the build's device that a compiler has to know; those of a lock are not trusted."""
    facts = lock.get("device_facts")
    tools = facts.get("toolchain") if isinstance(facts, dict) else None
    facts, tools = (facts, tools) if isinstance(facts, dict) and isinstance(tools, dict) else ({}, {})
    levels = lock.get("level_facts")
    least = levels[0] if isinstance(levels, list) and levels and isinstance(levels[0], dict) else facts
    lists = {"toolchain.cflags": tools.get("cflags"), "instruction_sets": least.get("instruction_sets", [])}
    said = [("name", lock.get("device")), ("toolchain.zig_mcpu", tools.get("zig_mcpu"))]
    said += [(key, text) for key, texts in lists.items() for text in (texts if isinstance(texts, list) else [None])]
    if not all(isinstance(text, str) and is_inert(key, text) for key, text in said):
        raise UsageError("does not tell the device of the build", hint="build it again", where=str(folder / LOCK))
    if facts.get("language") != "c" or not facts.get("hosted") or not isinstance(facts.get("arch"), str):
        hint = "build with a --device of C and an operating system, such as arm64 (edgec device list)"
        if facts.get("language") == "cuda":
            hint = (
                "nvcc compiles it where the GPU is: cmake -S DIR -B DIR/build && cmake --build DIR/build, then "
                f"Net(library='DIR/build/lib{lock['name']}.so'); a wheel for a Jetson's processor: --device arm64"
            )
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
    # Wheels of 32-bit Arm pass floats in vector registers, whatever the ABI of the device.
    flags = tuple(flag for flag in device.toolchain.cflags if not flag.startswith("-mfloat-abi="))
    device = replace(device, toolchain=replace(device.toolchain, zig_target=target, cflags=flags))
    compiler = replace(pick_compiler(device, "zig"), target=target)
    with tempfile.TemporaryDirectory(prefix="edgec-") as scratch:
        output = Path(scratch) / "library"
        most, others = compiled_for(lock, device)
        sources = _needed([folder / source for source in lock["sources"]], f"{lock['name']}_weights")
        compile_shared(compiler, most, sources, output, include=[folder], others=others)
        return output.read_bytes()


def _needed(sources: list[Path], weights: str) -> list[Path]:
    """Sources without that of linked weights where nothing reads it: the Python module hands over those of a file."""
    table = [s for s in sources if s.name == f"{weights}.S"]
    rest = [s for s in sources if s not in table]
    return sources if any(re.search(rf"\b{weights}\b", s.read_text(errors="replace")) for s in rest) else rest


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
