"""Low-rank adapters: beside the matrices of a model, trained alone, and written as PEFT reads them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from chance import RANDOM
from small_models import model, node, tensor_input, weights
from trained_models import convolutions, floats

import edgec
from edgec.check.training import check_training
from edgec.cli.main import main
from edgec.errors import UsageError
from edgec.frontend.hugging.adapter import read_adapter
from edgec.frontend.onnx.adapters import with_adapters
from edgec.frontend.onnx.model import read
from edgec.frontend.onnx.trainable import weights_of


def layers() -> onnx.ModelProto:
    """Three products: by a matrix transposed, by the same as it is, and a Gemm."""
    nodes = [
        node("Transpose", ["up.weight"], ["t"], "turned", perm=[1, 0]),
        node("MatMul", ["x", "t"], ["p"], "wide"),
        node("Tanh", ["p"], ["q"], "bent"),
        node("MatMul", ["q", "up.weight"], ["r"], "narrow"),
        node("Gemm", ["r", "last.weight", "last.bias"], ["y"], "last", transB=1),
    ]
    held = {"up.weight": floats(9, 6), "last.weight": floats(3, 6), "last.bias": floats(3)}
    return model(nodes, [tensor_input("x", [5, 6])], ["y"], [weights(n, v) for n, v in held.items()])


def test_only_adapters_learn(tmp_path: Path) -> None:
    proto = layers()
    x, target = RANDOM.standard_normal((5, 6)).astype(np.float32), RANDOM.integers(0, 3, 5)
    edgec.build(proto, tmp_path / "out", loss="cross_entropy", update="lora=2", optimizer="adam:lr=0.02", accumulate=2)
    with edgec.load(tmp_path / "out") as net:
        assert {n: w.shape for n, w in net.weights.items()} == {
            "up.lora_A.weight": (2, 6), "up.lora_B.weight": (9, 2), "last.lora_A.weight": (2, 6),
            "last.lora_B.weight": (3, 2),
        }  # fmt: skip

        def answers(path: Path) -> np.ndarray:
            found: np.ndarray = onnxruntime.InferenceSession(str(path)).run(None, {"x": x})[0]
            return found

        (tmp_path / "before.onnx").write_bytes(proto.SerializeToString())
        np.testing.assert_allclose(net(x), answers(tmp_path / "before.onnx"), atol=1e-5)
        assert check_training(net, vs=None, steps=5).ok
        losses = [net.step(x, target) for _ in range(80)]
        assert losses[-1] < losses[0] * 0.7
        net.export_onnx(tmp_path / "after.onnx")
        np.testing.assert_allclose(net(x), answers(tmp_path / "after.onnx"), atol=1e-5)
        held = {t.name: onnx.numpy_helper.to_array(t) for t in onnx.load(tmp_path / "after.onnx").graph.initializer}
        assert all(np.array_equal(held[t.name], onnx.numpy_helper.to_array(t)) for t in proto.graph.initializer)
        net.save_adapter(tmp_path / "adapter")
        pairs = read_adapter(tmp_path / "adapter").pairs
        assert set(pairs) == {"up", "last"}
        for module, pair in pairs.items():
            assert pair.scale == 1 and np.array_equal(pair.down, net.weights[f"{module}.lora_A.weight"])
            assert np.array_equal(pair.up, net.weights[f"{module}.lora_B.weight"])


def test_a_matrix_read_twice_has_one_adapter() -> None:
    """Each node multiplies by W, which is B A more: also where it reads W the other way round."""
    found = with_adapters(read(layers()), 2)
    assert [w.name for w in weights_of(found) if "lora" in w.name].count("up.lora_A.weight") == 1
    with pytest.raises(UsageError, match="'up' has an adapter already"):
        with_adapters(found, 2)


def test_refusals(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plain = model([node("Mul", ["x", "w"], ["y"])], [tensor_input("x", [2, 3])], ["y"], [weights("w", floats(3))])
    with pytest.raises(UsageError, match="no matrix for an adapter"):
        edgec.build(plain, tmp_path / "out", compile=False, loss="mse", update="lora=2")
    edgec.build(convolutions(), tmp_path / "out", loss="cross_entropy", update="last:1")
    with edgec.load(tmp_path / "out") as net, pytest.raises(UsageError, match="no adapter is trained"):
        net.save_adapter(tmp_path / "adapter")
    (tmp_path / "net.onnx").write_bytes(layers().SerializeToString())
    with pytest.raises(SystemExit):
        main(["train", str(tmp_path / "net.onnx"), "--loss", "cross_entropy", "--write-adapter", str(tmp_path / "a"),
              "--data", "none.npz", "--json"])  # fmt: skip
    assert "lora=8" in json.loads(capsys.readouterr().out)["error"]["hint"]
