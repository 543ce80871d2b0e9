"""Weights of another training for a program in the field: taken by its code and right, or refused with the reason."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from chance import RANDOM
from needed import need
from small_models import model, node, weights
from typer.testing import CliRunner

import edgec
from edgec.cli.main import app
from edgec.emit.weights import ABI
from edgec.errors import UsageError


def drawn(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype(np.float32)


def network(path: Path, top: float = 6.0, width: int = 16, step: float | None = None) -> Path:
    """Two layers with a trained slope and a trained factor, clipped at ``top``; rounded in a ``step`` between them."""
    slope = np.abs(drawn(1)) % np.float32(0.9)
    nodes = [node("MatMul", ["x", "w"], ["a"]), node("Add", ["a", "b"], ["c"]), node("PRelu", ["c", "slope"], ["d"])]
    nodes += [node("Clip", ["d", "low", "top"], ["e"])]
    tables = {"w": drawn(3, width), "b": drawn(width), "slope": slope, "v": drawn(width, 5), "temperature": drawn(1)}
    scalars = {"low": np.float32(-top), "top": np.float32(top)}
    if step is not None:
        nodes += [node("QuantizeLinear", ["e", "step"], ["q"]), node("DequantizeLinear", ["q", "step"], ["r"])]
        scalars["step"] = np.float32(step)
    nodes += [node("MatMul", ["r" if step else "e", "v"], ["f"]), node("Mul", ["f", "temperature"], ["g"])]
    nodes += [node("Softmax", ["g"], ["y"])]
    every = {**tables, **{name: np.array(value) for name, value in scalars.items()}}
    onnx.save(model(nodes, initializers=[weights(n, t) for n, t in every.items()], opset=13), path)
    return path


def updated(folder: Path, new: Path, *more: str) -> dict[str, Any]:
    done = CliRunner().invoke(app, ["update", str(folder), str(new), "--json", *more])
    assert done.exit_code in (0, 1), done.output
    record: dict[str, Any] = json.loads(done.stdout)
    assert record["ok"] == (done.exit_code == 0) == (not record["reasons"])
    return record


def test_another_training_is_taken(tmp_path: Path) -> None:
    """The program of the first network gives the answers of the second, in fp32 and with steps of 8 bits."""
    for name, step in (("float", None), ("steps", 0.0371)):
        first, second = network(tmp_path / f"{name}1.onnx", step=step), network(tmp_path / f"{name}2.onnx", step=step)
        out, file = tmp_path / name, tmp_path / f"{name}.weights"
        edgec.build(first, out, weights="file")
        assert updated(out, second)["file"] is None and not file.exists()
        assert updated(out, second, "-o", str(file))["file"] == str(file)
        (out / "net.weights").write_bytes(file.read_bytes())
        x = drawn(2, 3)
        (want,) = onnxruntime.InferenceSession(second).run(None, {"x": x})
        np.testing.assert_allclose(edgec.load(out)(x), want, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"width": 17}, "bytes of weights instead of"),
        ({"top": 0.271828}, r"0.271828f? in the code of net_kernels_0.c: .*\[.*d"),
        ({"step": 0.0371}, "the code of net_kernels_0.c is another|kernels instead of"),
    ],
)
def test_refused_with_the_reason(changed: dict[str, Any], reason: str, tmp_path: Path) -> None:
    out, file = tmp_path / "out", tmp_path / "file"
    edgec.build(network(tmp_path / "old.onnx"), out, weights="file", compile=False)
    record = updated(out, network(tmp_path / "new.onnx", **changed), "-o", str(file))
    assert record["abi"] != record["built_abi"] and not file.exists()
    assert any(re.search(reason, told) for told in record["reasons"]), record["reasons"]


def test_linked_weights_have_no_updates(tmp_path: Path) -> None:
    edgec.build(network(tmp_path / "m.onnx"), tmp_path / "out", compile=False)
    done = CliRunner().invoke(app, ["update", str(tmp_path / "out"), str(tmp_path / "m.onnx")])
    assert done.exit_code == 2 and "only weights in a file of their own" in done.output
    with pytest.raises(UsageError, match="no operating system"):
        edgec.build(tmp_path / "m.onnx", tmp_path / "bare", device="cortex_m7", weights="file", compile=False)


def test_an_image_in_flash_memory(tmp_path: Path) -> None:
    """The embedded app checks its weights at a fixed address, and takes those of an update that replaces the pages."""
    need("arm-none-eabi-gcc", "gcc-arm-none-eabi"), need("qemu-system-arm", "qemu-system-arm")
    out, board = tmp_path / "out", {"device": "mps2_an386", "weights": "file", "compile": False}
    first, second = (network(tmp_path / f"{k}.onnx") for k in range(2))
    edgec.build(first, out, extras=["embedded"], **board)
    updated(out, second, "-o", str(tmp_path / "new"))
    new = (tmp_path / "new").read_bytes()
    x = drawn(2, 3)
    (out / "embedded" / "x").write_bytes(x.tobytes())
    subprocess.run(["make", "-s", "-C", str(out / "embedded")], check=True)
    kept, told = (b"for this device alone" in (out / "embedded" / f).read_bytes() for f in ("net.elf", "net_where.a"))
    assert told and not kept  # a table that nobody calls takes no flash memory
    cases = {
        "damaged": (new[:4200] + bytes([new[4200] ^ 4]) + new[4201:], "the weights are damaged"),
        "other": (new[:ABI] + bytes(32) + new[ABI + 32 :], "made for another build"),
        "erased": (b"\xff" * len(new), "this is no file of weights"),
        "new": (new, ""),
    }
    for name, (content, told) in cases.items():
        (tmp_path / name).write_bytes(content)
        command = ["arm-none-eabi-objcopy", "--update-section", f".edgec_weights={tmp_path / name}", "net.elf", "n.elf"]
        subprocess.run(command, cwd=out / "embedded", check=True)
        machine = ["qemu-system-arm", "-M", "mps2-an386", "-nographic", "-monitor", "none", "-serial", "none"]
        words = "enable=on,target=native,arg=n.elf,arg=x"
        done = subprocess.run(
            [*machine, "-semihosting-config", words, "-kernel", "n.elf"],
            cwd=out / "embedded", capture_output=True, text=True, timeout=60,
        )  # fmt: skip
        assert told in done.stderr and done.returncode == (2 if told else 0), (name, done.stdout, done.stderr)
    (want,) = onnxruntime.InferenceSession(second).run(None, {"x": x})
    assert done.stdout.startswith(f"class {np.argmax(want)}\n")
    assert f"score {int(np.float32(np.max(want)) * 1000)} " in done.stdout
