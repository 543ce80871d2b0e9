"""A few kernels under oclgrind (all of them: benchmarks/gpu/oclgrind.py), and one whose threads do not wait."""

from __future__ import annotations

from pathlib import Path

import pytest
from needed import driver, need

from benchmarks.gpu.oclgrind import FOUND, LIBRARY, SILENT, checked
from edgec.resources import data_folder

SECONDS = 60.0


@pytest.fixture(autouse=True)
def _there() -> None:
    need("oclgrind", "oclgrind")
    if not driver() or not LIBRARY.is_file():
        pytest.skip("oclgrind is not here: apt-get install oclgrind ocl-icd-libopencl1")


@pytest.mark.parametrize(
    ("kind", "cases"),
    [("generic_opencl", ["matmul 13x7x3", "matmul 3x33x16"]), ("mali_g78", ["matmul 13x7x3", "matmul 4x9x4"])],
)
def test_nothing_is_found(kind: str, cases: list[str]) -> None:
    assert checked(kind, "contractions", cases, SECONDS) == (SILENT, "")


def test_a_race_is_found(tmp_path: Path) -> None:
    """A kernel without the barrier at the end of an iteration has a race."""
    text = (data_folder("codegen_templates") / "gpu" / "contract.gpu.jinja").read_text()
    end = "    ec_barrier();\n  }\n//% macro add_parts()"
    assert text.count(end) == 1
    own = tmp_path / "gpu"
    own.mkdir()
    (own / "contract.gpu.jinja").write_text(text.replace(end, end.replace("ec_barrier();", "")))
    verdict, words = checked("generic_opencl", "contractions", ["matmul 3x33x16"], SECONDS, [tmp_path])
    assert verdict == FOUND and "data race" in words
