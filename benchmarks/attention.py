"""Attention alone beside onnxruntime, in turns on one thread: `python benchmarks/attention.py [LENGTH ...]`.

Four heads of 64 features (two from 4096 keys on), random queries, keys and values.
"""

from __future__ import annotations

import sys

import numpy as np
from onnx import ModelProto, TensorProto, helper, numpy_helper

import edgec

FEATURES = 64


def attention(length: int) -> ModelProto:
    """[1, length, heads * 64] three times, to the same."""
    heads = 2 if length >= 4096 else 4
    width = heads * FEATURES
    shape, flat = np.array([1, length, heads, FEATURES]), np.array([1, length, width])
    constants = {"split": shape, "flat": flat, "scale": np.float32(FEATURES**-0.5)}
    nodes = []
    for name, perm in (("q", [0, 2, 1, 3]), ("k", [0, 2, 3, 1]), ("v", [0, 2, 1, 3])):
        nodes.append(helper.make_node("Reshape", [name, "split"], [f"{name}_heads"]))
        nodes.append(helper.make_node("Transpose", [f"{name}_heads"], [f"{name}_turned"], perm=perm))
    nodes += [
        helper.make_node("MatMul", ["q_turned", "k_turned"], ["products"]),
        helper.make_node("Mul", ["products", "scale"], ["scores"]),
        helper.make_node("Softmax", ["scores"], ["weights"], axis=-1),
        helper.make_node("MatMul", ["weights", "v_turned"], ["mixed"]),
        helper.make_node("Transpose", ["mixed"], ["turned"], perm=[0, 2, 1, 3]),
        helper.make_node("Reshape", ["turned", "flat"], ["y"]),
    ]
    info = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, length, width]) for n in ("q", "k", "v", "y")]
    weights = [numpy_helper.from_array(np.asarray(a), n) for n, a in constants.items()]
    graph = helper.make_graph(nodes, "attention", info[:3], info[3:], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def main() -> None:
    for length in [int(a) for a in sys.argv[1:]] or [64, 256, 1024, 4096]:
        built = edgec.build(attention(length))
        found = edgec.bench(built, vs="onnxruntime")
        assert found.peer_timing is not None
        ours, theirs = found.timing.median_ms, found.peer_timing.median_ms
        print(f"{length:5} keys: {ours:8.3f} ms, onnxruntime {theirs:8.3f} ms, arena {built.arena_bytes} bytes")


if __name__ == "__main__":
    main()
