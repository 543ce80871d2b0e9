"""Products of two matrices in fp32 on one thread, as `edgec kernel` makes them, beside the libraries for that.

    python -m benchmarks.cpu.products [--rounds 30] [--xsmm libxsmm.so] [--write PAGE] [MxNxK ...]

Both factors are operands in memory, none is packed before. Calls are made and timed in C, in blocks; edgec and its
peers take turns, and the least of all rounds counts. Peers are what can be loaded: OpenBLAS (`pip install
scipy-openblas32`), oneDNN (`pip install onednn-cpu-gomp`), and libxsmm, built by its own Makefile. Results are held
against numpy's in double precision.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date
from importlib import metadata
from pathlib import Path

os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}

import numpy as np

import edgec
from benchmarks.table import geometric_mean, markdown
from benchmarks.training.machine import processor
from edgec.frontend.formula import graph_of

#: Rows, columns, depth: small squares, one vector, layers of transformers and convolutions at batch 1, large squares.
SHAPES = (
    "16x16x16", "32x32x32", "64x64x64", "100x100x100", "1x768x768", "1x4096x1024", "8x512x512", "16x1024x1024",
    "128x312x312", "128x1200x312", "128x768x768", "128x3072x768", "128x768x3072", "197x192x768", "197x768x192",
    "784x128x512", "3136x64x576", "196x256x2304", "512x512x512", "1024x1024x1024",
)  # fmt: skip
FORMULA = "f32 y[m,n] = sum(k) a[m,k] * b[k,n]"
#: Seconds of one block of calls.
BLOCK = 0.004

#: Times of calls, for functions of each interface; matrices lie row by row.
TIMER = r"""
#include <time.h>
typedef int (*ours)(const void *, void *, const float *, const float *, float *);
typedef void (*cblas)(int, int, int, int, int, int, float, const float *, int, const float *, int, float, float *, int);
typedef int (*onednn)(char, char, long, long, long, float, const float *, long, const float *, long, float, float *,
                      long);
typedef void (*blas)(const char *, const char *, const int *, const int *, const int *, const float *, const float *,
                     const int *, const float *, const int *, const float *, float *, const int *);
static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}
double timed(int kind, void *function, void *weights, void *arena, int m, int n, int k, const float *a, const float *b,
             float *y, int calls) {
  const float one = 1, zero = 0;
  const double begin = now();
  for (int i = 0; i < calls; ++i) {
    if (kind == 0) ((ours)function)(weights, arena, a, b, y);
    if (kind == 1) ((cblas)function)(101, 111, 111, m, n, k, 1, a, k, b, n, 0, y, n);
    if (kind == 2) ((onednn)function)('N', 'N', m, n, k, 1, a, k, b, n, 0, y, n);
    if (kind == 3) ((blas)function)("N", "N", &n, &m, &k, &one, b, &n, a, &k, &zero, y, &n);
  }
  return (now() - begin) / calls;
}
"""


@dataclass(frozen=True)
class Library:
    """A function for products, with the number of its interface in `TIMER`."""

    name: str
    kind: int
    function: int


def file_of(package: str, name: str) -> Path | None:
    """A shared library that an installed package brings; None where it is not installed."""
    try:
        files = metadata.files(package) or []
    except metadata.PackageNotFoundError:
        return None
    return next((Path(str(f.locate())).resolve() for f in files if f.name.startswith(name)), None)


def peers(xsmm: Path | None) -> Iterator[Library]:
    """Libraries that can be loaded; the error stream names the others."""
    found = (
        ("OpenBLAS", 1, "scipy_cblas_sgemm", file_of("scipy-openblas32", "libscipy_openblas"), "scipy-openblas32"),
        ("oneDNN", 2, "dnnl_sgemm", file_of("onednn-cpu-gomp", "libdnnl.so"), "onednn-cpu-gomp"),
        ("libxsmm", 3, "libxsmm_sgemm", xsmm, "libxsmm"),
    )
    for name, kind, symbol, path, package in found:
        if path is None:
            print(f"without {name}: {package} is not there", file=sys.stderr)
            continue
        version = metadata.version(package) if package != "libxsmm" else ""
        yield Library(f"{name} {version}".strip(), kind, address(getattr(ctypes.CDLL(str(path)), symbol)))


def address(function: object) -> int:
    found = ctypes.cast(function, ctypes.c_void_p).value  # type: ignore[arg-type]
    assert found is not None
    return found


def timer(folder: Path) -> Callable[..., float]:
    """The function of `TIMER`."""
    (folder / "timer.c").write_text(TIMER)
    subprocess.run(["gcc", "-O2", "-shared", "-fPIC", "-o", "timer.so", "timer.c"], cwd=folder, check=True)
    timed = ctypes.CDLL(str(folder / "timer.so")).timed
    timed.restype = ctypes.c_double
    pointers = [ctypes.c_int, *[ctypes.c_void_p] * 3, *[ctypes.c_int] * 3, *[ctypes.c_void_p] * 3, ctypes.c_int]
    timed.argtypes = pointers
    result: Callable[..., float] = timed
    return result


def aligned(*shape: int) -> np.ndarray:
    """Floats at a multiple of 64 bytes."""
    bytes_ = int(np.prod(shape)) * 4
    whole = np.zeros(bytes_ + 64, np.uint8)
    begin = -whole.ctypes.data % 64
    return whole[begin : begin + bytes_].view(np.float32).reshape(shape)


def measure(
    shape: str, libraries: list[Library], timed: Callable[..., float], folder: Path, rounds: int
) -> list[float]:
    """Microseconds of a call: edgec's, and those of every library."""
    m, n, k = map(int, shape.split("x"))
    graph = graph_of(FORMULA, {"m": m, "n": n, "k": k})
    edgec.build(graph, folder / shape, start="simplify", name="product", threads=1)
    own = ctypes.CDLL(str(folder / shape / "libproduct.so"))
    header = (folder / shape / "product.h").read_text()
    arena_bytes = int(header.partition("PRODUCT_ARENA_BYTES ((size_t)")[2].partition(")")[0])
    random = np.random.default_rng(m + n + k)
    a, b, y, arena = aligned(m, k), aligned(k, n), aligned(m, n), aligned(arena_bytes // 4 + 16)
    a[...], b[...] = random.standard_normal((m, k)), random.standard_normal((k, n))
    want = a.astype(np.float64) @ b
    weights = ctypes.addressof(ctypes.c_char.in_dll(own, "product_weights"))
    every = [Library("edgec", 0, address(own.product_run)), *libraries]
    sizes, operands = (m, n, k), [x.ctypes.data for x in (a, b, y)]

    def run(library: Library, calls: int) -> float:
        return timed(library.kind, library.function, weights, arena.ctypes.data, *sizes, *operands, calls)

    counts = []
    for library in every:
        y[...] = np.nan
        run(library, 1)
        error = float(np.abs(y - want).max() / np.abs(want).max())
        assert error < 1e-5, f"{library.name}, {shape}: {error}"
        counts.append(max(1, round(BLOCK / run(library, 3))))
    times = [[run(library, count) for library, count in zip(every, counts)] for _ in range(rounds)]
    return [1e6 * min(column) for column in zip(*times)]


def drawn(rows: dict[str, list[float]], names: list[str], command: str) -> str:
    """The page."""
    body, ratios = [], []
    for shape, (own, *theirs) in rows.items():
        m, n, k = map(int, shape.split("x"))
        best = min(theirs)
        ratios.append(best / own)
        numbers = [f"{us:.3g}" for us in (own, *theirs)]
        body.append([shape.replace("x", " x "), *numbers, f"{2e-3 * m * n * k / own:.0f}", f"{best / own:.2f}"])
    behind = sum(ratio < 1 for ratio in ratios)
    head = [
        "rows x columns x depth",
        "edgec, us",
        *(f"{name}, us" for name in names),
        "GFLOP/s",
        "best library / edgec",
    ]
    means = [f"{name}: {geometric_mean([t[1 + i] / t[0] for t in rows.values()]):.2f}" for i, name in enumerate(names)]
    return f"""# Products of two matrices

Written by `{command}` on {date.today()}, {processor()}, one thread.

`{FORMULA}` by `edgec kernel`, in fp32, beside the libraries for that: microseconds of a call, the least of many rounds
in turns. Both factors are operands in memory, and none is packed before the call. Each call is made from C.

Time of a library over edgec's in geometric mean: {", ".join(means)}. Beside the best library of each shape:
**{geometric_mean(ratios):.2f}** ({min(ratios):.2f} to {max(ratios):.2f}), slower on {behind} of {len(ratios)}.

{markdown(head, body)}
"""


def main() -> None:
    p = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    p.add_argument("shapes", nargs="*", metavar="MxNxK")
    p.add_argument("--rounds", type=int, default=30)
    p.add_argument("--write", type=Path)
    p.add_argument("--xsmm", type=Path, help="libxsmm.so")
    options = p.parse_args()
    libraries = list(peers(options.xsmm))
    rows = {}
    with tempfile.TemporaryDirectory() as name:
        timed = timer(Path(name))
        for shape in options.shapes or SHAPES:
            rows[shape] = measure(shape, libraries, timed, Path(name), options.rounds)
            print(shape, *(f"{us:.3f}" for us in rows[shape]), flush=True)
    command = f"python -m benchmarks.cpu.products --rounds {options.rounds}"
    command += " --xsmm libxsmm.so" * bool(options.xsmm) + (f" --write {options.write}" if options.write else "")
    page = drawn(rows, [library.name for library in libraries], command)
    if options.write:
        options.write.write_text(page, encoding="utf-8")
    else:
        print(page)


if __name__ == "__main__":
    main()
