"""The narrow types of ec_scalar.h against ml_dtypes, bit by bit: every code, and floats of every kind."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from edgec.ir import dtypes
from edgec.ir.types import CODED, DTYPES, FLOATS, plain

HERE = Path(__file__).parent
RUNTIME = HERE.parents[1] / "codegen_templates" / "runtime"
COMPILERS = [c for c in map(shutil.which, ["cc", "gcc", "clang"]) if c][:1]
FLAGS = ["-O2", "-std=c11", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", f"-I{RUNTIME}"]
FLOATING = sorted(CODED & FLOATS)
INTEGER = sorted(CODED - FLOATS)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    path = tmp_path_factory.mktemp("scalar") / "shim.so"
    subprocess.run([*COMPILERS, *FLAGS, str(HERE / "scalar_shim.c"), "-o", str(path), "-lm"], check=True)
    return ctypes.CDLL(str(path))


def converted(library: ctypes.CDLL, name: str, x: np.ndarray, to: type | np.dtype) -> np.ndarray:
    y = np.empty(x.shape, to)
    library[name](ctypes.c_void_p(x.ctypes.data), ctypes.c_void_p(y.ctypes.data), ctypes.c_int64(x.size))
    return y


def codes(name: str) -> np.ndarray:
    """Every code of a type; of integers every byte, whose upper bits do not count."""
    width = DTYPES[name].itemsize
    return np.arange(16 if name == "f4e2m1" else 256**width, dtype=np.dtype(f"u{width}"))


def floats(name: str) -> np.ndarray:
    """Every 1531st float, every value of the type, what lies halfway between two of them, and its neighbors."""
    with np.errstate(all="ignore"):
        own = codes(name).view(DTYPES[name]).astype(np.float64)
    finite = np.unique(own[np.isfinite(own)])
    ties = ((finite[1:] + finite[:-1]) / 2).astype(np.float32)
    with np.errstate(over="ignore"):
        beyond = np.float32([finite[-1] * 1.5, finite[-1] * 2, finite[0] * 1.5, finite[0] * 2])
    close = np.concatenate([finite.astype(np.float32), ties, beyond])
    near = [np.nextafter(close, np.float32(s * np.inf)) for s in (-1, 1)]
    specials = np.float32([0.0, -0.0, np.inf, -np.inf, 1e-45, -1e-45, 3e38, -3e38])
    spread = np.arange(0, 2**32, 1531, dtype=np.uint64).astype(np.uint32).view(np.float32)
    return np.concatenate([close, *near, specials, spread])


@pytest.mark.parametrize("name", FLOATING)
def test_every_code(library: ctypes.CDLL, name: str) -> None:
    x = codes(name)
    got = converted(library, f"from_{name}", x, np.float32)
    want = x.view(DTYPES[name]).astype(np.float32)
    number = ~np.isnan(want)
    assert (np.isnan(got) == ~number).all()
    assert (np.signbit(got) == np.signbit(want)).all()
    np.testing.assert_array_equal(got.view(np.uint32)[number], want.view(np.uint32)[number])
    kept = number | (name == "f16")  # an f16 goes through a float unchanged, whatever kind of NaN it is
    np.testing.assert_array_equal(converted(library, f"to_{name}", got, x.dtype)[kept], x[kept])


@pytest.mark.parametrize("name", FLOATING)
def test_floats_round_to_the_nearest(library: ctypes.CDLL, name: str) -> None:
    x = floats(name)
    want = dtypes.converted(x, name)
    got = converted(library, f"to_{name}", x, DTYPES[name])
    same = (plain(got) == plain(want)) | (np.isnan(x) & np.isnan(want.astype(np.float32)))
    wrong = np.flatnonzero(~same)
    assert not wrong.size, f"{x[wrong[0]]!r} becomes {got[wrong[0]]!r}, not {want[wrong[0]]!r}"


@pytest.mark.parametrize("name", FLOATING)
def test_no_value_is_nearer(name: str) -> None:
    """The distance of what a float becomes, between the ends of a type, is that of the nearest of all its values."""
    with np.errstate(all="ignore"):
        own = codes(name).view(DTYPES[name]).astype(np.float64)
        own = np.unique(own[np.isfinite(own)])
        x = floats(name).astype(np.float64)
        x = x[(x >= own[0]) & (x <= own[-1])]
        above = np.clip(np.searchsorted(own, x), 1, own.size - 1)
        nearest = np.minimum(np.abs(x - own[above - 1]), np.abs(x - own[above]))
        found = dtypes.converted(x.astype(np.float32), name).astype(np.float64)
    np.testing.assert_array_equal(np.abs(found - x), nearest)


@pytest.mark.parametrize("name", INTEGER)
def test_floats_become_the_low_bits_of_whole_numbers(name: str) -> None:
    """Of what a narrow integer cannot hold ONNX says nothing: folded constants are what the generated code gives."""
    x = np.float32([0.9, -0.9, 1.5, -1.5, 7.9, 8, -9, 15.2, 100.7, -100.7, 1e6, np.nan])
    low = np.int64([0, 0, 1, -1, 7, 8, -9, 15, 100, -100, 10**6, 0]) & (15 if name.endswith("4") else 3)
    np.testing.assert_array_equal(plain(dtypes.converted(x, name)), low)


@pytest.mark.parametrize("name", INTEGER)
def test_integers_keep_their_low_bits(library: ctypes.CDLL, name: str) -> None:
    x = codes(name)
    value = np.dtype(np.int8 if name.startswith("i") else np.uint8)
    np.testing.assert_array_equal(converted(library, f"from_{name}", x, value), x.view(DTYPES[name]).astype(value))
    wide = np.concatenate([np.arange(-300, 300), [2**62, -(2**62) - 1]]).astype(np.int64)
    want = (wide & (15 if name.endswith("4") else 3)).astype(np.uint8)
    np.testing.assert_array_equal(converted(library, f"to_{name}", wide, np.uint8), want)
    np.testing.assert_array_equal(want, plain(wide.astype(DTYPES[name])))
