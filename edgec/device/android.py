"""An AAR of an artefact without Android's own tools: the library by zig, the class by javac, the archive by hand.

Android's Gradle builds the same from the written module. Here the library is compiled with declarations of another C
library whose types agree with Android's in what is used, and linked against stand-ins that hold the names of the
functions it may ask a phone for: one that is not among them is an error. Programs that open a GPU's driver are linked
the same way.
"""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from edgec.device.device import Device
from edgec.device.maven import write_repository
from edgec.device.names import ABI, MIN_SDK
from edgec.device.toolchain import Compiler, compile_objects, pick_compiler
from edgec.errors import ToolchainError
from edgec.resources import data_folder

#: Pages of Android 15 and later may have 16 KiB.
PAGE_BYTES = 16_384
#: What the code may ask a phone for, by library.
SYSTEM = {
    "c": (
        "atoi calloc clock clock_gettime exit fclose fgetc fopen fprintf fputc fputs fread free fwrite getauxval "
        "getenv getpid malloc memcmp memcpy memmove memset posix_memalign printf pthread_cond_broadcast "
        "pthread_cond_destroy pthread_cond_init pthread_cond_wait pthread_create pthread_join pthread_mutex_destroy "
        "pthread_mutex_init pthread_mutex_lock pthread_mutex_unlock puts remove rename snprintf stderr strcmp strlen "
        "strstr "
        "ungetc vsnprintf"
    ),
    "dl": "dlopen dlsym",
    "m": (
        "acos acosf acosh acoshf asin asinf asinh asinhf atan atan2 atan2f atanf atanh atanhf ceil ceilf cos cosf cosh "
        "coshf erf erff exp expf expm1 expm1f floor floorf fma fmaf fmax fmaxf fmin fminf fmod fmodf ldexp ldexpf "
        "lgamma lgammaf log log10 log10f log1p log1pf log2 log2f logf nearbyint nearbyintf pow powf rint rintf round "
        "roundf sin sinf sinh sinhf sqrt sqrtf tan tanf tanh tanhf trunc truncf"
    ),
}
#: Of the library, as the Gradle project and other packages have it.
VERSION = "1.0.0"
TIME = (1980, 1, 1, 0, 0, 0)  # of everything in the archive, so that equal content gives equal bytes

Progress = Callable[[Path, int, int], None]


@dataclass(frozen=True)
class Library:
    """The C for one ABI: its device, its folder, the sources in it, and the devices of sources of other levels."""

    device: Device
    folder: Path
    sources: Sequence[str]
    others: Mapping[str, Device] = field(default_factory=dict)


def assemble(folder: Path, name: str, parts: Sequence[Library], progress: Progress | None = None) -> Path:
    """Compile the artefact in ``folder``, written with the app ``android``, into ``android/NAME.aar``.

    Raises ToolchainError where zig or a JDK is missing, or one of them refuses.
    """
    library = f"lib{name}_jni.so"
    with tempfile.TemporaryDirectory(prefix="edgec-") as scratch:
        work = Path(scratch)
        classes = _classes(folder / "java" / "src" / "main" / "java", work)
        module = folder / "android" / name
        content = {
            "AndroidManifest.xml": (folder / "android" / "aar" / "AndroidManifest.xml").read_bytes(),
            "classes.jar": classes.read_bytes(),
            "R.txt": b"",
            "proguard.txt": (module / "consumer-rules.pro").read_bytes(),
        }
        for part in parts:
            link_library(folder, name, part, work / library, progress)
            content[f"jni/{ABI[part.device.arch]}/{library}"] = (work / library).read_bytes()
    output = folder / "android" / f"{name}.aar"
    _archive(content, output)
    write_repository(folder / "android" / "repository", name, VERSION, output, folder / "java" / "src" / "main")
    return output


def link_library(folder: Path, name: str, part: Library, output: Path, progress: Progress | None = None) -> Path:
    """The shared library of ``edgec.NAME.Network`` for Android, in pages of 16 KiB."""
    java = _jdk() / "include"
    files = [*(part.folder / source for source in part.sources), folder / "java" / f"{name}_jni.c"]
    flags = [f"-I{part.folder}", "-isystem", str(java), "-isystem", str(java / "linux")]
    kind = ["-shared", "-soname", output.name]
    _link(part.device, files, flags, ("c", "m"), kind, output, progress, part.others)
    return output


def link_program(device: Device, sources: Sequence[Path], output: Path, defines: Sequence[str] = ()) -> Path:
    """A program of one thread that Android's linker starts, and that can open drivers, which no static one can."""
    files = [*sources, data_folder("codegen_templates") / "link" / "android_start.c"]
    # Variables of a thread are variables: older phones have no room for them in a program.
    flags = [f"-I{sources[0].parent}", "-D_Thread_local=", *(f"-D{define}" for define in defines)]
    _link(device, files, flags, ("c", "m", "dl"), ["-pie", "-dynamic-linker", "/system/bin/linker64"], output)
    return output


def _link(
    device: Device,
    files: Sequence[Path],
    flags: Sequence[str],
    system: Sequence[str],
    kind: Sequence[str],
    output: Path,
    progress: Progress | None = None,
    others: Mapping[str, Device] = {},
) -> None:
    # Mutexes, conditions and threads of musl are as large as Android's, or larger.
    target = f"{device.arch}-linux-musl{'eabi' if device.arch == 'arm' else ''}"
    phone = replace(device, toolchain=replace(device.toolchain, gcc_target="", zig_target=target))
    plain = replace(phone, toolchain=replace(phone.toolchain, cflags=()))
    compiler = replace(pick_compiler(plain, "zig"), target=target)
    if device.arch == "arm":
        compiler = _softfp(compiler)
        files = [*files, data_folder("codegen_templates") / "link" / "android_time.c"]
    with tempfile.TemporaryDirectory(prefix="edgec-") as scratch:
        work = Path(scratch)
        # Android has no bcmp, which clang would call where a memcmp is compared with 0.
        objects = compile_objects(
            compiler,
            phone,
            files,
            work,
            ["-fPIC", "-D__ANDROID__", "-fno-builtin-bcmp", *flags],
            progress=progress,
            others=others,
        )
        # Divisions of integers, which NDK's clang takes from a library of its own too.
        objects += [_divisions(target, work)] if device.arch == "arm" else []
        (work / "nothing.c").touch()
        nothing = compile_objects(compiler, phone, [work / "nothing.c"], work)
        stand_ins = []
        for part in system:
            stand_ins.append(work / f"system_{part}.so")
            named = [f"--defsym={name}=0" for name in SYSTEM[part].split()]
            _call(*_linker(), "-shared", "-soname", f"lib{part}.so", *nothing, *named, "-o", stand_ins[-1])
        pages = ["-z", f"max-page-size={PAGE_BYTES}", "-z", f"common-page-size={PAGE_BYTES}"]
        flags = [*kind, "-z", "defs", "--gc-sections", "--exclude-libs=ALL", *pages]
        flags += ["--hash-style=both", "--build-id", "-s"]
        _call(*_linker(), *flags, *objects, *stand_ins, "-o", output)


def _softfp(zig: Compiler) -> Compiler:
    """The clang within zig, for Android's 32-bit Arm: zig cc has no floats in integer registers (softfp)."""
    command = [*zig.command[:-1], "clang", "-target", f"armv7a-linux-androideabi{MIN_SDK}", "-nostdlibinc"]
    found = importlib.util.find_spec("ziglang")
    library = Path(str(found.origin)).parent / "lib" if found is not None else Path(zig.command[0]).parent / "lib"
    for headers in ("include", *(f"libc/include/{part}" for part in ("arm-linux-musl", "generic-musl"))):
        command += ["-isystem", str(library / headers)]
    return replace(zig, kind="clang", command=tuple(command), target="arm-linux-androideabi")


def _divisions(target: str, work: Path) -> Path:
    """An archive of the functions that clang calls where a processor has no instruction."""
    (work / "nothing.zig").touch()
    output = work / "libdivisions.a"
    zig = [sys.executable, "-m", "ziglang", "build-lib", "-target", target, "-mcpu=generic+v7a", "-O", "ReleaseSmall"]
    _call(*zig, "-fPIC", "-ffunction-sections", "-fcompiler-rt", f"-femit-bin={output}", work / "nothing.zig")
    return output


def _classes(sources: Path, work: Path) -> Path:
    """A jar of the classes below a folder."""
    out = work / "classes"
    files = sorted(sources.rglob("*.java"))
    _call(_jdk() / "bin" / "javac", "--release", "8", "-Xlint:-options", "-d", out, *files)
    jar = work / "classes.jar"
    _archive({str(p.relative_to(out)): p.read_bytes() for p in sorted(out.rglob("*.class"))}, jar)
    return jar


def _archive(content: dict[str, bytes], output: Path) -> None:
    with zipfile.ZipFile(output, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, data in content.items():
            archive.writestr(zipfile.ZipInfo(path, TIME), data, zipfile.ZIP_DEFLATED)


def _jdk() -> Path:
    javac = shutil.which("javac")
    if javac is None:
        raise ToolchainError("javac is not installed", hint="install a JDK, or leave the rest to Gradle: --no-compile")
    return Path(javac).resolve().parent.parent


def _linker() -> list[str]:
    if importlib.util.find_spec("ziglang") is None:
        hint = "pip install ziglang, or leave the rest to Gradle: --no-compile"
        raise ToolchainError("ziglang is not installed", hint=hint)
    return [sys.executable, "-m", "ziglang", "ld.lld"]


def _call(*command: str | Path) -> None:
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ToolchainError(f"{Path(command[0]).name} failed\n{(done.stderr or done.stdout).strip()[:2000]}")
