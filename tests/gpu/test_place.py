"""Networks on a processor and a GPU: the cut is the cheapest, segments mean what the whole means, and both run."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Hashable
from itertools import product
from pathlib import Path

import numpy as np
import onnx
import pytest
from chance import RANDOM
from opencl_networks import driver
from small_models import model, node, tensor_input, weights
from typer.testing import CliRunner

import edgec
from edgec.artifact.names import LOCK
from edgec.artifact.placement import Placed, placed
from edgec.cli.main import app
from edgec.device.load import load_device
from edgec.errors import DeviceError, UsageError
from edgec.execute.executor import run_program
from edgec.frontend.onnx.importer import import_model
from edgec.fuse import plan
from edgec.ir import evaluate
from edgec.partition import AssignedBlock, Assignment, assign, divide
from edgec.partition.cut import NEVER, Cut
from edgec.schedule.build import schedule
from edgec.schedule.parts import joined
from edgec.schedule.program import Part
from edgec.tune.on_device import tune_on_device


def floats(*shape: int) -> np.ndarray:
    return (RANDOM.standard_normal(shape) * 0.3).astype(np.float32)


def recurrent() -> onnx.ModelProto:
    """Convolutions, an LSTM that is too long to be unrolled, products; an output from the middle of it."""
    hidden, channels, steps = 6, 5, 40
    nodes = [
        node("Conv", ["x", "k"], ["a"], name="conv", pads=[1, 1, 1, 1]),
        node("Relu", ["a"], ["b"], name="relu"),
        node("Sigmoid", ["b"], ["side"], name="side"),
        node("ReduceMean", ["b"], ["m"], name="mean", axes=[2], keepdims=0),
        node("Transpose", ["m"], ["t"], name="turned", perm=[2, 0, 1]),
        node("LSTM", ["t", "w", "r"], ["h", "", ""], name="lstm", hidden_size=hidden),
        node("MatMul", ["h", "v"], ["p"], name="product"),
        node("Concat", ["p", "h"], ["y"], name="both", axis=3),
    ]
    constants = [
        weights("k", floats(channels, 3, 3, 3)),
        weights("w", floats(1, 4 * hidden, channels)),
        weights("r", floats(1, 4 * hidden, hidden)),
        weights("v", floats(hidden, 9)),
    ]
    return model(nodes, [tensor_input("x", [1, 3, 8, steps])], ["y", "side"], constants, opset=13)


def suppressed() -> onnx.ModelProto:
    """Scores by a product, boxes as they come, then non-max suppression."""
    nodes = [
        node("MatMul", ["x", "w"], ["s"], name="scores"),
        node("Sigmoid", ["s"], ["p"], name="probable"),
        node("NonMaxSuppression", ["boxes", "p", "most", "overlap"], ["y"], name="suppressed"),
    ]
    constants = [
        weights("w", floats(4, 12)),
        weights("most", np.array([3], np.int64)),
        weights("overlap", np.array([0.5], np.float32)),
    ]
    inputs = [tensor_input("x", [1, 2, 4]), tensor_input("boxes", [1, 12, 4])]
    return model(nodes, inputs, ["y"], constants)


@pytest.fixture
def beside(tmp_path: Path) -> Path:
    """This machine with PoCL beside it, which prices take for a GPU so fast that all it can do goes there."""
    gpu = tmp_path / "eager.toml"
    gpu.write_text(
        'base = "host_pocl"\ndescription = "PoCL, priced as a large GPU"\n[gpu]\nmultiply_adds = 100_000\n'
        "memory_gbps = 4_000\n[measured]\nlaunch_us = 0.01\nhandover_us = 0.01\ncopy_gbps = 4_000\n"
    )
    device = tmp_path / "beside.toml"
    device.write_text(f'base = "host"\ndescription = "a processor with a GPU"\ngpu_device = "{gpu}"\n')
    return device


def told_in_c(built: Path, scratch: Path) -> list[tuple[str, str]]:
    """Devices and reasons by the function of the C, in a program without the network."""
    (scratch / "told.c").write_text(
        '#include <stdio.h>\n#include "net_where.h"\nint main(void) {\n  size_t count;\n'
        "  const net_place *p = net_where(&count);\n  while (count--) {\n"
        '    printf("%s|%s\\n", p->device, p->why);\n    ++p;\n  }\n}\n'
    )
    sources = [scratch / "told.c", built / "net_where.c"]
    words = ["cc", "-Wall", "-Wextra", "-Werror", f"-I{built}", *map(str, sources), "-o", str(scratch / "told")]
    subprocess.run(words, check=True)
    lines = subprocess.run([scratch / "told"], capture_output=True, text=True, check=True).stdout.splitlines()
    return [(device, why) for device, _, why in (line.partition("|") for line in lines)]


@pytest.mark.parametrize("seed", range(40))
def test_the_cut_is_the_cheapest(seed: int) -> None:
    random = np.random.default_rng(seed)
    vertices = range(int(random.integers(1, 7)))
    names = [*vertices, Cut.source, Cut.sink]
    chosen = [(int(a), int(b), float(random.integers(0, 9))) for a, b in random.integers(0, len(names), (16, 2))]
    edges = [(names[a], names[b], price) for a, b, price in chosen]
    cut = Cut()
    for edge in edges:
        cut.edge(*edge)

    def costs(far: set[Hashable]) -> float:
        there = {*far, Cut.sink}
        return sum(price for a, b, price in edges if a not in there and b in there)

    every = [{v for v, taken in zip(vertices, sides) if taken} for sides in product((0, 1), repeat=len(vertices))]
    assert costs(cut.far_side()) == min(map(costs, every))


def test_no_other_assignment_is_cheaper() -> None:
    pixel, mali = load_device("pixel_8"), load_device("mali_g710")
    found = assign(plan(import_model(recurrent())), pixel, mali, 1)
    alone = sum(p.cpu_seconds for p in found.blocks)
    assert found.seconds <= alone
    assert all(p.side == "cpu" for p in found.blocks if p.refused)
    assert [p.refused for p in found.blocks if p.gpu_seconds == NEVER] == [p.refused for p in found.blocks if p.refused]


@pytest.mark.parametrize("seed", range(6))
def test_segments_mean_what_the_network_means(seed: int) -> None:
    """Any assignment at all: the GPU's segments are planned and scheduled for it, and executed in numpy."""
    random = np.random.default_rng(seed)
    whole = plan(import_model(recurrent()))
    devices = {"cpu": load_device("pixel_8"), "gpu": load_device("mali_g710")}
    values = {b.output for b in whole.blocks} | whole.filled
    sides = {n: ("cpu", "gpu")[int(random.integers(2))] for n in sorted(values, key=lambda n: n.key)}
    blocks = tuple(
        AssignedBlock(b, "cpu" if b.is_procedure else sides[b.output], 0.0, 0.0)
        for b in whole.blocks  # type: ignore[arg-type]
    )
    filled = {n: side for n, side in sides.items() if n in whole.filled}
    segments = divide(whole.graph, Assignment(blocks, (), filled))  # type: ignore[arg-type]
    parts = []
    for s in segments:
        device = devices[s.side]
        program = schedule(plan(s.graph, gpu=device.is_gpu), device)
        parts.append(Part(device, program, s.reads, s.writes))
    given = {"x": floats(1, 3, 8, 40)}
    want = evaluate.run(whole.graph, given)
    got = run_program(joined(whole, parts), given)
    for name, array in want.items():
        np.testing.assert_allclose(got[name], array, atol=1e-5)


@pytest.mark.skipif(not driver(), reason="no OpenCL here: apt-get install pocl-opencl-icd ocl-icd-libopencl1")
def test_what_the_gpu_has_no_kernel_for_runs_on_the_processor(beside: Path, tmp_path: Path) -> None:
    built = edgec.build(recurrent().SerializeToString(), tmp_path / "out", device=beside, place="auto", threads=2)
    assert [p.device.name for p in built.program.parts] == ["eager", "beside", "eager"]
    checked = edgec.check(built)
    assert checked.ok, checked
    assert built.network is not None
    of = {name: row for row in built.network.where() for name in row.operators}
    assert of["conv"].device == "eager" and of["conv"].why.startswith("predicted ")
    (refused,) = [row for row in built.network.where() if row.device == "beside"]
    assert "lstm" in refused.operators
    assert refused.why == "not on eager: recurrence is a procedure, which has no kernel there yet"
    assert [(row.device, row.why) for row in built.network.where()] == told_in_c(tmp_path / "out", tmp_path)
    assert edgec.check(built, samples=1, link="local").ok
    with pytest.raises(UsageError, match="two devices are not told apart"):
        tune_on_device(recurrent().SerializeToString(), link="local", device=beside, place="auto")
    boxes = np.sort(RANDOM.random((1, 12, 2, 2), np.float32), axis=2).reshape(1, 12, 4)
    found = edgec.build(suppressed().SerializeToString(), device=beside, place="auto")
    assert edgec.check(found, inputs={"x": floats(1, 2, 4), "boxes": boxes}).ok


def test_the_plan_is_shown(beside: Path, tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    onnx.save(recurrent(), str(path))
    arguments = ["build", str(path), "-o", str(tmp_path / "out"), "-d", str(beside), "--no-compile"]
    shown = CliRunner().invoke(app, [*arguments, "--place", "auto"], env={"COLUMNS": "160"})
    assert shown.exit_code == 0, shown.output
    assert "BufferAlias" in shown.output and "not on eager: lstm: recurrence is a procedure" in shown.output
    told = json.loads(CliRunner().invoke(app, [*arguments, "--place", "auto", "--json"]).stdout)["partition"]
    assert [p["side"] for p in told["parts"]] == ["gpu", "cpu", "gpu"]
    assert {b["side"] for b in told["blocks"] if "conv" in b["operators"]} == {"gpu"}
    assert told["gpu_alone_ms"] is None and told["predicted_ms"] < told["cpu_alone_ms"]
    alone = json.loads(CliRunner().invoke(app, [*arguments, "--place", "cpu", "--json"]).stdout)
    assert alone["partition"] is None and alone["device"] == "beside"


def test_a_gpu_alone_refuses_by_name(beside: Path, tmp_path: Path) -> None:
    with pytest.raises(DeviceError, match="recurrence") as refused:
        edgec.build(recurrent().SerializeToString(), tmp_path / "out", device=beside, place="gpu", compile=False)
    assert refused.value.where is not None and "lstm" in refused.value.where
    with pytest.raises(UsageError, match="no GPU is known beside"):
        edgec.build(recurrent().SerializeToString(), device="raspberry_pi_4", place="auto", compile=False)
    with pytest.raises(UsageError, match="two devices"):
        edgec.build(recurrent().SerializeToString(), device=beside, place="auto", compile=False, extras=["cpp"])


def test_phones_know_their_gpus() -> None:
    dense = [node("Gemm", ["x", "w"], ["y"], name="dense")]
    small = model(dense, [tensor_input("x", [1, 64])], ["y"], [weights("w", floats(64, 8))])
    built = edgec.build(small.SerializeToString(), device="pixel_8", place="auto", compile=False)
    assert built.options.device.name == "pixel_8" and not built.program.parts  # a launch costs more than this
    (row,) = placed(json.loads(built.stages["emit"].files[LOCK]))
    assert row.operators == ("dense",) and row.device == "pixel_8" and "ms on mali_g710" in row.why
    alone = edgec.build(small.SerializeToString(), device="pixel_8", compile=False)
    (row,) = placed(json.loads(alone.stages["emit"].files[LOCK]))
    assert row == Placed(("dense",), "contract", "pixel_8", "the build is for this device alone")
    for phone, gpu in (("pixel_8", "mali_g710"), ("galaxy_s20", "adreno_650")):
        assert load_device(phone).gpu_device == gpu
