"""A large ONNX model with its weights in a file beside it, written piece by piece."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper


def make(folder: Path, width: int, layers: int, seed: int = 0) -> Path:
    """x [1, width] through so many products and ReLUs; at no time is more than one matrix in memory."""
    random = np.random.default_rng(seed)
    model, offset, initializers, nodes = folder / "large.onnx", 0, [], []
    with (folder / "large.onnx.data").open("wb") as file:
        for k in range(layers):
            matrix = random.standard_normal((width, width), np.float32) * np.float32((2 / width) ** 0.5)
            tensor = TensorProto(name=f"w{k}", data_type=TensorProto.FLOAT, dims=matrix.shape)
            tensor.data_location = TensorProto.EXTERNAL
            for key, value in (("location", file.name), ("offset", offset), ("length", matrix.nbytes)):
                entry = tensor.external_data.add()
                entry.key, entry.value = key, Path(value).name if key == "location" else str(value)
            initializers.append(tensor)
            matrix.tofile(file)
            offset += matrix.nbytes
            nodes += [
                helper.make_node("MatMul", [f"a{k}", f"w{k}"], [f"p{k}"]),
                helper.make_node("Relu", [f"p{k}"], [f"a{k + 1}"]),
            ]
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, width]) for n in ("a0", f"a{layers}")]
    graph = helper.make_graph(nodes, "large", ends[:1], ends[1:], initializers)
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    model.write_bytes(proto.SerializeToString())
    return model


def total_bytes(model: Path) -> int:
    """Bytes of the weights of a model that was made here."""
    onnx.checker.check_model(str(model))
    return model.with_name("large.onnx.data").stat().st_size
