"""Models that onnxruntime refuses and edgec once built: attributes and constants out of their ranges."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from refused_models import refusal
from small_models import model, node, tensor_input, weights


def _accepted_before() -> dict[str, onnx.ModelProto]:
    """Models that onnxruntime refuses and edgec built: attributes and constants out of their ranges."""
    image, text = [tensor_input("x", [1, 2, 4, 4])], [tensor_input("x", [2, 3])]

    def of(op: str, inputs: list[onnx.ValueInfoProto], *arrays: object, **attributes: object) -> onnx.ModelProto:
        given = [weights(f"w{k}", np.asarray(a)) for k, a in enumerate(arrays)]
        return model([named(op, ["x", *(g.name for g in given)], ["y"], attributes)], inputs, initializers=given)

    def named(op: str, operands: list[str], results: list[str], attributes: Mapping[str, object]) -> onnx.NodeProto:
        made = node(op, operands, results, name="n", **{k: v for k, v in attributes.items() if v != []})
        empty = [k for k, v in attributes.items() if v == []]
        made.attribute.extend(onnx.AttributeProto(name=k, type=onnx.AttributeProto.INTS) for k in empty)
        return made

    def grouped(heads: int, groups: int, width: int, last: int = 1, longest: int = 2) -> onnx.ModelProto:
        sizes = [weights("s", np.int32([last])), weights("t", np.int32(longest))]
        made = node(
            "GroupQueryAttention", ["x", "", "", "", "", "s", "t"], ["y", "k", "v"], name="n", domain="com.microsoft",
            num_heads=heads, kv_num_heads=groups,
        )  # fmt: skip
        proto = model([made], [tensor_input("x", [1, 2, width])], initializers=sizes)
        proto.opset_import.add(domain="com.microsoft", version=1)
        return proto

    w = np.ones((2, 2, 3, 3), np.float32)
    body = helper.make_graph(
        [node("Add", ["s", "e"], ["t"]), node("Identity", ["t"], ["r"])], "b",
        [tensor_input("s", [3]), tensor_input("e", [3])], [tensor_input("t", [3]), tensor_input("r", [3])],
    )  # fmt: skip

    def scan(**directions: list[int]) -> onnx.ModelProto:
        scanned = named("Scan", ["zero", "x"], ["last", "y"], {"body": body, "num_scan_inputs": 1, **directions})
        return model([scanned], text, initializers=[weights("zero", np.zeros(3, np.float32))])

    return {
        "a flag": of("CumSum", text, np.int64(0), reverse=2),
        "another flag": of("Mod", text, np.float32([[2]]), fmod=-3),
        "axis": of("Flatten", text, axis=3),
        "heads": grouped(6, 4, 14 * 8),
        "shares of heads": grouped(6, 2, 75),
        "a length beyond the cache": grouped(6, 3, 12 * 8, 1, 3),
        "a sequence longer than the cache": grouped(6, 3, 12 * 8, 2),
        "a share that is no number": of("LRN", image, size=3, alpha=float("nan")),
        "a power that is no number": of("LRN", image, size=3, beta=float("nan")),
        "depth": model(
            [node("OneHot", ["x", "d", "v"], ["y"], name="n")], [tensor_input("x", [2], TensorProto.INT64)],
            initializers=[weights("d", np.int64(-1)), weights("v", np.zeros(2, np.float32))],
        ),
        "regions": of("MaxRoiPool", image, np.zeros((1, 4), np.float32), pooled_shape=[1, 1]),
        "slice": of("Slice", text, np.int64([0]), np.int64([]), np.int64([0])),
        "kernel": of("ConvTranspose", image, w, kernel_shape=[2, 2]),
        "no kernel": of("Conv", image, w, kernel_shape=[]),
        "no strides": of("Conv", image, w, strides=[]),
        "no pads": of("Conv", image, w, pads=[]),
        "wide": of("Conv", image, w, dilations=[2, 1]),
        "wide pool": of("MaxPool", image, kernel_shape=[6, 1]),
        "output padding": of("ConvTranspose", image, w, output_padding=[1, 0]),
        "directions": scan(scan_input_directions=[2]),
        "many directions": scan(scan_input_directions=[0, 0]),
        "no directions": scan(scan_output_directions=[]),
    }  # fmt: skip


ACCEPTED_BEFORE = _accepted_before()


@pytest.mark.parametrize("case", ACCEPTED_BEFORE)
def test_what_onnxruntime_refuses(case: str) -> None:
    proto = ACCEPTED_BEFORE[case]
    assert "'n'" in refusal(proto)
    onnxruntime = pytest.importorskip("onnxruntime")
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    with pytest.raises(Exception, match="ONNXRuntimeError"):
        session = onnxruntime.InferenceSession(proto.SerializeToString(), options)
        for given in session.get_inputs():
            kind = np.int64 if "int64" in given.type else np.float32
            session.run(None, {given.name: np.ones(given.shape, kind)})
