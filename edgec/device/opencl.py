"""OpenCL on the machine edgec runs on."""

from __future__ import annotations

import ctypes
import os
from functools import cache

_ANY = 0xFFFFFFFF  # CL_DEVICE_TYPE_ALL


@cache
def has_opencl() -> bool:
    """Whether there is an OpenCL library here, and a device behind it."""
    try:
        library = ctypes.CDLL(os.environ.get("EC_OPENCL_LIBRARY", "libOpenCL.so.1"))
        platforms, count = (ctypes.c_void_p * 16)(), ctypes.c_uint()
        if library.clGetPlatformIDs(16, platforms, ctypes.byref(count)) != 0:
            return False
        for platform in platforms[: count.value]:
            found = ctypes.c_uint()
            library.clGetDeviceIDs(ctypes.c_void_p(platform), ctypes.c_uint64(_ANY), 0, None, ctypes.byref(found))
            if found.value:
                return True
    except (OSError, AttributeError):
        pass
    return False
