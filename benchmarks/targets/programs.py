"""The programs of a cell: how those of each app are built here, and run where something runs them."""

from __future__ import annotations

import shutil
import struct
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.boards.webgpu import NoAdapter, webgpu
from benchmarks.targets.network import LABELS, SIDE
from edgec.build import Built
from edgec.device.apk import INSTALL
from edgec.device.compilers import runs_here
from edgec.device.device import Device
from edgec.device.load import load_device
from edgec.device.names import ABI
from edgec.device.toolchain import compile_objects, newlib, pick_compiler
from edgec.emit.apps import APPS
from edgec.emit.parts import cross_options
from edgec.errors import CheckError, ToolchainError
from edgec.link.base import tool
from edgec.link.local import emulated

#: Seconds that a tool may take.
PATIENCE = 300
#: What ELF calls the processors of Android's devices, and its bits.
_MACHINES = {"aarch64": (183, 64), "arm": (40, 32), "x86_64": (62, 64)}
#: Compilers for another core of the family, where distributions have none for the core itself.
_RELATED = {"xtensa": "xtensa-lx106-elf-gcc"}
#: For sources that are read, and not compiled.
_READ = ("-fsyntax-only", "-Wall", "-Wextra", "-Werror")
#: For CUDA on the processor, as `--compiler emulated` has it.
_ON_CPU = ("-std=c++17", "-O1", "-DEC_ON_CPU", "-Wall", "-Wextra", "-Werror", "-Wno-unknown-pragmas")


@dataclass(frozen=True)
class Sample:
    """The input that a program is shown, and the answer that it has to give."""

    ppm: Path
    image: np.ndarray
    scores: np.ndarray

    @property
    def label(self) -> str:
        return LABELS[int(self.scores.argmax())]


@dataclass(frozen=True)
class Outcome:
    """The stage that a cell reached (ran, validated or built), and how that was seen."""

    verdict: str
    how: str


def called(*words: str | Path, cwd: Path | None = None) -> str:
    """The output of a program. Raises ToolchainError, with its last lines, where it fails."""
    done = subprocess.run(
        words, capture_output=True, text=True, errors="replace", timeout=PATIENCE, cwd=cwd, check=False
    )
    if done.returncode:
        last = " / ".join((done.stderr or done.stdout).strip().splitlines()[-6:])
        raise ToolchainError(f"{Path(words[0]).name} ended with {done.returncode}: {last}")
    return done.stdout


def answered(printed: str, sample: Sample, line: int = 1) -> None:
    """Raises CheckError unless a line of the program begins with the label."""
    lines = printed.splitlines()
    if len(lines) <= line or lines[line].split()[:1] != [sample.label]:
        raise CheckError(f"the program answers {lines[: line + 1]}, and the picture is {sample.label}")


def pi(built: Built, sample: Sample) -> Outcome:
    device, name = built.options.device, built.options.name
    folder = built.folder / "pi"
    cross = [] if runs_here(device) else cross_options(device).split()
    static = ["-DCMAKE_EXE_LINKER_FLAGS=-static"] if cross else []
    called(tool("cmake", "apt install cmake"), "-S", folder, "-B", folder / "build", *cross, *static)
    called("cmake", "--build", folder / "build", "--target", f"{name}_pictures")
    prefix = [] if runs_here(device) else _emulator(built)
    answered(called(*prefix, folder / "build" / f"{name}_pictures", sample.ppm), sample)
    return Outcome("ran", "CMake; " + (Path(prefix[0]).name if prefix else "this machine"))


def gstreamer(built: Built, sample: Sample) -> Outcome:
    """The plugin in a pipeline of this machine; for another processor, its source read with the headers of this one."""
    name, folder = built.options.name, built.folder / "gstreamer"
    wanted = ("gstreamer-1.0", "gstreamer-base-1.0", "gstreamer-video-1.0")
    flags = called(tool("pkg-config", "apt install pkg-config"), "--cflags", *wanted).split()
    if not runs_here(built.options.device):
        called("gcc", *_READ, *flags, f"-I{built.folder}", folder / "element.c")
        return Outcome("validated", "element read by gcc, with GStreamer's headers")
    called(tool("cmake", "apt install cmake"), "-S", folder, "-B", folder / "build")
    called("cmake", "--build", folder / "build")
    (folder / "picture").write_bytes(sample.image.tobytes())
    source = ["filesrc", f"location={folder / 'picture'}", f"blocksize={sample.image.nbytes}", "!", f"{name}infer"]
    launch = [tool("gst-launch-1.0", "apt install gstreamer1.0-tools"), "-q", *source]
    plugins = ["env", f"GST_PLUGIN_PATH={folder / 'build'}", f"GST_REGISTRY={folder / 'registry'}"]
    called(*plugins, *launch, "!", "filesink", f"location={folder / 'scores'}")
    found = np.fromfile(folder / "scores", np.float32)
    if int(found.argmax()) != int(sample.scores.argmax()):
        raise CheckError(f"the element answers {found}, and the reference {sample.scores}")
    return Outcome("ran", "gst-launch-1.0")


def onnxruntime(built: Built, sample: Sample) -> Outcome:
    """The provider in a session of this machine; for another processor, its sources read by this one's compiler."""
    name, folder = built.options.name, built.folder / "onnxruntime"
    if not runs_here(built.options.device):
        for source in ("provider.cpp", "network.cpp"):
            called(tool("g++", "apt install g++"), *_READ, "-std=c++17", f"-I{built.folder}", folder / source)
        return Outcome("validated", "provider read by g++")
    called(tool("cmake", "apt install cmake"), "-S", folder, "-B", folder / "build")
    called("cmake", "--build", folder / "build")
    assert built.onnx is not None
    (folder / "model.onnx").write_bytes(
        built.onnx.path.read_bytes()
        if built.onnx.path is not None
        else built.onnx.proto.SerializeToString(deterministic=True)
    )
    np.save(folder / "image.npy", sample.image)
    program = (
        f"import numpy, onnxruntime; from {name}_session import PROVIDER, session; o = onnxruntime.SessionOptions(); "
        "o.add_session_config_entry('session.record_ep_graph_assignment_info', '1'); s = session('model.onnx', o); "
        "assert PROVIDER in [part.ep_name for part in s.get_provider_graph_assignment_info()]; "
        "print(numpy.argmax(s.run(None, {'image': numpy.load('image.npy')})[0]))"
    )
    done = called(sys.executable, "-c", program, cwd=folder)
    found = done.split()
    if int(found[-1]) != int(sample.scores.argmax()):
        raise CheckError(f"the session answers {found}, and the reference {sample.scores}")
    return Outcome("ran", "a session of onnxruntime")


def ros2(built: Built, sample: Sample) -> Outcome:
    """The tags that a manifest has to have, and the node read over a stand-in of rclcpp: ROS 2 is not packaged here."""
    folder = built.folder / "ros2"
    tags = {tag.tag for tag in ElementTree.parse(folder / "package.xml").getroot()}
    if missing := {"name", "version", "description", "maintainer", "license"} - tags:
        raise CheckError(f"package.xml has no {', '.join(sorted(missing))}")
    headers = [f"-I{built.folder}", f"-I{Path(__file__).parent / 'ros' / 'include'}"]
    called(tool("g++", "apt install g++"), *_READ, "-std=c++17", *headers, folder / "node.cpp")
    return Outcome("validated", "manifest; node read by g++ over a stand-in of rclcpp")


def _emulator(built: Built) -> Sequence[str]:
    with emulated(built.options.device, "") as link:
        return link.prefix


def embedded(built: Built, sample: Sample) -> Outcome:
    folder, machine = built.folder / "embedded", built.options.device.board.qemu_machine
    called(tool("make", "apt install make"), "-s", "-C", folder)
    if not machine:
        return Outcome("built", "an image; no emulator of this board")
    shutil.copy(sample.ppm, folder / "picture.ppm")
    answered(called("make", "-s", "-C", folder, "run", "FILE=picture.ppm"), sample, 0)
    return Outcome("ran", f"qemu-system-arm -M {machine}")


def on_webgpu(built: Built, sample: Sample) -> Outcome:
    """The module in a headless Chromium, on its adapter in software."""
    tool("chromium", "apt install chromium"), tool("chromedriver", "apt install chromium-driver")
    try:
        with webgpu(built.folder) as pages:
            (found,) = pages.run(built.folder, [{built.graph.inputs[0].attributes["name"]: sample.image}])
    except NoAdapter as problem:
        raise ToolchainError(str(problem), hint="apt install chromium") from None
    except RuntimeError as problem:
        raise CheckError(str(problem)) from None
    (scores,) = found.values()
    if not np.allclose(scores.reshape(-1), sample.scores.reshape(-1), atol=1e-4 * np.abs(sample.scores).max()):
        raise CheckError(f"the module answers {scores}, and the reference {sample.scores}")
    return Outcome("ran", "Chromium, its adapter in software")


def web(built: Built, sample: Sample) -> Outcome:
    if built.options.device.language == "wgsl":
        return on_webgpu(built, sample)
    folder, name = built.folder / "web", built.options.name
    (folder / "image.bin").write_bytes(sample.image.tobytes())
    called(tool("node", "install Node.js"), Path(__file__).with_name("run.mjs"), folder, name, str(SIDE))
    found = np.fromfile(folder / "scores.out", np.float32)
    if int(found.argmax()) != int(sample.scores.argmax()):
        raise CheckError(f"the module answers {found}, and the reference {sample.scores}")
    return Outcome("ran", "Node.js")


def jetson(built: Built, sample: Sample) -> Outcome:
    """The program with its kernels as C++ on the processor, as tests/apps/test_jetson.py does."""
    folder = built.folder
    sources = [*folder.glob("*.cu"), *folder.glob("jetson/*.cu"), *folder.glob("jetson/*.cpp")]
    weights = ["-x", "none", folder / f"{built.options.name}_weights.S", "-o", folder / "camera"]
    called(tool("g++", "apt install g++"), *_ON_CPU, f"-I{folder}", "-x", "c++", *sources, *weights)
    answered(called(folder / "camera", sample.ppm), sample)
    return Outcome("ran", "kernels in emulation")


def android(built: Built, sample: Sample) -> Outcome:
    """An AAR with the interface's class, and a library for the device's processor with pages of 16 KiB."""
    with zipfile.ZipFile(built.folder / "android" / f"{built.options.name}.aar") as aar:
        if aar.testzip() is not None or "classes.jar" not in aar.namelist():
            raise CheckError("the AAR is damaged, or has no classes")
        _library(aar, "jni", built)
    return Outcome("validated", "AAR: classes, library for the processor, pages of 16 KiB")


def apk(built: Built, sample: Sample) -> Outcome:
    path = built.folder / "android" / f"{built.options.name}.apk"
    called(tool("apksigner", INSTALL), "verify", path)
    with zipfile.ZipFile(path) as archive:
        if not {"classes.dex", "AndroidManifest.xml"} <= set(archive.namelist()):
            raise CheckError(f"the app holds {archive.namelist()}")
        _library(archive, "lib", built)
    return Outcome("validated", "apksigner verify; classes, manifest and library")


def _library(archive: zipfile.ZipFile, folder: str, built: Built) -> None:
    """Raises CheckError unless an archive has one library, for the device, that loads on pages of 16 KiB."""
    arch = built.options.device.arch
    libraries = [n for n in archive.namelist() if n.endswith(".so")]
    if libraries != [f"{folder}/{ABI[arch]}/lib{built.options.name}_jni.so"]:
        raise CheckError(f"the archive holds {libraries}")
    elf = archive.read(libraries[0])
    kind, bits = _MACHINES[arch]
    word, where, size_at, segment = ("<Q", 32, 54, "<IIQQQQQQ") if bits == 64 else ("<I", 28, 42, "<IIIIIIII")
    (machine,), (start,) = struct.unpack_from("<H", elf, 18), struct.unpack_from(word, elf, where)
    size, count = struct.unpack_from("<HH", elf, size_at)
    segments = [struct.unpack_from(segment, elf, start + k * size) for k in range(count)]
    aligned = [alignment % 16384 == 0 for what, *_, alignment in segments if what == 1]
    if elf[4] != bits // 32 or machine != kind or not aligned or not all(aligned):
        raise CheckError(f"the library is for machine {machine}, its segments aligned: {aligned}")


def packaged(app: str, built: Built, sample: Sample) -> Outcome:
    """The sources of a package, with the headers beside them; tests/apps/test_packages.py runs the examples."""
    folder = built.folder / APPS[app].package.format(name=built.options.name) / "src"
    by = objects(built.options.device, sorted(folder.glob("*.c")), folder)
    return Outcome("built", f"object files of the package; {by}")


def objects(device: Device, sources: Sequence[Path], headers: Path) -> str:
    """Compile sources for a device without an operating system, without warnings; the compiler in words."""
    compiler = pick_compiler(device, _RELATED.get(device.arch))
    flags = ["-Wall", "-Wextra", "-Werror", f"-I{headers}"]
    if device.arch != "riscv32":  # whose compiler has a library of its own
        flags += ["-isystem", str(newlib(load_device("cortex_m") if device.arch in _RELATED else device)[1])]
    with tempfile.TemporaryDirectory() as scratch:
        compile_objects(compiler, device, sources, Path(scratch), flags)
    return str(compiler)


PROGRAMS: Mapping[str, Callable[[Built, Sample], Outcome]] = {
    "pi": pi, "gstreamer": gstreamer, "onnxruntime": onnxruntime, "ros2": ros2, "embedded": embedded, "web": web,
    "jetson": jetson, "android": android, "apk": apk,
    **{name: partial(packaged, name) for name, app in APPS.items() if app.package},
}  # fmt: skip
