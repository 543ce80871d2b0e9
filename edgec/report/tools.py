"""Programs and packages that features need: which feature, whether it is here, and the command that installs it."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import metadata

from edgec.device.apk import INSTALL as APK_TOOLS
from edgec.device.compilers import compiler_for
from edgec.device.cuda import INSTALL as CUDA_TOOLS
from edgec.device.cuda import has_gpu
from edgec.device.device import Device
from edgec.device.load import list_devices, load_device
from edgec.device.opencl import has_opencl
from edgec.errors import EdgecError


@dataclass(frozen=True)
class Need:
    """Something that may be missing: all of ``programs`` and ``packages``, or what ``look`` asks for."""

    name: str
    serves: str
    install: str
    programs: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    look: Callable[[], bool] | None = None
    is_optional: bool = True

    @property
    def missing(self) -> list[str]:
        """The names of what is not here."""
        absent = [p for p in self.programs if shutil.which(p) is None]
        absent += [p for p in self.packages if not _is_installed(p)]
        return absent or ([] if self.look is None or self.look() else [self.name])

    @property
    def found(self) -> str:
        """Places of the programs, and the versions of the packages."""
        places = [shutil.which(p) or "" for p in self.programs]
        return ", ".join([*places, *(_version(p) for p in self.packages)])


#: By what the user asks for: packages, then programs.
NEEDS: tuple[Need, ...] = (
    Need("numpy", "arrays", "pip install numpy", packages=("numpy",), is_optional=False),
    Need("onnx", "reading models", "pip install onnx", packages=("onnx",), is_optional=False),
    Need("onnxruntime", "edgec check, bench --vs onnxruntime", "pip install onnxruntime", packages=("onnxruntime",)),
    Need("tflite", "reading TensorFlow Lite models", "pip install 'edgec[tflite]'", packages=("tflite",)),
    Need("ai_edge_litert", "edgec check and bench --vs litert of TensorFlow Lite models", "pip install ai-edge-litert",
         packages=("ai_edge_litert",)),
    Need("ziglang", "a C compiler for this machine and for others; edgec wheel; --app android, apk, web",
         "pip install 'edgec[zig]'", packages=("ziglang",)),
    Need("cryptography", "edgec encrypt", "pip install 'edgec[encrypt]'", packages=("cryptography",)),
    Need("Pillow", "edgec samples of pictures", "pip install 'edgec[pictures]'", packages=("PIL",)),
    Need("distributed", "edgec device farm --scheduler", "pip install 'edgec[farm]'", packages=("distributed",)),
    Need("starlette", "edgec serve-lm", "pip install 'edgec[serve]'", packages=("starlette", "uvicorn")),
    Need(
        "scikit-learn", "edgec tune (trees that rank variants)", "pip install 'edgec[tune]'",
        packages=("sklearn", "threadpoolctl"),
    ),
    Need("scipy", "edgec build --over (integer programs)", "pip install 'edgec[ilp]'", packages=("scipy",)),
    Need("provers", "scalar identities of edgec rules prove", "pip install 'edgec[prove]'", packages=("sympy", "z3")),
    Need("llama-cpp-python", "bench --vs llama.cpp of language models", "pip install llama-cpp-python",
         packages=("llama_cpp",)),
    Need("onnxruntime-genai", "bench --vs onnxruntime-genai of language models", "pip install onnxruntime-genai",
         packages=("onnxruntime_genai",)),
    Need("openvino-genai", "bench --vs openvino-genai of language models", "pip install openvino-genai",
         packages=("openvino_genai", "openvino")),
    Need("torch", "edgec.from_torch and torch.compile; check and bench DIR --vs torch of a built training",
         "pip install 'edgec[torch]'", packages=("torch", "onnxscript")),
    Need("cmake", "the CMake project of every build; --app pi, jetson, onnxruntime; --bindings java",
         "apt install cmake", programs=("cmake",)),
    Need("GStreamer", "--app gstreamer", "apt install libgstreamer1.0-dev libgstreamer-plugins-base1.0-dev pkg-config "
         "gstreamer1.0-tools", programs=("pkg-config",), look=lambda: _has_gstreamer()),
    Need("colcon", "building the package of --app ros2", "install ROS 2", programs=("colcon",)),
    Need("cppcheck", "edgec evidence: rules of MISRA C", "apt install cppcheck", programs=("cppcheck",)),
    Need("make", "--app embedded", "apt install make", programs=("make",)),
    Need("pio", "building the project of --app platformio", "pip install platformio", programs=("pio",)),
    Need("arduino-cli", "using --app arduino without the IDE", "install Arduino CLI", programs=("arduino-cli",)),
    Need("idf.py", "building the project of --app esp-idf", "install ESP-IDF", programs=("idf.py",)),
    Need("west", "building the sample of --app zephyr", "pip install west, and Zephyr", programs=("west",)),
    Need("cpackget", "using --app cmsis-pack without an IDE", "install CMSIS-Toolbox", programs=("cpackget",)),
    Need("cargo", "--bindings rust", "apt install cargo", programs=("cargo",)),
    Need("javac", "--app android, apk; --bindings java", "apt install default-jdk-headless",
         programs=("javac", "keytool")),
    Need("gradle", "building the project of --app android whole", "apt install gradle, or Android Studio",
         programs=("gradle",)),
    Need("Android's tools", "--app apk", APK_TOOLS, programs=("smali", "aapt2", "apksigner")),
    Need("adb", "--link adb: phones", "apt install adb", programs=("adb",)),
    Need("ssh", "--link ssh: boards in the network", "apt install openssh-client", programs=("ssh", "scp")),
    Need("node", "--link node: what is built for wasm32", "apt install nodejs (20 or newer)", programs=("node",)),
    Need("qemu for programs", "--link qemu: Arm and RISC-V processors with Linux", "apt install qemu-user",
         programs=("qemu-aarch64", "qemu-arm", "qemu-riscv64")),
    Need("qemu for boards", "--link board: Cortex-M", "apt install qemu-system-arm", programs=("qemu-system-arm",)),
    Need("g++", "--compiler emulated: kernels for CUDA without a GPU", "apt install g++", programs=("g++",)),
    Need("nvcc", "compiling for NVIDIA GPUs and Jetsons", CUDA_TOOLS, look=lambda: _has_nvcc()),
    Need("an NVIDIA GPU", "running what is built for CUDA here", "install NVIDIA's driver, or take --compiler emulated",
         look=has_gpu),
    Need("ncu", "inspect --counted: bytes by the counters of an NVIDIA GPU", CUDA_TOOLS, programs=("ncu",)),
    Need("an OpenCL driver", "--device host_pocl, generic_opencl and other GPUs through OpenCL here",
         "apt install pocl-opencl-icd ocl-icd-libopencl1", look=has_opencl),
)  # fmt: skip


def compilers_of_devices() -> list[Need]:
    """A row for each kind of compiler that device files name, with the devices that it serves."""
    groups: dict[str, list[Device]] = {}
    for device in list_devices():
        if device.toolchain.gcc_target:
            groups.setdefault(device.toolchain.gcc_target, []).append(device)
    return [_compiler(target, devices) for target, devices in sorted(groups.items())]


def _compiler(target: str, devices: Iterable[Device]) -> Need:
    names = [d.name for d in devices]
    package = f"apt install gcc-{target.replace('_', '-')}"
    install = {"arm-none-eabi": f"{package} libnewlib-arm-none-eabi"}.get(target, f"{package}, or pip install ziglang")

    def look() -> bool:
        return any(_builds(name) for name in names) and (
            target != "arm-none-eabi" or bool(shutil.which(f"{target}-gcc"))
        )

    return Need(f"a compiler for {target}", f"devices {', '.join(names)}", install, look=look)


def _builds(device: str) -> bool:
    try:
        found = load_device(device)
        return found.language != "cuda" and bool(compiler_for(found, None))
    except EdgecError:
        return False


def _has_nvcc() -> bool:
    try:
        return bool(compiler_for(load_device("cuda_sm90"), None))
    except EdgecError:
        return False


def _has_gstreamer() -> bool:
    wanted = ["pkg-config", "--exists", "gstreamer-1.0", "gstreamer-base-1.0", "gstreamer-video-1.0"]
    return subprocess.run(wanted, check=False).returncode == 0


def _is_installed(package: str) -> bool:
    try:
        return importlib.util.find_spec(package) is not None
    except (ImportError, ValueError):
        return False


def _version(package: str) -> str:
    names = metadata.packages_distributions().get(package, [package])
    try:
        return metadata.version(names[0])
    except metadata.PackageNotFoundError:
        return "version unknown"
