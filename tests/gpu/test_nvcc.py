"""Every CUDA template through nvcc for the Jetson it is meant for: it compiles, spills nothing, and fits."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from emulated import nvcc
from kernel_cases import cases
from onnx import TensorProto
from opencl_networks import joined
from small_models import model, node, tensor_input, weights

import edgec
from edgec.bench.remote import compile_runner
from edgec.device.cuda import compile_cuda, has_gpu
from edgec.device.load import load_device
from edgec.emit.project import files
from edgec.emit.registry import templates
from edgec.errors import UsageError
from edgec.fuse import plan
from edgec.options import resolve
from edgec.pipeline import run
from edgec.pipeline.context import Context
from edgec.report.measure import describe, gpu_kernels, measure
from edgec.schedule.build import schedule
from edgec.schedule.gpu.attention import largest_head
from edgec.schedule.options import ScheduleOptions

#: Graphs that reach every template; nvcc takes about a second a kernel.
FORMULAS = {
    "contractions": "matmul 33x8x53", "columns": "softmax of (1, 33, 2, 16) along 1", "maps": "map chain 53",
    "rows": "row softmax 53", "attentions": "attention of heads", "byte_convolutions": "byte conv chain",
}  # fmt: skip
#: Templates of language models, which `tests/language/test_on_gpus.py` compiles.
ONE_TOKEN = {"few_queries", "together", "vector"}
#: Templates of tensor cores that are no products: of training (`tests/gpu/test_cuda_kernels.py`), and of sm_90
#: (`tests/gpu/test_cuda_groups.py`), or for weights with zeros (`tests/gpu/test_cuda_two_of_four.py`).
OTHERS = {"attention_gradients", "attention_group", "attention_statistics", "contract_group", "contract_two_of_four"}
PROCEDURES = {
    "sorting": ("argsort of 33", "rows of f32"), "scanning": ("prefix of 300",),
    "selection": ("compact", "suppression 1x1x1"), "recurring": ("lstm 3x5x7",),
    "descending": ("descent of 5x4 in f32 along 3 trees",), "coupling": ("coupling of 5x3",),
    "scattering": ("scatter of long slices", "scatter of itself"),
}  # fmt: skip


@pytest.mark.parametrize(("precision", "capability"), [("fp32", 75), ("fp32", 87), ("fp16", 87)])
def test_kernels_for_orin_do_not_spill(precision: str, capability: int, tmp_path: Path) -> None:
    """For Orin, and for what has no such tensor cores."""
    found = load_device("jetson")
    device = replace(found, precision=precision, gpu=replace(found.gpu, compute_capability=capability))
    compiler = nvcc(device)
    on_tensors = capability >= 80
    chosen = {name: cases()[group][name] for group, name in FORMULAS.items()}
    if not on_tensors:  # procedures are the same in all
        chosen |= {name: cases()[group][name] for group, names in PROCEDURES.items() for name in names}
    planned = plan(joined(chosen), gpu=True, head=largest_head(device))
    written = files(schedule(planned, device, ScheduleOptions(fp32_blocks=0)), device, "net")
    for path, content in written.items():
        if path.endswith((".cu", ".h")):
            (tmp_path / path).write_bytes(content)
    sources = [tmp_path / path for path in written if path.endswith(".cu") and "kernels" in path]
    reports = compile_cuda(compiler, device, sources, tmp_path / "all.so", link=False)
    reached = {report.name.split("_", 2)[2] for report in reports}
    known = {t.kernel for t in templates("cuda")} - ONE_TOKEN
    tensor = {name for name in known if name.endswith("_tensor")}
    assert (tensor if on_tensors else known - tensor - OTHERS) - reached == set()
    assert [r for r in reports if r.spill_bytes] == []
    assert [r for r in reports if r.shared_bytes > device.gpu.shared_bytes] == []


def test_the_runner_is_a_program(tmp_path: Path) -> None:
    """It runs where there is a GPU; here it says that there is none, or no driver for one."""
    net = model([node("Relu", ["x"], ["y"])], [tensor_input("x", [4, 256])])
    nvcc(load_device("cuda_sm90"))
    program = compile_runner(edgec.build(net, device="cuda_sm90", compile=False), tmp_path / "runner", True)
    (tmp_path / "in").write_bytes(b"")
    done = subprocess.run([program, tmp_path / "in", tmp_path / "out"], capture_output=True, text=True, check=False)
    assert (done.returncode == 5 and "net_runner: " in done.stderr) or has_gpu()


def test_what_kernels_take_of_the_gpu() -> None:
    net = model([node("Relu", ["x"], ["y"])], [tensor_input("x", [4, 256])])
    nvcc(load_device("jetson"))
    rows = gpu_kernels(run(net, Context(resolve({"device": "jetson"}))))
    (launch,) = [row["launch"] for row in rows]
    assert (launch["groups"], launch["threads"], launch["spill_bytes"]) == (1, 256, 0)
    assert launch["bytes"] == 2 * 4 * 256 * 4 and launch["flops"] == 1024
    assert 0 < launch["registers"] <= 42 and launch["occupancy"] == 1
    assert launch["predicted_us"] > launch["bound_us"] > 0


def test_a_report_of_a_gpu(tmp_path: Path) -> None:
    """Of kernels that are emulated: nobody said what they take of a GPU, and their times are of every launch."""
    net = model([node("Relu", ["x"], ["y"])], [tensor_input("x", [4, 256])])
    built = edgec.build(net, tmp_path / "net", device="jetson", compiler="emulated")
    (kernel,) = describe(built, measure(built, seconds=0.02))["kernels"]
    assert kernel["measured_us"] > 0 and kernel["launch"]["registers"] is None
    assert kernel["launch"]["bound_us"] == pytest.approx(8192 / 68e3)  # bytes, and those of an Orin Nano


def test_of_a_table_only_what_is_looked_up_moves(tmp_path: Path) -> None:
    table = weights("table", np.arange(80000, dtype=np.float32).reshape(5000, 16))
    x = tensor_input("x", [7], TensorProto.INT64)
    net = model([node("Gather", ["table", "x"], ["y"])], [x], initializers=[table])
    built = edgec.build(net, tmp_path / "net", device="jetson", compiler="emulated")
    (kernel,) = describe(built, measure(built, seconds=0.02))["kernels"]
    assert kernel["launch"]["bytes"] <= 7 * (2 * 16 * 4 + 8)
    assert kernel["predicted_us"] == kernel["launch"]["predicted_us"]


def test_a_processor_has_no_kernels_to_launch() -> None:
    net = model([node("Relu", ["x"], ["y"])], [tensor_input("x", [4])])
    with pytest.raises(UsageError, match="no GPU"):
        gpu_kernels(run(net, Context(resolve({"device": "generic"}))))
