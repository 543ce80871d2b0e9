"""Artifacts in programs of other people: two in one program, below a parent's CMake, strict compilers, licenses."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import numpy as np
import onnx
import pytest
from chance import RANDOM
from compiled import STRICT
from needed import need
from small_models import model, node, tensor_input, weights

import edgec
from edgec.emit.license import IDENTIFIER

TWO = r"""
#include <stdio.h>
#include <stdlib.h>
#include "a.h"
#include "b.h"
#include "ec_pool.h"
static _Alignas(64) unsigned char arenas[2][64 * (A_ARENA_BYTES + B_ARENA_BYTES + 1)];
int main(void) {
  static const float x[A_X_ELEMENTS] = {A_X_DIM0, A_X_DIM1, 3, 4, 5, 6};
  static float y[A_Y_ELEMENTS], z[B_Y_ELEMENTS];
  ec_pool *const pool = ec_pool_init(malloc(ec_pool_bytes(2)), 2);
  int status = pool ? 0 : 100;
  for (int i = 0; i < 20; ++i) {
    status += a_run_pool(a_weights, arenas[0], pool, x, y);
    status += b_run_pool(b_weights, arenas[1], pool, x, z);
  }
  ec_pool_destroy(pool);
  printf("%d", status);
  for (int i = 0; i < (int)A_Y_ELEMENTS; ++i) printf(" %.9g", (double)y[i]);
  for (int i = 0; i < (int)B_Y_ELEMENTS; ++i) printf(" %.9g", (double)z[i]);
  return 0;
}
"""
PARENT = """
cmake_minimum_required(VERSION 3.16)
project(parent C ASM)
{find}
add_executable(two main.c)
target_link_libraries(two PRIVATE a::a b::b)
if(DEFINED CMAKE_C_VISIBILITY_PRESET OR CMAKE_C_FLAGS MATCHES "-O3" OR CMAKE_BUILD_TYPE OR TARGET a_example)
  message(FATAL_ERROR "the network changed its parent")
endif()
"""


def network(columns: int) -> onnx.ModelProto:
    w = RANDOM.standard_normal((3, columns)).astype(np.float32)
    return model([node("MatMul", ["x", "w"], ["y"])], initializers=[weights("w", w)])


def told(command: list[str], cwd: Path) -> str:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True)
    assert done.returncode == 0, f"{command}: {done.stdout[-1500:]}{done.stderr[-3000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, np.ndarray]:
    """Two networks below a folder, and what the program prints: no status, and the results of both."""
    folder = tmp_path_factory.mktemp("two")
    (folder / "main.c").write_text(TWO)
    x = np.float32([[2, 3, 3], [4, 5, 6]])
    results = [edgec.build(network(n), folder / name, name=name, threads=2)(x) for name, n in (("a", 5), ("b", 7))]
    return folder, np.concatenate([np.zeros(1), *(r.reshape(-1) for r in results)])


def matches(text: str, want: np.ndarray) -> None:
    np.testing.assert_allclose(np.array(text.split(), np.float64), want, rtol=1e-5, atol=1e-6)


def test_two_in_one_program(built: tuple[Path, np.ndarray]) -> None:
    folder, want = built
    sources = [str(s) for name in "ab" for s in folder.glob(f"{name}/*.[cS]") if s.stem not in ("main", "runner")]
    told(["gcc", *STRICT, "-march=native", "-Ia", "-Ib", "main.c", *sources, "-o", "two", "-lm", "-lpthread"], folder)
    matches(told(["./two"], folder), want)


@pytest.mark.parametrize("way", ["add_subdirectory", "find_package"])
def test_below_a_parent(built: tuple[Path, np.ndarray], way: str, tmp_path: Path) -> None:
    folder, want = built
    cmake = need("cmake", "cmake")
    find = f"add_subdirectory({folder}/a a)\nadd_subdirectory({folder}/b b)"
    more = []
    if way == "find_package":
        find, more = "find_package(a REQUIRED)\nfind_package(b REQUIRED)", [f"-DCMAKE_PREFIX_PATH={tmp_path}/there"]
        for name in "ab":
            told([cmake, "-S", str(folder / name), "-B", f"of_{name}"], tmp_path)
            told([cmake, "--build", f"of_{name}"], tmp_path)
            told([cmake, "--install", f"of_{name}", "--prefix", "there"], tmp_path)
            told([f"of_{name}/{name}_example", "2"], tmp_path)
            library = f"there/lib/lib{name}.so"
            symbols = {
                line.split()[-1] for line in told(["nm", "-D", "--defined-only", library], tmp_path).splitlines()
            }
            assert {f"{name}_run", f"{name}_weights", f"{name}_ec_pool_run"} <= symbols
            assert not [s for s in symbols if not s.startswith(f"{name}_") or re.match(rf"{name}_\d", s)]
    (tmp_path / "CMakeLists.txt").write_text(PARENT.format(find=find))
    (tmp_path / "main.c").write_text(TWO)
    told([cmake, "-S", ".", "-B", "built", *more], tmp_path)
    told([cmake, "--build", "built"], tmp_path)
    matches(told(["built/two"], tmp_path), want)


def test_facts_are_macros(tmp_path: Path) -> None:
    """Dimensions, ranges of open ones, scales and zero points, and the hash of the model."""
    shape = ["rows", 3]
    made = model([node("Relu", ["x"], ["y"])], [tensor_input("x", shape)])
    folder = edgec.build(made, tmp_path / "out", dims={"rows": (2, 10, 2)}, compile=False).folder
    (tmp_path / "main.c").write_text(
        '#include <stdio.h>\n#include "net.h"\nint main(void) {\n'
        'printf("%d %d %d %d %d %d %zu %s", NET_ROWS_LEAST, NET_ROWS_MOST, NET_ROWS_STEP, NET_X_RANK, NET_X_DIM0,'
        " NET_Y_DIM1, sizeof NET_MODEL_SHA256, NET_EDGEC_VERSION);\nreturn 0; }\n"
    )
    told(["gcc", *STRICT, f"-I{folder}", "main.c", "-o", "main"], tmp_path)
    assert told(["./main"], tmp_path) == f"2 10 2 2 10 3 65 {edgec.__version__}"


@pytest.mark.parametrize("device", ["host", "cortex_m7", "mps2_an500", "cuda_sm90", "generic_opencl"])
def test_every_text_has_its_license(device: str, tmp_path: Path) -> None:
    extras = [e for e in ("cpp", "rust", "java", "python") if device == "host"]
    folder = edgec.build(network(5), tmp_path / "out", device=device, compile=False, extras=extras).folder
    files = [p for p in folder.rglob("*") if p.is_file() and p.suffix not in (".bin", ".lock", ".json")]
    assert len(files) > 8
    assert not [p for p in files if IDENTIFIER not in p.read_text().splitlines()[0] + p.read_text().splitlines()[1]]
    assert not [p for p in folder.glob("ec_simd_*.h") if "neon" in p.name or "wasm" in p.name]
