"""Error of the vector mathematics of ec_simd.h, over all floats.

    python -m benchmarks.cpu.ulp --write docs/results/vector-math.md
    python -m benchmarks.cpu.ulp --stride 1531 exp tanh

Every function of one argument is called with all 2^32 floats (or every STRIDE-th), in a build for each instruction set
that this machine runs, and compared with the C library's in double precision; pow with as many random pairs. The exit
code is 1 when an error is beyond the bound that is stated for it. A build takes some minutes, sin and cos most of them.
"""

from __future__ import annotations

import argparse
import ctypes
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.pool import ThreadPool
from pathlib import Path

import numpy as np

from edgec.device.load import load_device
from edgec.device.toolchain import pick_compiler

HERE = Path(__file__).resolve().parent
RUNTIME = HERE.parent / "codegen_templates" / "runtime"
#: How each build is compiled, and what the processor needs for it.
BUILDS = {
    "AVX-512": (["-mavx512f", "-mavx512dq", "-mavx512bw", "-mavx512vl", "-mfma"], "avx512vl"),
    "AVX2": (["-mavx2", "-mfma"], "avx2"),
    "no FMA": ([], ""),
}


@dataclass(frozen=True)
class Bound:
    """Stated error bound of a function.

    ``fused`` and ``plain`` are ULP of the correctly rounded result, with fused multiply-add and without it, where the
    result is at least ``tiny``; below it, where results may be flushed to zero, the error is at most ``absolute``.
    ``table`` is the bound where AVX-512 has a table in a register.
    """

    fused: float
    plain: float
    tiny: float = 0.0
    absolute: float = 0.0
    table: float | None = None

    def of(self, lanes: int, is_fused: bool) -> float:
        if lanes == 16 and self.table is not None:
            return self.table
        return self.fused if is_fused else self.plain


BOUNDS = {
    "exp": Bound(1.1, 1.1, 2.0**-125, 1.7e-38),
    "expm1": Bound(1.5, 1.6),
    "log": Bound(0.9, 0.9),
    "log1p": Bound(0.9, 0.9),
    "tanh": Bound(6.0, 7.0),
    "sigmoid": Bound(3.2, 3.2, 2.0**-125, 1.7e-38),
    "silu": Bound(3.2, 3.2, 2.0**-120, 3e-37),
    "softplus": Bound(2.8, 2.8, 2.0**-125, 1.7e-38),
    "erf": Bound(6.0, 7.5, table=2.3),
    "sin": Bound(2.5, 3.0),
    "cos": Bound(2.5, 3.0),
}
#: Of powers within 1e-7 ... 1e7, with fused multiply-add and without, and of all others that are normal numbers.
POW, POW_PLAIN, POW_FAR = 3.0, 3.5, 20.0
ALL = 1 << 32
PART = 1 << 26


class Worst(ctypes.Structure):
    """Result of ulp.c for a range; see there."""

    _fields_ = (
        ("ulp", ctypes.c_double), ("absolute", ctypes.c_double),
        ("at", ctypes.c_uint32), ("absolute_at", ctypes.c_uint32), ("wrong", ctypes.c_uint64),
    )  # fmt: skip


@dataclass(frozen=True)
class Found:
    """The worst of a function in a build: ULP, the argument; absolute error below ``tiny``; results of another kind."""

    ulp: float
    at: float
    absolute: float
    wrong: int


def library(build: str, folder: Path) -> ctypes.CDLL:
    """The functions and what measures them, compiled for an instruction set."""
    compiler, output = pick_compiler(load_device("host")), folder / f"{build.replace(' ', '_')}.so"
    flags, shared = BUILDS[build][0], ["-fPIC", "-std=gnu11"]
    fast = [*shared, "-O3", "-march=native", "-ffast-math", "-c", HERE / "ulp_reference.c", "-o", folder / "r.o"]
    subprocess.run([*compiler.command, *map(str, fast)], check=True)
    sources = ["-shared", f"-I{RUNTIME}", HERE / "ulp.c", folder / "r.o", "-o", output, "-lmvec", "-lm"]
    whole = [*shared, "-O3", "-fno-trapping-math", "-fno-math-errno", *flags, *sources]
    subprocess.run([*compiler.command, *map(str, whole)], check=True)
    return ctypes.CDLL(str(output))


def measure(functions: ctypes.CDLL, name: str, stride: int, threads: int) -> Found:
    """The worst of a function over every ``stride``-th float."""
    tiny = 1e-7 if name == "pow" else BOUNDS[name].tiny
    call = functions[f"measure_{name}"]
    call.argtypes = [ctypes.c_uint64] * 3 + [ctypes.c_double, ctypes.POINTER(Worst)]
    call.restype = None

    def part(first: int) -> Worst:
        worst = Worst()
        start = -(-first // stride) * stride
        call(start, first + PART, stride, tiny, ctypes.byref(worst))
        return worst

    with ThreadPool(threads) as pool:
        parts = pool.map(part, range(0, ALL, PART), chunksize=1)
    worst = max(parts, key=lambda w: w.ulp)
    at = float(np.array([worst.at], np.uint32).view(np.float32)[0])
    return Found(worst.ulp, at, max(w.absolute for w in parts), sum(w.wrong for w in parts))


def is_within(name: str, found: Found, lanes: int, is_fused: bool) -> bool:
    if name == "pow":
        return found.ulp <= (POW if is_fused else POW_PLAIN) and found.absolute <= POW_FAR and not found.wrong
    bound = BOUNDS[name]
    return found.ulp <= bound.of(lanes, is_fused) and found.absolute <= bound.absolute and not found.wrong


def stated(name: str) -> str:
    if name == "pow":
        return f"{POW:g}, {POW_PLAIN:g} without FMA, within 1e-7 ... 1e7; {POW_FAR:g} beyond"
    b = BOUNDS[name]
    text = f"{b.fused:g}" + (f", {b.plain:g} without FMA" if b.plain != b.fused else "")
    text += f", {b.table:g} with AVX-512" if b.table is not None else ""
    return text + (f"; {b.absolute:g} below {b.tiny:.2g}" if b.tiny else "")


def main(arguments: Sequence[str] | None = None) -> int:
    p = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    p.add_argument("functions", nargs="*", metavar="FUNCTION", help=f"of {', '.join([*BOUNDS, 'pow'])}")
    p.add_argument("--builds", nargs="+", choices=list(BUILDS), default=list(BUILDS))
    p.add_argument(
        "--stride", type=int, nargs="+", default=[1], help="take every so-many-th float; of all builds, or each"
    )
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--write", type=Path, metavar="FILE", help="write the page")
    o = p.parse_args(arguments)
    names = o.functions or [*BOUNDS, "pow"]
    cpuinfo = Path("/proc/cpuinfo")
    has = cpuinfo.read_text() if cpuinfo.exists() else ""
    rows: dict[str, list[str]] = {name: [f"`ec_{name}`", stated(name)] for name in names}
    strides = dict(zip(o.builds, o.stride * len(o.builds) if len(o.stride) == 1 else o.stride, strict=True))
    fine, builds = True, [b for b in o.builds if BUILDS[b][1] in has]
    with tempfile.TemporaryDirectory(prefix="edgec-ulp-") as folder:
        for build in builds:
            functions = library(build, Path(folder))
            for name in names:
                begun = time.monotonic()
                found = measure(functions, name, strides[build], o.threads)
                good = is_within(name, found, 16 if build == "AVX-512" else 4, build != "no FMA")
                fine &= good
                rows[name].append(f"{found.ulp:.2f}" + (f" / {found.absolute:.2g}" if found.absolute else ""))
                text = f"{build:8} {name:9} {found.ulp:7.3f} ULP at {found.at!r:24} {found.absolute:9.3g}"
                verdict = "" if good else "BEYOND THE BOUND, "
                print(f"{text} {found.wrong} wrong, {verdict}{time.monotonic() - begun:.0f} s", flush=True)
    if o.write:
        o.write.write_text(page(list(rows.values()), {b: strides[b] for b in builds}))
    return 0 if fine else 1


def page(rows: Sequence[Sequence[str]], strides: Mapping[str, int]) -> str:
    heads = [f"{b}, all floats" if s == 1 else f"{b}, every {s}th" for b, s in strides.items()]
    lines = ["| function | bound, ULP | " + " | ".join(heads) + " |", "|---|---|" + "---:|" * len(heads)]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return f"""\
# Vector mathematics

Written by
`python -m benchmarks.cpu.ulp --stride {" ".join(map(str, strides.values()))} --write docs/results/vector-math.md`.

`ec_simd.h` contains the vector functions that networks use, once for all instruction sets, without lookup tables and
without branches. The error is the distance from the true value in units in the last place (ULP) of the correctly
rounded result; correct rounding has at most half an ULP. The table has the bound stated in the header, and the largest
error over all 2^32 floats, or as many as its head states, compared with the C library in double precision. `pow` is
called with as many random pairs whose power is a normal number. Where a result is so small that it may be flushed to
zero, the bound is absolute, and so is the number after the slash (for `pow` it is the ULP of the results beyond 1e-7
... 1e7). NaN and infinities occur exactly where required. NEON has the same formulas as AVX2.

{chr(10).join(lines)}

`tests/runtime/test_simd.py` tests every build against the same bounds at every 1531st float, at the special values, and
in the lanes next to them, with gcc and with clang.
"""


if __name__ == "__main__":
    sys.exit(main())
