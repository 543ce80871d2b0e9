"""The runtime files of a project: those that its device uses, with function names that no other project has."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from edgec.device.device import Device

_SIMD = ("ec_simd.h", "ec_simd_integer.h", "ec_simd_codes.h", "ec_simd_panels.h")
_PROTOTYPE = re.compile(r"^(?!static|typedef|#|extern)\w[\w *]*?\b(ec_\w+)\(", re.MULTILINE)
_GUARD = re.compile(r"#define (EC_\w+_H)\n")


def runtime_files(paths: Iterable[Path], device: Device, prefix: str, has_pool: bool) -> dict[str, bytes]:
    """Files by name, the last of each: of the vectors those of the device, and the thread pool if there is one."""
    simd = simd_headers(device)
    found = {p.name: p.read_text("utf-8") for p in paths if not p.name.startswith("ec_simd") or p.name in simd}
    if not has_pool:
        found.pop("ec_pool.c", None)
    return {name: text.encode() for name, text in own_names(found, prefix).items()}


def simd_headers(device: Device) -> frozenset[str]:
    """The headers that ``ec_simd.h`` includes when it is compiled for a device."""
    return frozenset((*_SIMD, *(f"ec_simd_{part}.h" for part in _parts(device))))


def _parts(device: Device) -> tuple[str, ...]:
    if device.arch == "x86_64" and not any(flag.startswith("-m") for flag in device.toolchain.cflags):
        return ("generic", "half")  # whatever the processor has, compilers are told of none of it
    if device.has("avx512f", "avx512dq", "avx512bw", "avx512vl"):
        return ("avx512",)
    if device.has("avx2", "fma"):
        return ("avx2", "half")
    if device.has("sve") and device.vector_lanes > 4:
        return ("sve",)
    blocks = () if device.has("dotprod") else ("neon_blocks",)
    if device.arch == "aarch64" and device.has("neon"):
        return ("neon", "neon_integer", *blocks, "neon_halves", "neon_matrix")
    if device.has("simd128"):
        return ("wasm", "half")
    if device.has("mve"):
        return ("generic", "helium", "half")
    return ("generic", "half", *(("neon_integer", *blocks) if device.has("neon") else ()))


def own_names(files: Mapping[str, str], prefix: str) -> dict[str, str]:
    """Modules (a header and a source) whose functions have the prefix of the network when they are compiled.

    Two networks link into one program then, and the functions keep their names in C that includes the header.
    """
    found = dict(files)
    for name, text in files.items():
        if name.endswith(".h") and f"{name[:-1]}c" in files:
            functions = _PROTOTYPE.findall(re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL))
            lines = [f"#define {function} {prefix}_{function}\n" for function in functions]
            about = f"\n/* In the library, functions begin with {prefix}: two networks link into one program. */\n"
            end = guard.end() if (guard := _GUARD.search(text)) else 0
            found[name] = _exported("".join([text[:end], about, *lines, text[end:]]))
    return found


def _exported(header: str) -> str:
    """A header whose functions other programs see, in a library that hides the rest."""
    body, end = header.rstrip().rsplit("#endif", 1)
    before = re.finditer(r"^#(include .*|define EC_\w+_H)\n", body, re.MULTILINE)
    at = max(m.end() for m in before)
    push, pop = (f"#ifdef __GNUC__\n#pragma GCC visibility {what}\n#endif\n" for what in ("push(default)", "pop"))
    return f"{body[:at]}\n{push}{body[at:]}{pop}\n#endif{end}\n"
