"""The matrix: cells of small networks drawn at random, what makes one wrong, and the page."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from needed import need, need_opencl
from small_models import model, node, tensor_input, weights

import edgec
from benchmarks.matrix import __main__ as matrix
from benchmarks.matrix import page, single
from benchmarks.matrix.cells import DEVICES, OPTIONS, Cell, cells, drawn
from benchmarks.matrix.peers import cosine, four_bits, loss

#: Share of all cells that a run of the tests tries. Another seed: EDGEC_MATRIX_SEED=7 pytest tests/benchmarks.
SHARE, SEED = 0.1, int(os.environ.get("EDGEC_MATRIX_SEED", "23"))
#: Programs that the cells of a device need, each with the packages it is in.
ARM = (("qemu-aarch64", "qemu-user"), ("aarch64-linux-gnu-gcc", "gcc-aarch64-linux-gnu", "libc6-dev-arm64-cross"))
NEEDED = {
    "arm64": ARM,
    "raspberry-pi-5": ARM,
    "riscv64": (
        ("qemu-riscv64", "qemu-user"), ("riscv64-linux-gnu-gcc", "gcc-riscv64-linux-gnu", "libc6-dev-riscv64-cross"),
    ),
    "wasm": (("node", "nodejs"),),
    "cortex-m7": (
        ("qemu-system-arm", "qemu-system-arm"), ("arm-none-eabi-gcc", "gcc-arm-none-eabi", "libnewlib-arm-none-eabi"),
    ),
}  # fmt: skip


def convolutions() -> onnx.ModelProto:
    """A bottleneck with a gate and a residual, and a classifier."""
    random = np.random.default_rng(0)
    given: list[onnx.TensorProto] = []

    def drawn_weights(*shape: int) -> str:
        value = random.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))
        given.append(weights(f"w{len(given)}", value.astype(np.float32)))
        return given[-1].name

    nodes = [
        node("Conv", ["x", drawn_weights(32, 3, 3, 3)], ["a"], pads=[1] * 4),
        node("Relu", ["a"], ["b"]),
        node("Conv", ["b", drawn_weights(32, 1, 3, 3)], ["c"], pads=[1] * 4, group=32),
        node("HardSwish", ["c"], ["d"]),
        node("GlobalAveragePool", ["d"], ["e"]),
        node("Conv", ["e", drawn_weights(32, 32, 1, 1)], ["f"]),
        node("Sigmoid", ["f"], ["g"]),
        node("Mul", ["d", "g"], ["h"]),
        node("Conv", ["h", drawn_weights(32, 32, 1, 1)], ["i"]),
        node("Add", ["i", "b"], ["j"]),
        node("GlobalAveragePool", ["j"], ["k"]),
        node("Flatten", ["k"], ["l"]),
        node("Gemm", ["l", drawn_weights(10, 32)], ["y"], transB=1),
    ]
    return model(nodes, [tensor_input("x", [1, 3, 13, 11])], initializers=given)


def attention() -> onnx.ModelProto:
    """One head over a sequence, with a normalization and a residual."""
    random = np.random.default_rng(1)
    names = ("q", "k", "v", "o")
    given = [weights(f"w{n}", (random.standard_normal((64, 64)) / 8).astype(np.float32)) for n in names]
    given += [weights("s", np.float32(0.125)), weights("one", np.ones(64, np.float32))]
    nodes = [node("LayerNormalization", ["x", "one"], ["n"], axis=-1)]
    nodes += [node("MatMul", ["n", f"w{name}"], [name]) for name in ("q", "k", "v")]
    nodes += [
        node("Transpose", ["k"], ["t"], perm=[0, 2, 1]),
        node("MatMul", ["q", "t"], ["a"]),
        node("Mul", ["a", "s"], ["b"]),
        node("Softmax", ["b"], ["p"]),
        node("MatMul", ["p", "v"], ["c"]),
        node("MatMul", ["c", "wo"], ["d"]),
        node("Add", ["d", "x"], ["y"]),
    ]
    return model(nodes, [tensor_input("x", [1, 9, 64])], initializers=given)


NETWORKS = {"convolutions": convolutions, "attention": attention}


def judged(network: str, option: str, device: str, folder: Path) -> dict[str, Any]:
    """The row of one cell, found in this process."""
    path = folder / f"{network}.onnx"
    onnx.save(NETWORKS[network](), path)
    job = {
        "name": "cell", "option": option, "device": device, "path": str(path), "folder": str(folder),
        "peers": str(folder), "shapes": {}, "values": {}, "memory": 2**40, "patience": 60,
    }  # fmt: skip
    single.run(job, folder / "row.json")
    row: dict[str, Any] = json.loads((folder / "row.json").read_text())
    return row


EVERY = cells([*NETWORKS])
DRAWN = drawn(EVERY, round(SHARE * len(EVERY)), SEED)


@pytest.mark.parametrize("cell", DRAWN, ids=lambda c: c.name)
def test_drawn_cells_are_right_or_refused(cell: Cell, tmp_path: Path) -> None:
    for program, *packages in NEEDED.get(cell.device, ()):
        need(program, *packages)
    if cell.device == "pocl":
        need_opencl()
    row = judged(cell.network, cell.option, cell.device, tmp_path)
    assert row["step"] == "done" and row["verdict"] in ("right", "refused"), row


@pytest.mark.parametrize("option", ["plain", "int8-dynamic", "prune-vector"])
def test_wrong_results_are_seen(option: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every eighth result is of the wrong sign."""
    execute = single._results

    def spoiled(*given: Any) -> list[dict[str, np.ndarray]]:
        found = execute(*given)
        for arrays in found:
            for a in arrays.values():
                a.reshape(-1)[::8] *= -1
        return found

    monkeypatch.setattr(single, "_results", spoiled)
    assert judged("attention", option, "host", tmp_path)["verdict"] == "wrong"


def test_values_beyond_fp16_leave_nothing_to_judge(tmp_path: Path) -> None:
    """A quotient of two products, whose numerator exceeds 65504 in one network and not in the other."""
    for factor, is_beyond in ((100.0, False), (1e6, True)):
        scale = weights("w", np.full((64, 64), factor, np.float32))
        nodes = [node("MatMul", ["x", "w"], ["a"]), node("Softmax", ["a"], ["y"])]
        onnx.save(model(nodes, [tensor_input("x", [64, 64])], initializers=[scale]), tmp_path / "net.onnx")
        built = edgec.build(tmp_path / "net.onnx", compile=False, device="cuda_sm86", precision="fp16")
        sets = [{"x": np.ones((64, 64), np.float32) / 64}]
        single._check_range(built, sets, [{"y": np.ones(1, np.float32)}], "fp16")
        broken = [{"y": np.full(1, np.inf, np.float32)}]
        single._check_range(built, sets, broken, "fp32")
        if not is_beyond:
            single._check_range(built, sets, broken, "fp16")
        else:
            with pytest.raises(single.Void, match="reach 1e\\+06, beyond 65504"):
                single._check_range(built, sets, broken, "fp16")


def test_draws_with_a_seed_are_prefixes_of_longer_ones() -> None:
    every = cells(["a", "b"])
    assert len(every) == 2 * len(OPTIONS) * len(DEVICES) and drawn(every, None, 0) == every
    assert drawn(every, 9, 1) == drawn(every, 30, 1)[:9] != drawn(every, 9, 2)
    assert {c.device for c in cells(["a"], ["cuda*", "int8"])} == {"cuda", "cuda-fp16"}


def test_groups_of_weights_have_sixteen_levels() -> None:
    rows = np.random.default_rng(0).standard_normal((2, 64)).astype(np.float32)
    for group, plain in zip(four_bits(rows).reshape(4, 32), rows.reshape(4, 32)):
        assert len(np.unique(group)) <= 16
        assert np.abs(group - plain).max() <= 1.01 * np.abs(plain).max() / 8


def test_a_mixed_network_keeps_its_bound_where_it_was_calibrated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert judged("convolutions", "mixed", "host", tmp_path)["verdict"] == "right"
    monkeypatch.setattr(single, "cosine", lambda got, want: min(cosine(got, want), 0.9989))
    assert judged("convolutions", "mixed", "host", tmp_path)["verdict"] == "wrong"


def test_a_bad_peer_excuses_no_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However much the peer's quantizer loses, compiled code computes its own mixed network."""
    computed = single._results
    monkeypatch.setattr(single, "_peer", lambda *_: [{}])
    monkeypatch.setattr(single, "loss", lambda got, want: 0.9 if got == [{}] else loss(got, want))
    assert judged("convolutions", "mixed", "host", tmp_path)["verdict"] == "right"
    off = 1.2
    monkeypatch.setattr(
        single, "_results", lambda *given: [{n: off * a for n, a in out.items()} for out in computed(*given)]
    )
    assert judged("convolutions", "mixed", "host", tmp_path)["verdict"] == "wrong"


def test_cosines_are_of_the_worst_output() -> None:
    want = {"a": np.array([3.0, 4.0]), "b": np.array([1.0, 0.0]), "n": np.array([1]), "z": np.zeros(2)}
    assert cosine(want, want) == pytest.approx(1.0)
    assert cosine({**want, "a": 2 * want["a"], "n": np.array([7])}, want) == pytest.approx(1.0)
    assert cosine({**want, "b": np.array([3.0, 4.0])}, want) == pytest.approx(0.6)
    assert cosine({**want, "b": np.array([np.nan, 0.0])}, want) == 0.0
    open_ = {**want, "b": np.array([1.0, np.nan, np.inf])}
    assert cosine(open_, open_) == pytest.approx(1.0)


def test_a_run_goes_on_where_it_ended(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    onnx.save(attention(), tmp_path / "net.onnx")
    given = ["--cache", str(tmp_path / "cache"), "--file", str(tmp_path / "net.onnx"), "--only", "host"]
    assert matrix.main([*given, "--only", "threads"]) == 0
    assert "1/1 net threads host: right" in capsys.readouterr().out
    assert matrix.main([*given, "--only", "threads", "--page", str(tmp_path / "matrix.md")]) == 0
    assert not capsys.readouterr().out
    written = (tmp_path / "matrix.md").read_text()
    assert (
        "| threads | 1 | 1 |" in written and f"benchmarks.matrix --cells 0 --page {tmp_path / 'matrix.md'}\n" in written
    )


def test_the_page_counts_and_groups() -> None:
    usual = {"network": "n", "option": "int8", "device": "host", "date": "2026-01-01"}
    rows = [
        {**usual, "name": "a", "verdict": "refused", "message": "node 'a' needs 3 bytes"},
        {**usual, "name": "b", "verdict": "refused", "message": "node 'b' needs 17 bytes"},
        {**usual, "name": "c", "verdict": "wrong", "loss": 0.5, "allowed": 0.1},
        {**usual, "name": "d", "step": "run", "error": "killed by SIGSEGV"},
    ]
    rows += [{**usual, "name": n, "verdict": "right", "set": "s", "seed": 3, "code": "abc"} for n in "ef"]
    text = page.text(rows)
    assert "4 of commit unknown, 2 of commit abc" in text and "--set s --cells 2 --seed 3\n" in text
    assert "| int8 | 6 | 2 | 2 | 1 | 1 |  |" in text and "| 2 | node 'a' needs 3 bytes | a |" in text
    assert "| c | 5.0e-01 | 1.0e-01 |  |" in text and "killed by SIGSEGV" in text
