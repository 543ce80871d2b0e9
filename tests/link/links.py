"""Common parts of the tests of links: the digits network and images, and a matmul to tune."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from needed import need, need_opencl
from small_models import model, node, tensor_input, weights

from edgec.resources import data_folder

__all__ = ["DIGITS", "need", "need_opencl", "pictures", "product", "random_picture"]

DIGITS = data_folder("apps") / "digits" / "digits.onnx"


def random_picture(seed: int = 0) -> dict[str, np.ndarray]:
    from edgec import api

    random = np.random.default_rng(seed)
    types = api.load(str(DIGITS)).inputs
    return {name: random.standard_normal(type.shape).astype(np.float32) for name, type in types.items()}


def pictures(folder: Path, count: int) -> Path:
    """A file with that many samples."""
    one = random_picture()
    random = np.random.default_rng(1)
    arrays = {name: random.standard_normal((count, *a.shape)).astype(np.float32) for name, a in one.items()}
    path = folder / "samples.npz"
    np.savez(path, **arrays)  # type: ignore[arg-type]
    return path


def product(folder: Path) -> str:
    """A network of one product, which has several ways to go."""
    kernel = np.random.default_rng(0).standard_normal((24, 40)).astype(np.float32)
    nodes = [node("MatMul", ["x", "w"], ["a"]), node("Relu", ["a"], ["y"])]
    made = model(nodes, [tensor_input("x", [16, 24])], ("y",), [weights("w", kernel)])
    onnx.save(made, folder / "product.onnx")
    return str(folder / "product.onnx")
