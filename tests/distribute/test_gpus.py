"""Networks over two GPUs, in emulation: the kernels of both run in turns, and exchange values as the GPUs would."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from emulated import FLAGS
from onnxruntime import InferenceSession
from small_models import model, node, tensor_input, weights
from test_tensor_networks import attention, carried_twice, convs, drawn, mlp
from typer.testing import CliRunner

import edgec
from edgec.artifact.folder import read_lock
from edgec.cli.main import app
from edgec.distribute.gpus import BuiltGpus, build_gpus
from edgec.emit.collectives import is_exchange
from edgec.emit.project import files
from edgec.errors import DeviceError, ModelError, UsageError
from edgec.execute.executor import run_program
from edgec.execute.ranks import run_ranks
from edgec.options import resolve
from edgec.schedule.procedure import ProcedureCall
from edgec.schedule.program import Program

#: Exchanges so fast that everything is divided.
FAST = "9999999G/0.000001"


def layer(batch: int = 2, heads: int = 4, of_head: int = 8, inner: int = 96) -> onnx.ModelProto:
    """x [batch, 6, width] -> y: a layer of BERT, biases and norms included."""
    wide = heads * of_head
    nodes, made = [], []

    def linear(x: str, name: str, rows: int, columns: int) -> str:
        nodes.extend(
            [
                node("MatMul", [x, f"w{name}"], [f"{name}0"], f"{name}_product"),
                node("Add", [f"{name}0", f"b{name}"], [name], f"{name}_bias"),
            ]
        )
        made.extend(
            [weights(f"w{name}", drawn(rows, columns) * (1 + len(made) / 40)), weights(f"b{name}", drawn(columns))]
        )
        return name

    for name, perm in (("q", [0, 2, 1, 3]), ("k", [0, 2, 3, 1]), ("v", [0, 2, 1, 3])):
        nodes_of = [
            node("Reshape", [linear("x", name, wide, wide), "split"], [f"{name}1"], f"{name}_split"),
            node("Transpose", [f"{name}1"], [f"{name}2"], f"{name}_turned", perm=perm),
        ]
        nodes.extend(nodes_of)
    nodes.extend([
        node("MatMul", ["q2", "k2"], ["s"], "scores"), node("Softmax", ["s"], ["p"], "shares", axis=-1),
        node("MatMul", ["p", "v2"], ["o"], "mixed"), node("Transpose", ["o"], ["o1"], "back", perm=[0, 2, 1, 3]),
        node("Reshape", ["o1", "merged"], ["o2"], "joined"),
        node("Add", ["x", linear("o2", "out", wide, wide)], ["c"], "carried"),
        node("LayerNormalization", ["c", "g", "h"], ["n"], "norm", axis=-1),
        node("Relu", [linear("n", "up", wide, inner)], ["r"], "relu"),
        node("Add", ["n", linear("r", "down", inner, wide)], ["c2"], "carried2"),
        node("LayerNormalization", ["c2", "g", "h"], ["y"], "norm2", axis=-1),
    ])  # fmt: skip
    made += [weights("g", 1 + drawn(wide) / 9), weights("h", drawn(wide))]
    made += [weights("split", np.array([batch, 6, heads, of_head])), weights("merged", np.array([batch, 6, wide]))]
    return model(nodes, [tensor_input("x", [batch, 6, wide])], ["y"], made)


#: By name: the network, the split, the precision, the sums and gathers of a run, and the greatest error.
CASES: Mapping[str, tuple[Any, str, str, tuple[int, int], float]] = {
    "layer": (layer(), "tensor", "fp32", (2, 0), 1e-5),
    "halves": (layer(), "tensor", "fp16", (2, 0), 5e-3),
    "rows": (layer(), "rows", "fp32", (0, 0), 1e-5),
    "mlp": (mlp(96), "tensor", "fp32", (1, 0), 1e-5),
    "gathers": (carried_twice(), "tensor", "fp32", (1, 1), 1e-5),
    "odd_heads": (attention(5, 8), "auto", "fp32", (0, 4), 1e-5),
    "channels": (convs(12), "tensor", "fp32", (1, 0), 1e-5),
}


def built(made: onnx.ModelProto, folder: Path, **given: Any) -> BuiltGpus:
    usual = {"gpus": 2, "force": True, "link_speed": FAST, "device": "cuda_sm90", "compile": False}
    return build_gpus(made, folder, **{**usual, **given})


@pytest.fixture(scope="module")
def networks(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[BuiltGpus, Any]]:
    """All cases as one library, and what loads each of them."""
    root = tmp_path_factory.mktemp("gpus")
    found = {}
    for name, (made, split, precision, _, _) in CASES.items():
        found[name] = built(made, root / name, split=split, precision=precision, name=name)
    sources = sorted(path for name in CASES for path in (root / name).glob("*.cu"))
    (root / "all.cu").write_text("".join(f'#include "{path}"\n' for path in sources))
    command = [os.environ.get("CXX", "g++"), *FLAGS, "-shared", "-fPIC", "-o", "all.so", "all.cu"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=root)
    assert done.returncode == 0, done.stderr[:4000]
    return {name: (b, _net(root / name / f"{name}.py", root / "all.so")) for name, b in found.items()}


def _net(path: Path, library: Path) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Net(library=library)


def given_and_wanted(made: onnx.ModelProto, seed: int = 0) -> tuple[dict[str, np.ndarray], np.ndarray]:
    session = InferenceSession(made.SerializeToString())
    (port,) = session.get_inputs()
    x = np.random.default_rng(seed).standard_normal(port.shape).astype(np.float32)
    return {port.name: x}, np.asarray(session.run(None, {port.name: x})[0])


def error(got: np.ndarray, wanted: np.ndarray) -> float:
    return float(np.abs(np.float64(got) - wanted).max() / np.abs(wanted).max())


@pytest.mark.parametrize("name", CASES)
def test_two_gpus_agree_with_one(name: str, networks: dict[str, tuple[BuiltGpus, Any]]) -> None:
    made, _, _, crossing, most = CASES[name]
    b, net = networks[name]
    assert b.gpus == 2 and (b.sums, b.gathers) == crossing
    for seed in (0, 1):
        given, wanted = given_and_wanted(made, seed)
        net.poison(0xFF)
        got = net(*given.values())
        assert error(got, wanted) < most
        assert np.array_equal(net(*given.values()), got)


def test_what_cannot_be_captured_is_launched(
    networks: dict[str, tuple[BuiltGpus, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    b, captured = networks["layer"]
    given, wanted = given_and_wanted(CASES["layer"][0])
    assert captured.exchange == ("emulated", None)
    monkeypatch.setenv("EC_NO_CAPTURE", "1")
    net = _net(b.folder / "layer.py", b.folder.parent / "all.so")
    assert net.exchange == ("emulated", "not permitted when stream is capturing")
    assert error(net(*given.values()), wanted) < 1e-5 and net.milliseconds(2) > 0


def test_programs_in_numpy_meet(networks: dict[str, tuple[BuiltGpus, Any]]) -> None:
    for name in ("layer", "rows", "gathers"):
        given, wanted = given_and_wanted(CASES[name][0])
        (got,) = run_program(networks[name][0].program, given).values()
        assert error(got, wanted) < 1e-5


@pytest.mark.parametrize("precision, kind", [("int8", "gather"), ("fp16", "sum")])
def test_what_is_exchanged_has_one_type(precision: str, kind: str, tmp_path: Path) -> None:
    """Sums of integers, and positions, keep 32 bits beside values in 16."""
    nodes = [node("MatMul", ["x", "w"], ["p"], "product"), node("Softmax", ["p"], ["y"], "shares", axis=-1)]
    if kind == "sum":  # of the network's own output
        nodes = [node("Relu", ["x"], ["r"], "relu"), node("MatMul", ["r", "w"], ["y"], "product")]
    made = model(nodes, [tensor_input("x", [3, 34])], ["y"], [weights("w", drawn(34, 8))])
    calibrate = {"calibrate": "random"} if precision == "int8" else {}
    b = built(made, tmp_path, split="tensor" if kind == "gather" else "auto", precision=precision, **calibrate)
    calls = [k.schedule for k in b.program.kernels if is_exchange(k)]
    assert calls
    for call in calls:
        assert isinstance(call, ProcedureCall) and call.arguments[0][0].dtype == call.store.dtype


def test_a_rank_is_not_run_alone(networks: dict[str, tuple[BuiltGpus, Any]]) -> None:
    given, _ = given_and_wanted(CASES["layer"][0])
    with pytest.raises(ModelError, match="one of 2 ranks does not run alone"):
        run_program(replace(networks["layer"][0].program, ranks=None), given)


def test_a_rank_that_fails_ends_the_others(networks: dict[str, tuple[BuiltGpus, Any]]) -> None:
    program = networks["layer"][0].program
    assert program.ranks is not None

    def run(own: Program, given: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        if own is other:
            raise ModelError("rank 1 fails")
        return run_program(own, given)

    (other,) = program.ranks.others
    with pytest.raises(ModelError, match="rank 1 fails"):
        run_ranks(program, given_and_wanted(layer())[0], run)


def test_each_gpu_has_its_part_of_the_weights(networks: dict[str, tuple[BuiltGpus, Any]], tmp_path: Path) -> None:
    one = edgec.build(layer(), tmp_path / "one", device="cuda_sm90", compile=False)
    tensor, rows = networks["layer"][0].program, networks["rows"][0].program
    assert tensor.weights_bytes < 0.6 * one.weights_bytes <= 0.6 * rows.weights_bytes
    held = (networks["layer"][0].folder / "layer_weights.bin").stat().st_size
    assert held == 2 * tensor.weights_bytes == read_lock(networks["layer"][0].folder)["weights_bytes"]


def test_ranks_of_other_code_are_refused(networks: dict[str, tuple[BuiltGpus, Any]]) -> None:
    program = networks["layer"][0].program
    assert program.ranks is not None
    other = replace(program.ranks.others[0], kernels=program.ranks.others[0].kernels[:-1])
    mixed = replace(program, ranks=replace(program.ranks, others=(other,)))
    with pytest.raises(DeviceError, match="the code of GPU 1 would differ"):
        files(mixed, resolve({"device": "cuda_sm90"}).device)


def test_one_gpu_is_taken_where_two_do_not_pay(tmp_path: Path) -> None:
    b = built(layer(), tmp_path / "slow", force=False, link_speed="1G/5")
    assert (b.gpus, b.program.ranks) == (1, None) and b.seconds == b.alone_s
    assert "2 GPUs" in b.verdict and b.verdict.endswith("does not pay")
    assert not (tmp_path / "slow" / "ec_ranks.h").exists() and "gpus" not in read_lock(tmp_path / "slow")


def test_large_products_are_predicted_to_pay(tmp_path: Path) -> None:
    """Of a layer on many rows, one exchange after attention and one after the last product; by figures of the file."""
    b = built(layer(4096, 8, 64, 2048), tmp_path, split="tensor", force=False, link_speed=None, precision="fp16")
    assert (b.gpus, b.sums + b.gathers) == (2, 2) and b.seconds < b.alone_s / 1.05
    assert sum(map(is_exchange, b.program.kernels)) == 2


#: Options that do not go together, and what is said of them.
REFUSED: Mapping[str, tuple[dict[str, Any], str]] = {
    "none": ({"gpus": 0}, "0 GPUs do not share a network"),
    "one": ({"gpus": 1}, "1 GPUs do not share a network"),
    "many": ({"gpus": 9}, "9 GPUs do not share a network"),
    "processor": ({"device": "host"}, "'host' is no NVIDIA GPU"),
    "OpenCL": ({"device": "generic_opencl"}, "is no NVIDIA GPU"),
    "split": ({"split": "pipeline"}, "do not divide a network by 'pipeline'"),
    "links": ({"device": "cuda_sm86", "link_speed": None}, "the links between GPUs of 'cuda_sm86' are not known"),
    "speed": ({"link_speed": "fast"}, "is no speed of a link"),
    "weights": ({"weights": "file"}, "is for a network on one device"),
    "mixed": ({"precision": "mixed:0.01", "calibrate": "random"}, "is for a network on one device"),
    "loss": ({"loss": "mse"}, "is for a network on one device"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_does_not_fit_is_refused(name: str, tmp_path: Path) -> None:
    given, said = REFUSED[name]
    with pytest.raises(UsageError, match=said) as refused:
        built(mlp(96), tmp_path / "out", **given)
    assert refused.value.hint and not (tmp_path / "out").exists()


def test_networks_that_cannot_be_divided_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="nothing can be divided in 2 equal parts") as refused:
        built(attention(5, 9), tmp_path, split="tensor")
    assert "have to be a multiple of 2" in str(refused.value.hint)
    opened = model(
        [node("MatMul", ["x", "w"], ["y"], "p")], [tensor_input("x", ["n", 8])], ["y"], [weights("w", drawn(8, 8))]
    )
    with pytest.raises(UsageError, match="dimensions of x, y are open"):
        built(opened, tmp_path, dims={"n": (1, 4)})


def test_the_command_line(tmp_path: Path) -> None:
    path, out = tmp_path / "net.onnx", tmp_path / "out"
    onnx.save(mlp(96), str(path))
    common = ["build", str(path), "--device", "cuda_sm90", "--gpus", "2", "-o", str(out)]
    done = CliRunner().invoke(app, [*common, "--split", "tensor", "--force", "--compiler", "emulated", "--json"])
    found = json.loads(done.output)
    assert (found["gpus"], found["sums"]) == (2, 1)
    checked = CliRunner().invoke(app, ["check", str(out), "--json"])
    assert json.loads(checked.output)["ok"] and checked.exit_code == 0
    for verb in (["profile", str(out)], ["explain", str(out), "first"], ["check", str(out), "--blocks"]):
        refused = CliRunner().invoke(app, verb)
        assert refused.exit_code == 2 and "not looked at one by one" in refused.output
    for more in (["--over", "host@local"], ["--app", "web"], ["--memory", "1M"], ["--shard", "first=1"], ["--report"]):
        refused = CliRunner().invoke(app, [*common, *more])
        assert refused.exit_code == 2 and "is not for several GPUs" in refused.output
