"""The compiled part of the analysis: C for this processor, which is compiled once and kept in the compile cache."""

from __future__ import annotations

import ctypes
import hashlib
import tempfile
from functools import cache
from pathlib import Path

from edgec.artifact.cache import compile_cache
from edgec.device.probe import probe_host
from edgec.device.toolchain import LANGUAGE_FLAGS, compile_shared, device_flags, pick_compiler
from edgec.errors import EdgecError
from edgec.resources import data_folder

_SOURCE = Path("bounds") / "backward.c"
_LIBRARY = "backward.so"


@cache
def library() -> ctypes.CDLL | None:
    """The functions of `codegen_templates/bounds/backward.c`; None where no compiler is found for this machine."""
    source = data_folder("codegen_templates") / _SOURCE
    device = probe_host()
    try:
        compiler = pick_compiler(device)
        flags = (repr(device), str(compiler), *LANGUAGE_FLAGS, *device_flags(compiler, device))
        key = hashlib.sha256("\0".join((*flags, source.read_text("utf-8"))).encode()).hexdigest()
        kept = compile_cache()
        with tempfile.TemporaryDirectory(prefix="edgec-certify-") as folder:
            if kept is None or not kept.take(key, Path(folder)):
                compile_shared(compiler, device, [source], Path(folder) / _LIBRARY)
                if kept is not None:
                    kept.keep(key, Path(folder))
            return ctypes.CDLL(str(Path(folder) / _LIBRARY))
    except (EdgecError, OSError):
        return None
