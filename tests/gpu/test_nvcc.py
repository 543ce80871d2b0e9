"""Every CUDA template through nvcc for the Jetson it is meant for: it compiles, spills nothing, and fits."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from kernel_cases import cases

from edgec.device.cuda import KernelReport, compile_cuda, pick_cuda_compiler
from edgec.device.facts import load_device
from edgec.emit.project import files
from edgec.errors import ToolchainError
from edgec.fuse import plan
from edgec.schedule.build import schedule

#: One graph for each template that a precision has of its own; nvcc takes seconds a kernel.
CHOSEN = {"contractions": "matmul 2x40x260", "rows": None, "maps": None}


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_kernels_for_orin_do_not_spill(precision: str, tmp_path: Path) -> None:
    device = replace(load_device("jetson"), precision=precision)
    try:
        compiler = pick_cuda_compiler(device)
    except ToolchainError as missing:
        pytest.skip(str(missing))
    sources: list[Path] = []
    for group, name in CHOSEN.items():
        graph = cases()[group][name] if name else next(iter(cases()[group].values()))
        written = files(schedule(plan(graph, gpu=True), device, floats=0), device, group)
        for path, content in written.items():
            if path.endswith((".cu", ".h")):
                (tmp_path / path).write_bytes(content)
        sources += [tmp_path / path for path in written if path.endswith(".cu") and "kernels" in path]
    reports: list[KernelReport] = compile_cuda(compiler, device, sources, tmp_path / "all.so", link=False)
    assert len(reports) >= len(sources)
    assert [r for r in reports if r.spill_bytes] == []
    assert [r for r in reports if r.shared_bytes > device.shared_bytes] == []
