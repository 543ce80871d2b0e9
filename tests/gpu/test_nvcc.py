"""Every CUDA template through nvcc for the Jetson it is meant for: it compiles, spills nothing, and fits."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from kernel_cases import cases
from opencl_networks import joined

from edgec.device.cuda import compile_cuda, pick_cuda_compiler
from edgec.device.facts import load_device
from edgec.emit.project import files
from edgec.emit.registry import templates
from edgec.errors import ToolchainError
from edgec.fuse import plan
from edgec.schedule.build import schedule
from edgec.schedule.gpu.attention import largest_head

#: Graphs that reach every template; nvcc takes about a second a kernel.
FORMULAS = {
    "contractions": "matmul 33x8x53", "rows": "row softmax 53", "maps": "map chain 53",
    "attentions": "attention of heads",
}  # fmt: skip
PROCEDURES = {
    "sorting": ("argsort of 33", "rows of f32"), "scanning": ("prefix of 300",),
    "selection": ("compact", "suppression 1x1x1"), "recurring": ("lstm 3x5x7",),
    "scattering": ("scatter of long slices", "scatter of itself"),
}  # fmt: skip


@pytest.mark.parametrize(("precision", "capability"), [("fp32", 75), ("fp32", 87), ("fp16", 87)])
def test_kernels_for_orin_do_not_spill(precision: str, capability: int, tmp_path: Path) -> None:
    """For Orin, and for what has no such tensor cores."""
    device = replace(load_device("jetson"), precision=precision, compute_capability=capability)
    try:
        compiler = pick_cuda_compiler(device)
    except ToolchainError as missing:
        pytest.skip(str(missing))
    on_tensors = capability >= 80
    chosen = {name: cases()[group][name] for group, name in FORMULAS.items()}
    if not on_tensors:  # procedures are the same in all
        chosen |= {name: cases()[group][name] for group, names in PROCEDURES.items() for name in names}
    planned = plan(joined(chosen), gpu=True, head=largest_head(device))
    written = files(schedule(planned, device, floats=0), device, "net")
    for path, content in written.items():
        if path.endswith((".cu", ".h")):
            (tmp_path / path).write_bytes(content)
    sources = [tmp_path / path for path in written if path.endswith(".cu") and "kernels" in path]
    reports = compile_cuda(compiler, device, sources, tmp_path / "all.so", link=False)
    reached = {report.name.split("_", 2)[2] for report in reports}
    known = {t.kernel for t in templates("cuda")}
    tensor = {name for name in known if name.endswith("_tensor")}
    assert (tensor if on_tensors else known - tensor) - reached == set()
    assert [r for r in reports if r.spill_bytes] == []
    assert [r for r in reports if r.shared_bytes > device.shared_bytes] == []
