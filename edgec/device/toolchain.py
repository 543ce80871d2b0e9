"""Compilers: which of them build for a device, and how one is called.

gcc, clang and `zig cc` take the same C and nearly the same options. What differs is told in the section
"where compilers differ"; nothing else in edgec knows which compiler it is talking to.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import get_args

from edgec.device.device import Device
from edgec.device.names import CompilerKind
from edgec.device.precompiled import Headers
from edgec.device.probe import host_arch
from edgec.errors import ToolchainError

Progress = Callable[[Path, int, int], None]
"""Called as (source, number of sources compiled so far, number of sources)."""

LANGUAGE_FLAGS = ("-std=gnu11", "-O3", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=fast")
WARNING_FLAGS = ("-Wall", "-Wextra", "-Werror")
#: Warnings of gcc's optimizer, which follow from what it made of code: they differ between versions, and end no build.
GUESSES = ("aggressive-loop-optimizations", "array-bounds", "maybe-uninitialized", "restrict", "stringop-overflow")

# What says "this processor" to gcc; zig says it with -target and -mcpu in a spelling of its own.
# How floats are passed, its target leaves open where they are in integer registers.
_PROCESSOR_FLAG = re.compile(r"-m(arch|cpu|fpu|abi|float-abi)=|-mthumb$")
# Floats in integer registers, of processors that have others: zig has no target with such functions.
_SOFTFP = "-mfloat-abi=softfp"
# What only tunes: the code is right on a compiler that does not know the option.
_TUNING_FLAG = re.compile(r"-m(tune|prefer-vector-width)=")

_CPU_OF_TRIPLE = {"amd64": "x86_64", "arm64": "aarch64"}
_SHOWN_ERROR_LINES = 6


@dataclass(frozen=True)
class Compiler:
    """A C compiler that was found on this machine."""

    kind: CompilerKind
    command: tuple[str, ...]
    version: str
    target: str
    """The triple it builds for; "native" where zig builds for the machine it runs on."""

    def __str__(self) -> str:
        return f"{self.kind} {self.version} for {self.target}"


# -- finding ---------------------------------------------------------------------------------------


def find_compilers(device: Device) -> list[Compiler]:
    """The compilers on this machine that build for the device, the one to prefer first."""
    found: dict[tuple[str, str, str], Compiler] = {}
    for command in _candidates(device):
        compiler = _identify(command, device)
        if compiler is not None and _builds_for(compiler, device):
            found.setdefault((compiler.kind, compiler.version, compiler.target), compiler)
    return list(found.values())


def pick_compiler(device: Device, wanted: str | None = None) -> Compiler:
    """The preferred compiler for the device, or the `wanted` kind ("zig") or command ("clang-19")."""
    kinds = get_args(CompilerKind)
    wanted = wanted if wanted is not None else device.toolchain.compiler or None
    if wanted is None or wanted in kinds:
        for compiler in find_compilers(device):
            if wanted in (None, compiler.kind):
                return compiler
        message = f"no {wanted or 'C compiler'} that builds for '{device.name}' was found"
        raise ToolchainError(message, hint=_install_hint(device))
    named = _identify(tuple(shlex.split(wanted)), device)
    if named is None:
        hint = f"name one of {', '.join(kinds)}, or the command of a compiler that is installed"
        raise ToolchainError(f"'{wanted}' is not a C compiler that runs here", hint=hint)
    if not _builds_for(named, device):
        raise ToolchainError(f"{named} does not build for '{device.name}'", hint=_install_hint(device))
    return named


def _candidates(device: Device) -> Iterator[tuple[str, ...]]:
    """Commands worth trying, best first. gcc leads: its code for the shipped kernels measures fastest."""
    if chosen := os.environ.get("CC"):
        yield tuple(shlex.split(chosen))
    if _is_native(device):
        yield from (("gcc",), ("clang",), ("cc",))
    if device.toolchain.gcc_target:
        yield (f"{device.toolchain.gcc_target}-gcc",)
    if importlib.util.find_spec("ziglang") is not None:
        yield (sys.executable, "-m", "ziglang", "cc")
    yield ("zig", "cc")


def _identify(command: tuple[str, ...], device: Device) -> Compiler | None:
    """The compiler behind a command, None where there is none. Zig takes its target from the device."""
    program = shutil.which(command[0]) if command else None
    if program is None:
        return None
    command = (program, *command[1:])
    if any(Path(word).stem in ("zig", "ziglang") for word in command):
        version = _output_of((*command[:-1], "version"))
        return Compiler("zig", command, version, "native" if _is_native(device) else _zig_target(device))
    banner = _output_of((*command, "--version"))
    number = re.search(r"\d+(\.\d+)+", re.sub(r"\(.*?\)", "", banner))
    triple = _output_of((*command, "-dumpmachine"))
    if number is None or "-" not in triple:
        return None
    return Compiler("clang" if "clang" in banner else "gcc", command, number[0], triple)


def _zig_target(device: Device) -> str:
    return "" if _SOFTFP in device.toolchain.cflags else device.toolchain.zig_target


def _builds_for(compiler: Compiler, device: Device) -> bool:
    if compiler.kind == "zig":
        return bool(compiler.version and compiler.target)
    cpu, _, system = compiler.target.partition("-")
    wanted_cpu = "arm" if device.arch == "thumb" else device.arch
    is_same_system = not device.toolchain.gcc_target or ("linux" in device.toolchain.gcc_target) == ("linux" in system)
    return _CPU_OF_TRIPLE.get(cpu, cpu) == wanted_cpu and is_same_system


def _is_native(device: Device) -> bool:
    """True if code that a compiler makes for this machine runs on the device, or on another of its kind."""
    is_same_system = not device.toolchain.gcc_target or (
        "linux" in device.toolchain.gcc_target and sys.platform == "linux"
    )
    return device.hosted and device.arch == host_arch() and is_same_system


def _install_hint(device: Device) -> str:
    is_native, target = _is_native(device), device.toolchain.gcc_target
    gcc = "install gcc" if is_native else f"install {target}-gcc" if target else ""
    zig = "pip install ziglang" if is_native or _zig_target(device) else ""
    return ", or ".join(filter(None, (zig, gcc))) or "name a compiler: --compiler"


@cache
def _output_of(command: tuple[str, ...]) -> str:
    """Output of a command, empty if it fails. Cached: compilers do not change while edgec runs."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


# -- where compilers differ ------------------------------------------------------------------------


def device_flags(compiler: Compiler, device: Device) -> tuple[str, ...]:
    """The device's `cflags` in the compiler's own words, without the tuning options that it refuses."""
    tuning = [flag for flag in device.toolchain.cflags if _TUNING_FLAG.match(flag)]
    flags = [flag for flag in device.toolchain.cflags if flag not in tuning]
    if compiler.kind == "zig":
        flags = [flag for flag in flags if not _PROCESSOR_FLAG.match(flag)]
        flags += [] if compiler.target == "native" else ["-target", compiler.target]
        flags += [f"-mcpu={device.toolchain.zig_mcpu}"] if device.toolchain.zig_mcpu else []
    return (*flags, *(flag for flag in tuning if _accepts((*compiler.command, *flags, flag))))


@cache
def _accepts(command: tuple[str, ...]) -> bool:
    trial = [*command, "-Werror", "-E", "-x", "c", os.devnull]
    return subprocess.run(trial, capture_output=True, check=False).returncode == 0


def _compile_flags(compiler: Compiler, device: Device) -> tuple[str, ...]:
    flags = (*LANGUAGE_FLAGS, *WARNING_FLAGS, *device_flags(compiler, device))
    if compiler.kind == "gcc":
        return (*flags, *(f"-Wno-error={name}" for name in GUESSES))
    # The same options go to C and to assembler, which has no use for some of them.
    flags = (*flags, "-Wno-unused-command-line-argument")
    # zig traps undefined behavior unless told not to.
    return (*flags, "-fno-sanitize=undefined") if compiler.kind == "zig" else flags


def _sanitizer_flags(compiler: Compiler, sanitize: Sequence[str]) -> tuple[str, ...]:
    if not sanitize:
        return ()
    if compiler.kind == "zig" and "address" in sanitize:
        raise ToolchainError("zig has no address sanitizer", hint="use gcc or clang for this program")
    # Instrumented code draws warnings that the plain code does not deserve.
    checks = (f"-fsanitize={','.join(sanitize)}", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer")
    return (*checks, "-g", "-O1", "-Wno-error")


# -- compiling -------------------------------------------------------------------------------------


def compile_shared(
    compiler: Compiler,
    device: Device,
    sources: Sequence[Path],
    output: Path,
    *,
    include: Sequence[Path] = (),
    defines: Sequence[str] = (),
    extra_flags: Sequence[str] = (),
    jobs: int = 2,
    progress: Progress | None = None,
    others: Mapping[str, Device] = {},
) -> Path:
    """Compiles C and assembler `sources`, `jobs` at a time, into the shared library `output`.

    `defines` are `NAME` or `NAME=VALUE`; `extra_flags` go to the compiler and to the linker. `others` are the devices
    of sources, by their names, that are compiled for another one than the rest.
    """
    if not device.hosted:
        hint = "build a program, or take the C sources into the project of the board"
        raise ToolchainError(f"'{device.name}' has no shared libraries", hint=hint)
    is_elf = "linux" in (sys.platform if compiler.target == "native" else compiler.target)
    # A missing symbol shall be an error now, not when the library is loaded.
    whole = ("-Wl,-z,defs",) if is_elf else ()
    flags = ("-fPIC", *_options(include, defines), *extra_flags)
    link = ("-shared", *whole, *extra_flags)
    return _build(compiler, device, sources, output, flags, link, jobs, progress, others)


def compile_program(
    compiler: Compiler,
    device: Device,
    sources: Sequence[Path],
    output: Path,
    *,
    include: Sequence[Path] = (),
    defines: Sequence[str] = (),
    extra_flags: Sequence[str] = (),
    sanitize: Sequence[str] = (),
    jobs: int = 2,
    progress: Progress | None = None,
    others: Mapping[str, Device] = {},
) -> Path:
    """Compiles `sources` into the program `output`, as `compile_shared` does.

    `sanitize` names checks to build in ("address", "undefined"); the program stops where one fails.
    """
    checks = _sanitizer_flags(compiler, sanitize)
    flags = (*_options(include, defines), *checks, *extra_flags)
    link = (*checks, *extra_flags)
    return _build(compiler, device, sources, output, flags, link, jobs, progress, others)


def _options(include: Sequence[Path], defines: Sequence[str]) -> tuple[str, ...]:
    return (*(f"-I{folder}" for folder in include), *(f"-D{define}" for define in defines))


def _build(
    compiler: Compiler,
    device: Device,
    sources: Sequence[Path],
    output: Path,
    compile_flags: Sequence[str],
    link_flags: Sequence[str],
    jobs: int,
    progress: Progress | None,
    others: Mapping[str, Device],
) -> Path:
    """Compiles and links. Progress and errors come in the order of the sources, whichever is done first."""
    libraries = ("-lm", "-lpthread") if device.hosted else ()
    output.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="edgec-") as folder:
        objects = compile_objects(compiler, device, sources, Path(folder), compile_flags, jobs, progress, others)
        # zig's C library comes with debug information.
        strip = ("-s",) if compiler.kind == "zig" and "-g" not in link_flags else ()
        link = [*device_flags(compiler, device), *map(str, objects), *strip, *link_flags, *libraries]
        _run(compiler, [*link, "-o", str(output)], where=output)
    return output


def newlib(device: Device) -> tuple[Compiler, Path]:
    """The gcc of a device without an operating system, and the headers of its newlib.

    Raises ToolchainError where gcc or newlib is missing.
    """
    hint = f"install {device.toolchain.gcc_target}-gcc and its newlib"
    linker = _identify((f"{device.toolchain.gcc_target}-gcc",), device)
    if linker is None:
        raise ToolchainError(f"an image for '{device.name}' is linked by {device.toolchain.gcc_target}-gcc", hint=hint)
    library = Path(_output_of((*linker.command, *device.toolchain.cflags, "-print-file-name=libc.a")))
    while library.name != device.toolchain.gcc_target and library != library.parent:  # it is below, for each CPU
        library = library.parent
    headers = library / "include"
    if not (headers / "stdio.h").is_file():
        raise ToolchainError(f"{linker} has no newlib", hint=hint)
    return linker, headers.resolve()


def compile_image(
    compiler: Compiler,
    device: Device,
    sources: Sequence[Path],
    output: Path,
    *,
    include: Sequence[Path] = (),
    defines: Sequence[str] = (),
    extra_flags: Sequence[str] = (),
    link_flags: Sequence[str] = (),
) -> Path:
    """Compiles `sources` into a program for a device without an operating system, with the newlib of its gcc.

    That gcc links; the objects may be another compiler's. Raises ToolchainError where gcc or newlib is missing.
    """
    linker, headers = newlib(device)
    flags = [*_options(include, defines), *extra_flags]
    if compiler.kind != "gcc":
        flags += ["-isystem", str(headers)]
    with tempfile.TemporaryDirectory(prefix="edgec-") as folder:
        objects = compile_objects(compiler, device, sources, Path(folder), flags)
        link = [*device_flags(linker, device), *map(str, objects), *link_flags, "-o", str(output)]
        _run(linker, link, where=output)
    return output


def compile_objects(
    compiler: Compiler,
    device: Device,
    sources: Sequence[Path],
    folder: Path,
    extra_flags: Sequence[str] = (),
    jobs: int = 2,
    progress: Progress | None = None,
    others: Mapping[str, Device] = {},
) -> list[Path]:
    """Compiles `sources`, `jobs` at a time, into an object file each in `folder`, in their order."""
    flags = [(*_compile_flags(compiler, others.get(s.name, device)), *extra_flags) for s in sources]
    objects = [folder / f"{number}_{source.stem}.o" for number, source in enumerate(sources)]
    headers = Headers(compiler.kind, compiler.command, compiler.version)
    first = [headers.arguments(f, source, len(sources)) for f, source in zip(flags, sources, strict=True)]
    with ThreadPoolExecutor(max(1, jobs)) as pool:
        each = zip(flags, first, sources, objects, strict=True)
        compiled = pool.map(lambda one: _compile(compiler, headers, *one), each)
        for done, source in enumerate(sources, start=1):
            next(compiled)
            if progress is not None:
                progress(source, done, len(sources))
    return objects


def _compile(
    compiler: Compiler, headers: Headers, flags: Sequence[str], first: Sequence[str], source: Path, target: Path
) -> None:
    # `.incbin` finds the weights beside the assembler file that names them, as #include does.
    beside = [f"-I{source.parent}"] if source.suffix == ".S" else []
    command = [*flags, *beside, "-c", str(source), "-o", str(target)]
    try:
        _run(compiler, [*first, *command], where=source)
    except ToolchainError:
        if not first:
            raise
        _run(compiler, command, where=source)  # a mistake in the source is told without what is precompiled
        headers.drop()


def _run(compiler: Compiler, arguments: Sequence[str], where: Path) -> None:
    english = {**os.environ, "LC_ALL": "C"}
    command = [*compiler.command, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False, env=english)
    if done.returncode != 0:
        overflows = re.findall(r"region `(\w+)' overflowed by (\d+) bytes", done.stderr)
        if overflows:
            lacks = " and ".join(f"{int(count):,} more bytes of {region}" for region, count in overflows)
            told = {True: "--ram makes do with less memory", False: "--quantize int8 makes weights a quarter of fp32"}
            hints = dict.fromkeys(told["RAM" in region] for region, _ in overflows)
            hint = "; ".join([*hints, "edgec report tells what takes most"])
            raise ToolchainError(f"the program does not fit into the device: it takes {lacks}", hint=hint)
        raise ToolchainError(f"{compiler} refused it{_first_errors(done.stderr)}", where=str(where))
    require_written(str(compiler), Path(arguments[-1]), where)


def require_written(compiler: str, output: Path, where: Path) -> None:
    """Raises ToolchainError where a compiler says that all is well, and wrote nothing."""
    if not output.is_file() or not output.stat().st_size:
        hint = "is it a compiler? edgec doctor lists those that are here"
        raise ToolchainError(f"{compiler} ended well and wrote nothing", hint=hint, where=str(where))


def _first_errors(output: str) -> str:
    lines = output.strip().splitlines()
    telling = [line for line in lines if re.search(r"error:|undefined reference", line)] or lines
    return "".join(f"\n    {line.strip()}" for line in telling[:_SHOWN_ERROR_LINES])
