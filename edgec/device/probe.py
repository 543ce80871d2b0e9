"""The facts of the machine edgec runs on, from what its operating system says.

Nothing is measured here and nothing has to be there: a fact that no source gives falls back to a safe one.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from edgec.device.device import Arch, Device, Toolchain
from edgec.errors import DeviceError

_ARCHES: dict[str, Arch] = {
    "x86_64": "x86_64",
    "amd64": "x86_64",
    "aarch64": "aarch64",
    "arm64": "aarch64",
    "armv6l": "arm",
    "armv7l": "arm",
    "armv8l": "arm",
    "riscv64": "riscv64",
}

# What operating systems call a feature -> what compilers call it; Linux says `asimddp`, macOS `feat_dotprod`.
# The oldest come first, which is also the order of the device's instruction sets.
_FEATURES = {
    "sse4_2": "sse4.2",
    "sse4.2": "sse4.2",
    "avx": "avx",
    "avx1.0": "avx",
    "f16c": "f16c",
    "fma": "fma",
    "avx2": "avx2",
    "avx512f": "avx512f",
    "avx512bw": "avx512bw",
    "avx512dq": "avx512dq",
    "avx512vl": "avx512vl",
    "avx512_vnni": "avx512vnni",
    "avx512vnni": "avx512vnni",
    "avx512_bf16": "avx512bf16",
    "avx512_fp16": "avx512fp16",
    "avx_vnni": "avxvnni",
    "amx_tile": "amx-tile",
    "amx_int8": "amx-int8",
    "amx_bf16": "amx-bf16",
    "neon": "neon",
    "asimd": "neon",
    "advsimd": "neon",
    "asimdhp": "fp16",
    "feat_fp16": "fp16",
    "asimdfhm": "fp16fml",
    "feat_fhm": "fp16fml",
    "asimddp": "dotprod",
    "feat_dotprod": "dotprod",
    "i8mm": "i8mm",
    "feat_i8mm": "i8mm",
    "bf16": "bf16",
    "feat_bf16": "bf16",
    "sve": "sve",
    "sve2": "sve2",
}

# Smaller than nearly every machine has, so that a tile chosen for it fits everywhere.
_SAFE_CACHES = {1: 32_768, 2: 262_144, 3: 0}


@dataclass(frozen=True)
class _Reading:
    """Facts from the operating system: the CPU's name and features, its data caches in bytes."""

    model: str
    features: frozenset[str]
    caches: Mapping[int, int]


def host_arch() -> Arch:
    """The architecture of the machine edgec runs on."""
    machine = platform.machine().lower()
    if machine not in _ARCHES:
        message = f"the architecture '{machine}' of this machine is unknown"
        raise DeviceError(message, hint="name another device")
    return _ARCHES[machine]


def probe_host(root: Path = Path("/")) -> Device:
    """The machine edgec runs on. `root` is where `proc` and `sys` are looked for, where there are such."""
    arch = host_arch()
    reading = _read_macos() if sys.platform == "darwin" else _read_linux(root)
    instruction_sets = _instruction_sets(arch, reading.features)
    vector_bytes, vector_registers = _vectors(arch, instruction_sets)
    caches = {**_SAFE_CACHES, **reading.caches}
    return Device(
        name="host",
        description=f"{reading.model or arch}, as found on this machine",
        arch=arch,
        instruction_sets=instruction_sets,
        vector_bytes=vector_bytes,
        vector_registers=vector_registers,
        cores=usable_cores(),
        l1d_bytes=caches[1],
        l2_bytes=caches[2],
        l3_bytes=caches[3],
        ram_bytes=_sysconf("SC_PHYS_PAGES") * _sysconf("SC_PAGE_SIZE"),
        page_bytes=_sysconf("SC_PAGE_SIZE"),
        toolchain=Toolchain(cflags=_native_cflags(arch, instruction_sets), zig_mcpu="native"),
        link="local",
    )


# -- what follows from the architecture and its features -------------------------------------------


def _instruction_sets(arch: Arch, features: frozenset[str]) -> tuple[str, ...]:
    baseline = {"asimd"} if arch == "aarch64" else set()
    present = features | baseline
    return tuple(dict.fromkeys(name for feature, name in _FEATURES.items() if feature in present))


def _vectors(arch: Arch, instruction_sets: tuple[str, ...]) -> tuple[int, int]:
    """The bytes of a vector and the number of vector registers."""
    if arch == "x86_64":
        if {"avx512f", "avx512dq"} <= set(instruction_sets):
            return 64, 32
        return (32 if {"avx2", "fma"} <= set(instruction_sets) else 16), 16
    if arch == "aarch64":
        return 16, 32
    if arch == "arm":
        return (16, 16) if "neon" in instruction_sets else (4, 16)
    return 4, 32


def _native_cflags(arch: Arch, instruction_sets: tuple[str, ...]) -> tuple[str, ...]:
    if arch == "x86_64":
        # Left alone, compilers split 512-bit vectors in two on many of the machines that have them.
        wide = ("-mprefer-vector-width=512",) if {"avx512f", "avx512dq"} <= set(instruction_sets) else ()
        return ("-march=native", *wide)
    return ("-mcpu=native",) if arch in ("aarch64", "arm") else ()


# -- Linux -----------------------------------------------------------------------------------------


def _read_linux(root: Path) -> _Reading:
    cpuinfo = _first_of_each_key(_text(root / "proc/cpuinfo"))
    board = _text(root / "proc/device-tree/model").rstrip("\0")
    features = cpuinfo.get("flags") or cpuinfo.get("Features") or ""
    return _Reading(
        model=board or cpuinfo.get("model name", ""),
        features=frozenset(features.lower().split()),
        caches=_sysfs_caches(root / "sys/devices/system/cpu/cpu0/cache") or _sysconf_caches(),
    )


def _first_of_each_key(text: str) -> dict[str, str]:
    """The `key : value` lines; of many processors the first one speaks for all."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        key, _, value = line.partition(":")
        found.setdefault(key.strip(), value.strip())
    return found


def _sysfs_caches(folder: Path) -> dict[int, int]:
    caches = {}
    for index in folder.glob("index*"):
        level, size = _text(index / "level").strip(), _text(index / "size").strip()
        is_data = _text(index / "type").strip() in ("Data", "Unified")
        if is_data and level.isdigit() and size.removesuffix("K").isdigit():
            caches[int(level)] = int(size.removesuffix("K")) * 1024
    return caches


def _sysconf_caches() -> dict[int, int]:
    names = {1: "SC_LEVEL1_DCACHE_SIZE", 2: "SC_LEVEL2_CACHE_SIZE", 3: "SC_LEVEL3_CACHE_SIZE"}
    return {level: size for level, name in names.items() if (size := _sysconf(name)) > 0}


# -- macOS -----------------------------------------------------------------------------------------


def _read_macos() -> _Reading:
    facts = _first_of_each_key(_sysctl("hw", "machdep.cpu"))
    switched_on = {key.rpartition(".")[2].lower() for key, value in facts.items() if value == "1"}
    listed = f"{facts.get('machdep.cpu.features', '')} {facts.get('machdep.cpu.leaf7_features', '')}"
    return _Reading(
        model=facts.get("machdep.cpu.brand_string", ""),
        features=frozenset(switched_on | set(listed.lower().split())),
        caches=_sysctl_caches(facts),
    )


def _sysctl_caches(facts: Mapping[str, str]) -> dict[int, int]:
    """`perflevel0` are the fast cores of a machine that has two kinds."""
    caches = {}
    for level, name in {1: "l1dcachesize", 2: "l2cachesize", 3: "l3cachesize"}.items():
        size = facts.get(f"hw.perflevel0.{name}") or facts.get(f"hw.{name}") or ""
        if size.isdigit() and int(size) > 0:
            caches[level] = int(size)
    return caches


# -- sources that may be missing -------------------------------------------------------------------


def usable_cores() -> int:
    """The cores this process may run on, which in a container are fewer than the machine has."""
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _sysconf(name: str) -> int:
    try:
        return max(0, os.sysconf(name))
    except (ValueError, OSError):
        return 0


def _sysctl(*names: str) -> str:
    try:
        done = subprocess.run(["sysctl", *names], capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return done.stdout
