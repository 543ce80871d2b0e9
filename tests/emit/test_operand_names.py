"""Names of parameters and comments of kernel functions: readable, safe, and no hindrance to sharing functions."""

from __future__ import annotations

import re

import numpy as np
import onnx
import pytest
from small_models import model, node, tensor_input, weights

from edgec.api import Context, resolve
from edgec.emit.identifiers import is_free
from edgec.emit.operand_names import _common
from edgec.pipeline import run

LAYERS = 5


def numbers(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def layers() -> onnx.ModelProto:
    """Layers of the same shape, whose weights and names differ."""
    nodes, constants, last = [], [], "tokens"
    for k in range(LAYERS):
        nodes += [
            node("MatMul", [last, f"w{k}"], [f"p{k}"], f"/encoder/layer.{k}/dense/MatMul"),
            node("Add", [f"p{k}", f"b{k}"], [f"s{k}"], f"/encoder/layer.{k}/dense/Add"),
            node("Tanh", [f"s{k}"], [f"t{k}"], f"/encoder/layer.{k}/act*/Tanh??/\\"),
        ]
        constants += [weights(f"w{k}", numbers(k, 32, 32)), weights(f"b{k}", numbers(k + 9, 32))]
        last = f"t{k}"
    return model(nodes, [tensor_input("tokens", [8, 32])], [last], constants)


def kernels_of(proto: onnx.ModelProto) -> str:
    settings = resolve({"device": "x86_64_avx512", "name": "net"})
    files = run(proto.SerializeToString(), Context(settings))["emit"].files
    return "".join(text.decode() for path, text in sorted(files.items()) if re.fullmatch(r"net_kernels_\d\.c", path))


def test_equal_layers_share_a_function() -> None:
    """Parameters have the words that names of tensors have in common, else a role; the comment counts the kernels."""
    text = kernels_of(layers())
    functions = re.findall(r"^void (\w+)\(", text, re.MULTILINE)
    assert len(functions) < LAYERS
    assert f"{LAYERS - 1} kernels, each " in text or f"{LAYERS} kernels, each " in text
    comments = re.findall(r"/\*.*?\*/", text, re.DOTALL)
    about = next(c for c in comments if "kernels, each" in c)
    assert "/encoder/layer.0" in about or "/encoder/layer.1" in about
    assert "??" not in about and "\\" not in about
    assert len(about.splitlines()) == 3
    assert re.search(r"\(const float \*restrict \w+, .*\bbias\b.*\bweights\b.*\bact_tanh_2\b", text)


@pytest.mark.parametrize(
    ("names", "common"),
    [
        (["/layer.0/dense/Add"], "layer_0_dense_add"),
        (["/layer.0/dense/Add", "/layer.1/dense/Add"], "dense_add"),
        (["Relu_4", "Relu_12"], "relu"),
        (["a", "b"], ""),
        (["", "b"], ""),
        (["/12/34"], "12_34"),
        (["/" + "/".join(["part"] * 40)], "part_part_part_part_part_part"),
    ],
)
def test_what_names_have_in_common(names: list[str], common: str) -> None:
    words = [re.sub(r"[^0-9a-z]+", " ", name.lower()).split() for name in names]
    assert _common(words) == common


@pytest.mark.parametrize("name", ["int", "class", "linux", "errno", "ec_fma", "2d", "", "_x", "vector"])
def test_taken_names(name: str) -> None:
    assert not is_free(name)
