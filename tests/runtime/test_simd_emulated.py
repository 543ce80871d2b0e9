"""Vectors of SVE, of both sizes, and of RISC-V by the tests of ec_simd.h that are quick, on emulated processors."""

from __future__ import annotations

import ctypes
import re
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from needed import need
from test_simd import (
    HERE,
    REFERENCES,
    STRICT,
    UNARY,
    ZIG,
    Floats,
    Shim,
    assert_close,
    assert_identical,
    samples,
    test_clamp_keeps_nan,
    test_comparisons,
    test_fma_rounds_once_where_it_says_so,
    test_horizontal_operations,
    test_masks_combine,
    test_min_and_max_pass_nan_on,
    test_pow_has_the_special_cases_of_c,
    test_special_values,
)
from test_simd_integer import (
    test_fixed_point_products_are_exact,
    test_floats_as_integers,
    test_functions_of_one_integer,
    test_functions_of_two_integers,
    test_products_of_bytes_do_not_saturate,
    test_rounding_to_half_precision,
    test_selection_and_reductions,
    test_words,
)

from benchmarks.cpu.ulp import BOUNDS

__all__ = [
    "test_clamp_keeps_nan",
    "test_comparisons",
    "test_fixed_point_products_are_exact",
    "test_floats_as_integers",
    "test_fma_rounds_once_where_it_says_so",
    "test_functions_of_one_integer",
    "test_functions_of_two_integers",
    "test_horizontal_operations",
    "test_masks_combine",
    "test_min_and_max_pass_nan_on",
    "test_pow_has_the_special_cases_of_c",
    "test_products_of_bytes_do_not_saturate",
    "test_rounding_to_half_precision",
    "test_selection_and_reductions",
    "test_special_values",
    "test_words",
]
#: Names of the C libraries in packages.
LIBRARIES = {"aarch64": "arm64", "riscv64": "riscv64"}
#: The system, options of the compiler, and the processor.
BUILDS = {
    "sve256": ("aarch64", ["-mcpu=neoverse-v1", "-msve-vector-bits=256"], "max,sve256=on"),
    "sve512": ("aarch64", ["-mcpu=a64fx", "-msve-vector-bits=512"], "a64fx"),
    "rvv128": (
        "riscv64",
        ["-target", "riscv64-linux-gnu.2.36", "-mcpu=generic_rv64+m+a+f+d+c+v", "-fno-sanitize=undefined"],
        "rv64,v=true,vext_spec=v1.0,vlen=128",
    ),
}


class Emulated(Shim):
    """A shim in a process of its own: arrays go there and come back with every call."""

    def __init__(self, command: list[str]) -> None:
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.lanes = self.given("lanes")
        self.fused = bool(self.given("fused"))

    def call(self, name: str, *arguments: object) -> None:
        self.given(name, *arguments)

    def given(self, name: str, *arguments: object) -> int:
        """Return value of the function; arrays among the operands contain what it wrote."""
        assert self.process.stdin is not None and self.process.stdout is not None
        parts = [struct.pack("q", len(name) + 1), name.encode() + b"\0", struct.pack("q", len(arguments))]
        for a in arguments:
            if isinstance(a, np.ndarray):
                parts += [struct.pack("qq", 0, a.nbytes), a.tobytes()]
            elif isinstance(a, ctypes.c_float):
                parts.append(struct.pack("=qf", 2, a.value))
            else:
                number = a.value if isinstance(a, ctypes.c_int64) else a
                assert isinstance(number, int)
                parts.append(struct.pack("qq", 1, number))
        self.process.stdin.write(b"".join(parts))
        self.process.stdin.flush()
        (result,) = struct.unpack("q", self.process.stdout.read(8))
        for a in arguments:
            if isinstance(a, np.ndarray):
                a[...] = np.frombuffer(self.process.stdout.read(a.nbytes), a.dtype).reshape(a.shape)
        return int(result) & 0xFF


@pytest.fixture(scope="module", params=BUILDS)
def shim(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shim]:
    system, flags, processor = BUILDS[request.param]
    emulator = need(f"qemu-{system}", "qemu-user")
    gcc = need(f"{system}-linux-gnu-gcc", f"gcc-{system}-linux-gnu", f"libc6-dev-{LIBRARIES[system]}-cross")
    if system == "riscv64" and not ZIG:
        pytest.skip("needs the ziglang package")
    if system == "riscv64" and _major(emulator) < 8:
        pytest.skip("qemu before 8 fails an assertion of its own at conversions to integers that follow one another")
    compiler = ZIG if system == "riscv64" else [gcc]
    program = tmp_path_factory.mktemp("emulated") / "shim"
    files = [str(HERE / name) for name in ("emulated_shim.c", "simd_shim.c")]
    command = [*compiler, "-O2", *flags, *STRICT, "-D_GNU_SOURCE", "-rdynamic", *files, "-o", str(program), "-lm"]
    subprocess.run(command, check=True)
    library = Path("/usr") / f"{system}-linux-gnu"
    emulated = Emulated([emulator, "-L", str(library), "-cpu", processor, str(program)])
    yield emulated
    emulated.process.kill()
    emulated.process.communicate()


def _major(emulator: str) -> int:
    told = subprocess.run([emulator, "--version"], check=True, capture_output=True, text=True).stdout
    return int(re.search(r"version (\d+)", told)[1])  # type: ignore[index]


def some() -> Floats:
    return np.ascontiguousarray(samples()[::101])


@pytest.mark.parametrize("name", BOUNDS)
def test_error_is_within_the_stated_bound(shim: Shim, name: str) -> None:
    x, bound = some(), BOUNDS[name]
    with np.errstate(all="ignore"):
        want = REFERENCES[name](x.astype(np.float64))
    assert_close(x, shim.map(name, x), want, bound.fused, bound.absolute)


@pytest.mark.parametrize("name", UNARY)
def test_unary_operations_are_exact(shim: Shim, name: str) -> None:
    with np.errstate(invalid="ignore"):
        assert_identical(shim.map(name, some()), UNARY[name](some()))
