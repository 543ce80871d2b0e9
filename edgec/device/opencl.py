"""OpenCL on the machine edgec runs on."""

from __future__ import annotations

import ctypes
import os
from functools import cache

_ANY = 0xFFFFFFFF  # CL_DEVICE_TYPE_ALL
_EXTENSIONS = 0x1030  # CL_DEVICE_EXTENSIONS


def has_opencl() -> bool:
    """True if this machine has an OpenCL library with a device."""
    return extensions() is not None


@cache
def extensions() -> frozenset[str] | None:
    """Extensions of the first OpenCL device here; None if there is no device."""
    try:
        library = ctypes.CDLL(os.environ.get("EC_OPENCL_LIBRARY", "libOpenCL.so.1"))
        platforms, count = (ctypes.c_void_p * 16)(), ctypes.c_uint()
        if library.clGetPlatformIDs(16, platforms, ctypes.byref(count)) != 0:
            return None
        for platform in platforms[: count.value]:
            device, any_kind = ctypes.c_void_p(), ctypes.c_uint64(_ANY)
            if library.clGetDeviceIDs(ctypes.c_void_p(platform), any_kind, 1, ctypes.byref(device), None) == 0:
                text = ctypes.create_string_buffer(1 << 16)
                library.clGetDeviceInfo(device, _EXTENSIONS, ctypes.c_size_t(len(text)), text, None)
                return frozenset(text.value.decode(errors="replace").split())
    except (OSError, AttributeError):
        pass
    return None
