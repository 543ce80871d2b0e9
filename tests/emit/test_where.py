"""NAME_where in C and `where` in Python: a row for each kernel, whatever the device and its language."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest
from small_models import model, node, weights

import edgec
from edgec.artifact.names import LOCK
from edgec.artifact.placement import placed

TOLD = r"""
#include <stdio.h>
#include "net_where.h"
int main(void) {
  size_t count;
  const net_place *p = net_where(&count);
  for (; count; --count, ++p) printf("%s|%s|%s\n", p->layers, p->device, p->why);
  return 0;
}
"""


@pytest.mark.parametrize(
    "device", ["host", "cortex_m7", "wasm32", "cuda_sm90", "generic_opencl", "webgpu", "x86_64_avx2"]
)
def test_every_kernel_has_a_row(device: str, tmp_path: Path) -> None:
    nodes = [node("Gemm", ["x", "w"], ["a"], name='first "layer"'), node("Softmax", ["a"], ["b"], name="second")]
    nodes += [node("Gemm", ["b", "v"], ["y"], name="third")]
    tables = [weights("w", np.ones((3, 4), np.float32)), weights("v", np.ones((4, 5), np.float32))]
    levels = {"dispatch": "x86_64_sse4"} if device == "x86_64_avx2" else {}
    built = edgec.build(model(nodes, initializers=tables), device=device, compile=False, **levels)
    rows = placed(json.loads((built.folder / LOCK).read_text()))
    names = ['first "layer"', "second", "third"]
    assert len(rows) == len(built.program.kernels) * len({row.device for row in rows})
    for place in {row.device for row in rows}:
        assert [n for row in rows if row.device == place for n in row.operators] == names
    assert {row.device for row in rows} == ({"x86_64_avx2", "x86_64_sse4"} if levels else {device})
    assert all(row.why and row.kind for row in rows)
    if device == "webgpu":
        return  # a package for the browser has no C
    (tmp_path / "told.c").write_text(TOLD)
    sources = [tmp_path / "told.c", built.folder / "net_where.c"]
    words = ["cc", "-Wall", "-Wextra", "-Werror", "-pedantic", f"-I{built.folder}", *map(str, sources)]
    subprocess.run([*words, "-o", str(tmp_path / "told")], check=True)
    told = subprocess.run([tmp_path / "told"], capture_output=True, text=True, check=True).stdout.splitlines()
    assert told == [f"{', '.join(row.operators)}|{row.device}|{row.why}" for row in rows]
    is_linked = "net_where.c" in json.loads((built.folder / LOCK).read_text())["sources"]
    assert is_linked == built.options.device.hosted
