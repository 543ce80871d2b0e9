"""Kernels through NVRTC, NVIDIA's compiler as a library: wheels of CUDA 12 still know GPUs that nvcc 13 does not.

    pip download --no-deps nvidia-cuda-nvrtc-cu12==12.9.* nvidia-cuda-runtime-cu12==12.9.*

It makes machine code for a kernel, not a program, and has no headers of a C library: what kernels need of those is
here.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from pathlib import Path

from edgec.device.cuda import KernelReport, kernel_reports
from edgec.device.device import Device
from edgec.errors import ToolchainError

HEADERS = {
    "stdint.h": "#pragma once\n"
    + "".join(
        f"typedef {'signed ' * (c == 'char')}{c} int{bits}_t;\ntypedef unsigned {c} uint{bits}_t;\n"
        for bits, c in ((8, "char"), (16, "short"), (32, "int"), (64, "long long"))
    )
    + "typedef unsigned long long uintptr_t;\n#define INT8_MIN (-128)\n#define INT8_MAX 127\n#define UINT8_MAX 255\n"
    + "#define INT16_MIN (-32768)\n#define INT16_MAX 32767\n#define UINT16_MAX 65535\n"
    + "#define INT32_MIN (-2147483647 - 1)\n#define INT32_MAX 2147483647\n#define UINT32_MAX 4294967295u\n"
    + "#define INT64_MIN (-9223372036854775807LL - 1)\n#define INT64_MAX 9223372036854775807LL\n"
    + "#define UINT64_MAX 18446744073709551615ULL\n",
    "stddef.h": "#pragma once\n",
    "string.h": "#pragma once\n",
    "math.h": "#pragma once\n#define INFINITY __int_as_float(0x7f800000)\n#define NAN __int_as_float(0x7fffffff)\n",
}  # fmt: skip


class Nvrtc:
    """The library of an unpacked wheel: ``folder`` holds ``nvidia/cuda_nvrtc`` and ``nvidia/cuda_runtime``."""

    def __init__(self, folder: Path) -> None:
        self._include = folder / "nvidia" / "cuda_runtime" / "include"
        try:
            self._library = ctypes.CDLL(str(folder / "nvidia" / "cuda_nvrtc" / "lib" / "libnvrtc.so.12"))
        except OSError as error:
            raise ToolchainError(f"no NVRTC: {error}", where=str(folder)) from None

    def compile(self, source: Path, device: Device) -> list[KernelReport]:
        """ptxas's reports on the kernels of a source; raises ToolchainError for one that it refuses."""
        program = ctypes.c_void_p()
        names, texts = zip(*((name.encode(), text.encode()) for name, text in HEADERS.items()))
        strings = ctypes.c_char_p * len(HEADERS)
        text, called = source.read_bytes(), source.name.encode()
        self._library.nvrtcCreateProgram(
            ctypes.byref(program), text, called, len(HEADERS), strings(*texts), strings(*names)
        )
        options = list(self._options(source.parent, device))
        failed = self._library.nvrtcCompileProgram(
            program, len(options), (ctypes.c_char_p * len(options))(*map(str.encode, options))
        )
        size = ctypes.c_size_t()
        self._library.nvrtcGetProgramLogSize(program, ctypes.byref(size))
        log = ctypes.create_string_buffer(size.value)
        self._library.nvrtcGetProgramLog(program, log)
        self._library.nvrtcDestroyProgram(ctypes.byref(program))
        said = log.value.decode(errors="replace")
        if failed:
            raise ToolchainError(f"NVRTC refused it\n    {said[:1500]}", where=str(source))
        return kernel_reports(said)

    def _options(self, folder: Path, device: Device) -> Iterator[str]:
        yield f"--gpu-architecture=sm_{device.cuda_architecture}"
        yield from ("--std=c++17", "--ptxas-options=-v", "-w", f"-I{folder}", f"-I{self._include}")
