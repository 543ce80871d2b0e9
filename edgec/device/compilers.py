"""The compiler for a device, and whether its code runs in this process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgec.device.cuda import CudaCompiler, has_gpu, pick_cuda_compiler
from edgec.device.device import Device
from edgec.device.opencl import has_opencl
from edgec.device.probe import host_arch, probe_host
from edgec.device.toolchain import Compiler, pick_compiler
from edgec.errors import EdgecError, ToolchainError, UsageError

if TYPE_CHECKING:
    pass


def runs_here(device: Device, compiler: str | None = None) -> bool:
    """True if code compiled for a device can be loaded into this process."""

    if device.is_gpu and (compiler or "").startswith("emulated"):
        return True
    if (device.language == "cuda" and not has_gpu()) or (device.language == "opencl" and not has_opencl()):
        return False
    try:
        if not device.hosted or device.arch != host_arch():
            return False
    except EdgecError:
        return False
    return set(device.instruction_sets) <= set(probe_host().instruction_sets)


def compiler_for(device: Device, wanted: str | None) -> Compiler | CudaCompiler:
    """The compiler to use; raises ToolchainError, with what to install, when there is none.

    Raises UsageError for a device whose code is compiled where it runs.
    """
    if not device.is_compiled_here:
        raise UsageError(
            f"networks for '{device.name}' run in browsers alone, not here",
            hint="serve the folder web of a build (python -m http.server); --device wasm32 runs in Node.js too",
        )
    if device.language == "cuda":
        return pick_cuda_compiler(device, wanted)
    try:
        return pick_compiler(device, wanted)
    except ToolchainError as error:
        hint = f"{error.hint}; --no-compile writes the sources alone" if error.hint else None
        raise ToolchainError(error.message, hint=hint, where=error.where) from None
