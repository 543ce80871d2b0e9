"""Batches in two parts on two GPUs, in emulation: values of one part cross while kernels of the other run."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from emulated import FLAGS
from small_models import model, node, tensor_input, weights
from test_gpus import _net, built, error, given_and_wanted, layer
from test_tensor_networks import drawn
from typer.testing import CliRunner

from edgec.cli.main import app
from edgec.distribute import chunks, gpus
from edgec.distribute.chunks import overlapped
from edgec.distribute.gpus import BuiltGpus
from edgec.emit.collectives import is_exchange
from edgec.execute.executor import run_program


@pytest.fixture(scope="module", autouse=True)
def paying() -> Iterator[None]:
    """Prices at which parts of a batch always pay: those of small networks are of launches alone."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gpus, "overlapped", lambda steps, chunks: overlapped(steps, chunks) / 10**chunks)
        yield


def shared_mask() -> onnx.ModelProto:
    """x [4, 6, 8] and one mask [6, 8] for all samples -> y and z, which the batch divides."""
    nodes = [
        node("Add", ["x", "mask"], ["masked"], "masked"), node("MatMul", ["masked", "up"], ["wide"], "up"),
        node("Relu", ["wide"], ["z"], "relu"), node("MatMul", ["z", "down"], ["y"], "down"),
    ]  # fmt: skip
    inputs = [tensor_input("x", [4, 6, 8]), tensor_input("mask", [6, 8])]
    return model(nodes, inputs, ["y", "z"], [weights("up", drawn(8, 32)), weights("down", drawn(32, 8))])


def samples_that_meet() -> onnx.ModelProto:
    """x [4, 64] -> y: a softmax over the batch between two products."""
    nodes = [
        node("MatMul", ["x", "up"], ["wide"], "up"), node("Softmax", ["wide"], ["shares"], "shares", axis=0),
        node("MatMul", ["shares", "down"], ["y"], "down"),
    ]  # fmt: skip
    return model(
        nodes, [tensor_input("x", [4, 64])], ["y"], [weights("up", drawn(64, 96)), weights("down", drawn(96, 64))]
    )


CASES: dict[str, tuple[onnx.ModelProto, str, float]] = {
    "parts": (layer(batch=4), "fp32", 1e-5),
    "halves": (layer(batch=6), "fp16", 5e-3),
    "mask": (shared_mask(), "fp32", 1e-5),
}


@pytest.fixture(scope="module")
def chunked(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[BuiltGpus, Any]]:
    """All cases as one library, and what loads each of them."""
    root = tmp_path_factory.mktemp("chunks")
    found = {}
    for name, (made, precision, _) in CASES.items():
        found[name] = built(made, root / name, split="tensor", precision=precision, name=name)
    sources = sorted(path for name in CASES for path in (root / name).glob("*.cu"))
    (root / "all.cu").write_text("".join(f'#include "{path}"\n' for path in sources))
    command = [os.environ.get("CXX", "g++"), *FLAGS, "-shared", "-fPIC", "-o", "all.so", "all.cu"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=root)
    assert done.returncode == 0, done.stderr[:4000]
    return {name: (b, _net(root / name / f"{name}.py", root / "all.so")) for name, b in found.items()}


@pytest.mark.parametrize("name", CASES)
def test_parts_of_a_batch_agree_with_the_whole(name: str, chunked: dict[str, tuple[BuiltGpus, Any]]) -> None:
    made, _, most = CASES[name]
    b, net = chunked[name]
    assert (b.gpus, b.chunks) == (2, 2) and b.sums + b.gathers >= 1
    session = _session(made)
    random = np.random.default_rng(3)
    for _ in range(2):
        given = {p.name: random.standard_normal(p.shape).astype(np.float32) for p in session.get_inputs()}
        wanted = dict(zip((p.name for p in session.get_outputs()), session.run(None, given)))
        net.poison(0xFF)
        got = net(*given.values())
        named = dict(zip(wanted, got if isinstance(got, tuple) else (got,)))
        in_numpy = run_program(b.program, given)
        for output, array in wanted.items():
            assert error(named[output], array) < most, output
            assert error(in_numpy[output], array) < most, output


def _session(made: onnx.ModelProto) -> Any:
    from onnxruntime import InferenceSession

    return InferenceSession(made.SerializeToString())


def test_parts_without_graphs(chunked: dict[str, tuple[BuiltGpus, Any]], monkeypatch: pytest.MonkeyPatch) -> None:
    b, _ = chunked["parts"]
    monkeypatch.setenv("EC_NO_CAPTURE", "1")
    net = _net(b.folder / "parts.py", b.folder.parent / "all.so")
    given, wanted = given_and_wanted(CASES["parts"][0])
    assert error(net(*given.values()), wanted) < 1e-5 and net.milliseconds(2) > 0


def test_one_part_where_another_gains_nothing(tmp_path: Path) -> None:
    """Batches that have no halves, samples that meet, what never crosses, and builds that are told so."""
    cases: dict[str, tuple[onnx.ModelProto, dict[str, Any]]] = {
        "odd": (layer(batch=3), {}), "meeting": (samples_that_meet(), {}),
        "rows": (layer(batch=4), {"split": "rows"}), "told": (layer(batch=4), {"overlap": False}),
    }  # fmt: skip
    for name, (made, given) in cases.items():
        b = built(made, tmp_path / name, **{"split": "tensor", **given})
        assert b.chunks == 1, name


def test_large_batches_are_predicted_to_gain(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """By the figures of the device file; a small batch has more launches in two parts."""
    monkeypatch.setattr(gpus, "overlapped", overlapped)
    for name, rows, parts in (("large", 2048, 2), ("small", 4, 1)):
        made = layer(rows, 8, 64, 2048)
        found = built(made, tmp_path / name, split="tensor", force=True, link_speed=None, precision="fp16")
        assert found.chunks == parts, found.verdict


def test_kernels_are_those_of_a_part(chunked: dict[str, tuple[BuiltGpus, Any]], tmp_path: Path) -> None:
    whole = built(layer(batch=4), tmp_path, split="tensor", overlap=False)
    part = chunked["parts"][0]
    assert part.kernels == whole.kernels and part.program.arena_bytes < whole.program.arena_bytes
    of_part, of_whole = ([k.schedule.store.bytes for k in b.program.kernels if is_exchange(k)] for b in (part, whole))
    assert [2 * moved for moved in of_part] == of_whole


def test_time_of_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    assert overlapped([(3.0, 2.0), (1.0, 0.0)], 1) == 6.0
    monkeypatch.setattr(chunks, "LOST", 0.0)
    # 3 kernels, 3 of the other part beside the first exchange, its exchange beside the last kernels of the first part
    assert overlapped([(3.0, 2.0), (1.0, 0.0)], 2) == 9.0
    assert overlapped([(1.0, 5.0), (1.0, 0.0)], 2) == 12.0
    assert overlapped([(2.0, 2.0)] * 4 + [(0.0, 0.0)], 2) == 18.0
    monkeypatch.setattr(chunks, "LOST", 0.5)
    assert overlapped([(2.0, 1.0)] * 2 + [(0.0, 0.0)], 2) == 10.5 and overlapped([(2.0, 1.0)], 1) == 3.0


def test_the_command_line_says_parts(tmp_path: Path) -> None:
    path, out = tmp_path / "net.onnx", tmp_path / "out"
    onnx.save(layer(batch=4), str(path))
    common = ["build", str(path), "--device", "cuda_sm90", "--split", "tensor", "--force"]
    for more, parts in (([], 2), (["--no-overlap"], 1)):
        given = [*common, "--gpus", "2", "--compiler", "emulated", "--json", "-o", str(out), *more]
        found = json.loads(CliRunner().invoke(app, given).output)
        assert (found["chunks"], "of each of 2 parts" in found["verdict"]) == (parts, parts == 2)
        checked = CliRunner().invoke(app, ["check", str(out), "--json"])
        assert json.loads(checked.output)["ok"] and checked.exit_code == 0
    refused = CliRunner().invoke(app, ["build", str(path), "--no-overlap"])
    assert refused.exit_code == 2 and "--no-overlap" in refused.output
