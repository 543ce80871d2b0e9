"""ec_simd.h against float64 numpy: every function, over all exponents, in every build.

A build is a compiler with flags; the same shim is compiled for each and loaded through ctypes.
The bounds are those of benchmarks/cpu/ulp.py, which takes all floats.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import math
import mmap
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from benchmarks.cpu.ulp import BOUNDS, POW, POW_FAR, POW_PLAIN

Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]

HERE = Path(__file__).parent
RUNTIME = HERE.parents[1] / "codegen_templates" / "runtime"
CC = [c for c in map(shutil.which, ["cc", "gcc", "clang"]) if c][:1]
ZIG = [sys.executable, "-m", "ziglang", "cc"] if importlib.util.find_spec("ziglang") else []
STRICT = ["-std=c11", "-Wall", "-Wextra", "-Werror", f"-I{RUNTIME}"]

BUILDS = {
    "native": (CC, ["-O2", "-march=native"]),
    "native-O0": (CC, ["-O0", "-march=native"]),
    "avx2": (CC, ["-O2", "-mavx2", "-mfma"]),
    "baseline": (CC, ["-O2"]),
    "zig": (ZIG, ["-O2"]),
    "zig-baseline": (ZIG, ["-O2", "-mcpu=baseline"]),
}


def runs_here(build: str) -> bool:
    cpuinfo = Path("/proc/cpuinfo")
    return build != "avx2" or (cpuinfo.exists() and " avx2 " in cpuinfo.read_text())


class Shim:
    """The shim of one build. Arrays go in and come out as float32."""

    def __init__(self, path: Path) -> None:
        self.library = ctypes.CDLL(str(path))
        self.lanes = int(self.library.lanes())
        self.fused = bool(self.library.fused())

    def call(self, name: str, *arguments: object) -> None:
        self.library[name](*[address(a) if isinstance(a, np.ndarray) else a for a in arguments])

    def map(self, name: str, *inputs: Floats) -> Floats:
        y = np.empty_like(inputs[0])
        self.call(f"map_{name}", *inputs, y, ctypes.c_int64(y.size))
        return y

    def vector(self, name: str, *arguments: object) -> Floats:
        y = np.full(self.lanes, 77, np.float32)
        self.call(name, *arguments, y)
        return y


def address(a: NDArray[np.generic]) -> ctypes.c_void_p:
    return ctypes.c_void_p(a.ctypes.data)


def f32(*values: float) -> Floats:
    return np.array(values, np.float32)


@pytest.fixture(scope="module", params=BUILDS)
def shim(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Shim:
    compiler, flags = BUILDS[request.param]
    if not compiler or not runs_here(request.param):
        pytest.skip(f"no compiler or processor for {request.param}")
    path = tmp_path_factory.mktemp("simd") / "shim.so"
    files = [str(HERE / "simd_shim.c"), "-o", str(path), "-lm"]
    subprocess.run([*compiler, *flags, *STRICT, "-shared", "-fPIC", *files], check=True)
    return Shim(path)


@functools.cache
def samples() -> Floats:
    """Every 1531st float, thousands to a binade, and more where networks live."""
    rng = np.random.default_rng(0)
    bits = np.arange(0, 2**32, 1531, dtype=np.uint64).astype(np.uint32)
    wide, usual = rng.uniform(-110, 110, 400_000), rng.normal(0, 4, 600_000)
    x: Floats = np.concatenate([bits.view(np.float32), wide, usual], dtype=np.float32)
    return np.ascontiguousarray(x[~np.isnan(x)])


# ---- The mathematical functions ---------------------------------------------------------------


def reference_erf(x: Doubles) -> Doubles:
    return np.fromiter(map(math.erf, x.tolist()), np.float64, x.size)


REFERENCES: dict[str, Callable[[Doubles], Doubles]] = {
    "exp": np.exp,
    "expm1": np.expm1,
    "log": np.log,
    "log1p": np.log1p,
    "tanh": np.tanh,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "silu": lambda x: x / (1 + np.exp(-x)),
    "softplus": lambda x: np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x))),
    "erf": reference_erf,
    "sin": np.sin,
    "cos": np.cos,
}


@functools.cache
def expected(name: str) -> Doubles:
    with np.errstate(all="ignore"):
        return REFERENCES[name](samples().astype(np.float64))


def assert_close(x: Floats, got: Floats, want: Doubles, ulps: float, absolute: float = 0) -> None:
    with np.errstate(all="ignore"):
        rounded = want.astype(np.float32)
        ulp = np.spacing(np.abs(rounded)).astype(np.float64)
        error = np.abs(got.astype(np.float64) - want)
        right = (got == rounded) | (np.isnan(got) & np.isnan(rounded))
        excess = np.where(right, 0, (error - absolute) / ulp)
    excess = np.where(np.isnan(excess), np.inf, excess)
    worst = int(excess.argmax())
    assert excess[worst] <= ulps, f"{excess[worst]:.3f} ULP at {x[worst]!r}: got {got[worst]!r}, want {want[worst]!r}"


@pytest.mark.parametrize("name", BOUNDS)
def test_error_is_within_the_stated_bound(shim: Shim, name: str) -> None:
    x, bound = samples(), BOUNDS[name]
    assert_close(x, shim.map(name, x), expected(name), bound.of(shim.lanes, shim.fused), bound.absolute)


def test_tanh_and_sigmoid_stay_within_1(shim: Shim) -> None:
    """Every float from 6 to 9: sqrt(1 - tanh^2) must not become NaN."""
    first, last = f32(6, 9).view(np.int32)
    x = np.arange(first, last, dtype=np.int32).view(np.float32)
    for name in ("tanh", "sigmoid"):
        assert shim.map(name, x).max() <= 1


INF, NAN = np.inf, np.nan
SPECIALS = {
    "exp": [(0, 1), (INF, INF), (-INF, 0), (1e-45, 1), (89, INF), (3e38, INF), (-3e38, 0), (-88, 0), (-100, 0)],
    "expm1": [(0, 0), (INF, INF), (-INF, -1), (3e38, INF), (-3e38, -1), (1e-40, 1e-40)],
    "log": [(0, -INF), (-0.0, -INF), (1, 0), (INF, INF), (-1, NAN), (-INF, NAN), (-1e-45, NAN)],
    "log1p": [(0, 0), (-1, -INF), (INF, INF), (-2, NAN), (-INF, NAN), (1e-40, 1e-40)],
    "tanh": [(0, 0), (-0.0, -0.0), (INF, 1), (-INF, -1), (3e38, 1), (1e-40, 1e-40), (20, 1)],
    "sigmoid": [(0, 0.5), (INF, 1), (-INF, 0), (3e38, 1), (-3e38, 0), (1e-40, 0.5)],
    "silu": [(0, 0), (INF, INF), (-INF, NAN), (3e38, 3e38), (-200, -0.0)],
    "softplus": [(INF, INF), (-INF, 0), (3e38, 3e38), (-3e38, 0)],
    "erf": [(0, 0), (-0.0, -0.0), (INF, 1), (-INF, -1), (3e38, 1), (20, 1)],
    "sin": [(0, 0), (-0.0, -0.0), (INF, NAN), (-INF, NAN), (1e-40, 1e-40)],
    "cos": [(0, 1), (-0.0, 1), (INF, NAN), (-INF, NAN), (1e-40, 1)],
}


@pytest.mark.parametrize("name", SPECIALS)
def test_special_values(shim: Shim, name: str) -> None:
    pairs = [*SPECIALS[name], (NAN, NAN)]
    got = shim.map(name, f32(*(x for x, _ in pairs)))
    want = f32(*(y for _, y in pairs))
    np.testing.assert_array_equal(got, want)
    exact_zero = want == 0
    if name in ("tanh", "erf", "sin", "silu"):
        np.testing.assert_array_equal(np.signbit(got[exact_zero]), np.signbit(want[exact_zero]))


def test_neighbors_of_a_special_lane_are_undisturbed(shim: Shim) -> None:
    x = np.linspace(-3, 3, 4 * shim.lanes).astype(np.float32)
    spoiled = x.copy()
    spoiled[:: shim.lanes] = f32(NAN, INF, -INF, 3e38)
    for name in REFERENCES:
        alone, beside = shim.map(name, x), shim.map(name, spoiled)
        kept = np.arange(x.size) % shim.lanes != 0
        # sin and cos take the C library for the whole vector: as right, but not the same bits.
        tolerance = 2e-7 if name in ("sin", "cos") else 0.0
        np.testing.assert_allclose(beside[kept], alone[kept], rtol=tolerance, atol=tolerance)


def test_pow_is_accurate(shim: Shim) -> None:
    """One bound while the result lies in 1e-7 ... 1e7, another up to the ends of the range."""
    rng = np.random.default_rng(1)
    bases = np.concatenate([np.exp(rng.uniform(-80, 80, 500_000)), rng.uniform(0.3, 3, 500_000)])
    exponents = rng.uniform(-87, 87, bases.size) / np.maximum(np.abs(np.log(bases)), 1e-3)
    a, b = bases.astype(np.float32), exponents.astype(np.float32)
    want = np.power(a.astype(np.float64), b.astype(np.float64))
    got = shim.map("pow", a, b)
    assert_close(a, got, want, POW_FAR)
    near = np.abs(np.log(want)) < 16
    assert_close(a[near], got[near], want[near], POW if shim.fused else POW_PLAIN)


def test_pow_has_the_special_cases_of_c(shim: Shim) -> None:
    values = f32(0, -0.0, 1, -1, 2, -2, 0.5, -0.5, 3, -3, 1e30, -1e30, 1e-30, INF, -INF, NAN)
    a, b = (np.ascontiguousarray(m.ravel()) for m in np.meshgrid(values, values))
    with np.errstate(all="ignore"):
        want = np.power(a.astype(np.float64), b.astype(np.float64)).astype(np.float32)
    got = shim.map("pow", a, b)
    np.testing.assert_allclose(got, want, rtol=2e-6)
    known = ~np.isnan(want)
    np.testing.assert_array_equal(np.signbit(got[known]), np.signbit(want[known]))


# ---- Arithmetic, exact --------------------------------------------------------------------------


def assert_identical(got: Floats, want: Floats) -> None:
    """Equal bit by bit, but any NaN is as good as another."""
    same = (got.view(np.int32) == want.view(np.int32)) | (np.isnan(got) & np.isnan(want))
    assert same.all(), (got[~same][:4], want[~same][:4])


UNARY: dict[str, Callable[[Floats], Floats]] = {
    "abs": np.abs,
    "neg": np.negative,
    "sqrt": np.sqrt,
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "round": np.rint,
}


@pytest.mark.parametrize("name", UNARY)
def test_unary_operations_are_exact(shim: Shim, name: str) -> None:
    halves = (np.arange(-4000, 4000) / 8).astype(np.float32)
    x = np.concatenate([samples(), halves, f32(NAN, 8388607.5, 8388608, -8388608.5, 0.49999997)])
    with np.errstate(invalid="ignore"):
        assert_identical(shim.map(name, x), UNARY[name](x))


def pairs() -> tuple[Floats, Floats]:
    values = f32(-INF, -2, -1e-40, 0, 1e-40, 1, 2, 1e30, INF, NAN)
    rng = np.random.default_rng(2)
    a, b = np.meshgrid(values, values)
    noise = rng.normal(size=(2, 1000)).astype(np.float32)
    return np.concatenate([a.ravel(), noise[0]]), np.concatenate([b.ravel(), noise[1]])


@pytest.mark.parametrize("name", ["min", "max"])
def test_min_and_max_pass_nan_on(shim: Shim, name: str) -> None:
    a, b = pairs()
    assert_identical(shim.map(name, a, b), np.minimum(a, b) if name == "min" else np.maximum(a, b))


COMPARISONS = {
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "eq": np.equal,
    "ne": np.not_equal,
}


@pytest.mark.parametrize("name", COMPARISONS)
def test_comparisons(shim: Shim, name: str) -> None:
    a, b = pairs()
    want = COMPARISONS[name](a, b).astype(np.float32)
    np.testing.assert_array_equal(shim.map(f"is_{name}", a, b), want)


def test_masks_combine(shim: Shim) -> None:
    a = -(np.arange(shim.lanes, dtype=np.int32) & 1)
    b = -(np.arange(shim.lanes, dtype=np.int32) >> 1 & 1)
    want = np.select([(a & b) != 0, a != 0, b == 0], [3, 2, 1], 0)
    np.testing.assert_array_equal(shim.vector("masks", a, b), want)


def test_fma_rounds_once_where_it_says_so(shim: Shim) -> None:
    a = np.full(shim.lanes, 1 + 2.0**-12, np.float32)
    c = np.full(shim.lanes, -(1 + 2.0**-11), np.float32)
    want = 2.0**-24 if shim.fused else 0.0
    np.testing.assert_array_equal(shim.vector("fma_", a, a, c), np.full(shim.lanes, want))


def test_clamp_keeps_nan(shim: Shim) -> None:
    x = np.resize(f32(-INF, -1, 0.5, 9, INF, NAN), shim.lanes)
    low, high = ctypes.c_float(0), ctypes.c_float(6)
    np.testing.assert_array_equal(shim.vector("clamp", x, low, high), np.clip(x, 0, 6))


def test_horizontal_operations(shim: Shim) -> None:
    x = (np.random.default_rng(3).permutation(shim.lanes) + 1).astype(np.float32) / 2
    for spoiled in (False, True):
        if spoiled:
            x[shim.lanes // 2] = NAN
        results = np.zeros((4, 1), np.float32)
        shim.call("horizontal", x, *results)
        want = [x.sum(), x.prod(dtype=np.float64), x.min(), x.max()]
        np.testing.assert_allclose(results.ravel(), want, rtol=1e-6)


# ---- Memory -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def edge() -> Iterator[Floats]:
    """Floats up to the last byte before a page that may not be touched."""
    prot_none, prot_all = 0, mmap.PROT_READ | mmap.PROT_WRITE
    floats = np.frombuffer(mmap.mmap(-1, 2 * mmap.PAGESIZE), np.float32)
    boundary = ctypes.c_void_p(floats.ctypes.data + mmap.PAGESIZE)
    protect = ctypes.CDLL(None).mprotect
    assert protect(boundary, ctypes.c_size_t(mmap.PAGESIZE), prot_none) == 0
    yield floats[: mmap.PAGESIZE // 4]
    protect(boundary, ctypes.c_size_t(mmap.PAGESIZE), prot_all)


def test_partial_loads_stop_at_the_edge(shim: Shim, edge: Floats) -> None:
    for n in range(shim.lanes + 1):
        edge[:] = np.arange(edge.size)
        want = np.zeros(shim.lanes, np.float32)
        want[:n] = edge[edge.size - n :]
        pointer = ctypes.c_void_p(edge.ctypes.data + 4 * (edge.size - n))
        np.testing.assert_array_equal(shim.vector("load_n", pointer, n), want)
        np.testing.assert_array_equal(shim.vector("gather_n", pointer, ctypes.c_ssize_t(1), n), want)


def test_partial_stores_stop_at_the_edge(shim: Shim, edge: Floats) -> None:
    x = np.arange(1, shim.lanes + 1).astype(np.float32)
    for n in range(shim.lanes + 1):
        for name in ("store_n", "scatter_n"):
            edge[:] = -1
            pointer = ctypes.c_void_p(edge.ctypes.data + 4 * (edge.size - n))
            stride = [ctypes.c_ssize_t(1)] if name == "scatter_n" else []
            shim.call(name, pointer, *stride, x, n)
            want = np.full(edge.size, -1, np.float32)
            want[edge.size - n :] = x[:n]
            np.testing.assert_array_equal(edge, want)


def test_spread(shim: Shim) -> None:
    x, got = np.arange(shim.lanes, dtype=np.float32), np.zeros((7, shim.lanes), np.float32)
    shim.call("spread", x, got)
    places = [x // n * n + k for n, k in ((2, 0), (2, 1), (4, 2), (shim.lanes, 3))]
    np.testing.assert_array_equal(got, [*places, x // 2, x // 4, (x + 3) // 4])


@pytest.mark.parametrize("stride", [-3, 0, 1, 2, 7])
def test_gather_and_scatter(shim: Shim, stride: int) -> None:
    memory = np.arange(400, dtype=np.float32)
    start, lanes = 200, np.arange(shim.lanes)
    pointer = ctypes.c_void_p(memory.ctypes.data + 4 * start)
    for n in range(shim.lanes + 1):
        want = np.where(lanes < n, memory[start + lanes * stride], 0)
        got = shim.vector("gather_n", pointer, ctypes.c_ssize_t(stride), n)
        np.testing.assert_array_equal(got, want)
    got = shim.vector("gather", pointer, ctypes.c_ssize_t(stride))
    np.testing.assert_array_equal(got, memory[start + lanes * stride])
    if stride:
        x = -np.arange(1, shim.lanes + 1).astype(np.float32)
        want = memory.copy()
        want[start + lanes * stride] = x
        shim.call("scatter", pointer, ctypes.c_ssize_t(stride), x)
        np.testing.assert_array_equal(memory, want)


def test_unaligned_integers_and_iota(shim: Shim) -> None:
    x = np.arange(shim.lanes + 1, dtype=np.int32)
    y = np.zeros(shim.lanes + 1, np.int32)
    shim.call("copy_i", x[1:], y[1:])
    np.testing.assert_array_equal(y[1:], x[1:])
    np.testing.assert_array_equal(shim.vector("iota"), np.arange(shim.lanes))


# ---- Other compilers and machines, no running ---------------------------------------------------


@pytest.mark.skipif(not ZIG, reason="needs the ziglang package")
@pytest.mark.parametrize(
    "target",
    [
        "aarch64-linux-gnu",
        "aarch64-linux-gnu -mcpu=neoverse_v1 -msve-vector-bits=256",
        "arm-linux-gnueabihf",
        "riscv64-linux-gnu",
        "wasm32-wasi",
        "x86_64-linux-gnu -mcpu=haswell",
        "x86_64-linux-gnu -mcpu=znver4",
    ],
)
def test_other_targets_compile_without_warnings(target: str, tmp_path: Path) -> None:
    source, output = str(HERE / "simd_shim.c"), str(tmp_path / "shim.o")
    command = [*ZIG, "-target", *target.split(), "-O2", *STRICT, "-c", source, "-o", output]
    result = subprocess.run(command, check=False, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
