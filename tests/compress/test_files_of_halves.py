"""Files of 16-bit floats are compressed as those of 32: every way takes them, and outputs keep their type."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from chance import RANDOM
from onnx import TensorProto, helper, numpy_helper

import edgec
from edgec.compress.widened import in_floats
from edgec.frontend.onnx import import_model
from edgec.ir.evaluate import run
from edgec.ir.types import DTYPES

HALF = {"f16": TensorProto.FLOAT16, "bf16": TensorProto.BFLOAT16}


def saved(folder: Path, dtype: str) -> Path:
    """[64, 64] in halves through two products and a softmax of its own type, with a count that is read as bits."""
    to = HALF[dtype]
    weights = [(RANDOM.standard_normal(s) / 8).astype(np.float32) for s in ((64, 512), (512, 32))]
    constants = [helper.make_tensor(n, to, w.shape, w.reshape(-1).tolist()) for n, w in zip("ab", weights)]
    constants.append(numpy_helper.from_array(np.array(0, np.int64), "none"))
    nodes = [
        helper.make_node("MatMul", ["x", "a"], ["h"]), helper.make_node("Relu", ["h"], ["r"]),
        helper.make_node("Cast", ["r"], ["wide"], to=TensorProto.FLOAT),
        helper.make_node("Sqrt", ["wide"], ["root"]), helper.make_node("Cast", ["root"], ["s"], to=to),
        helper.make_node("MatMul", ["s", "b"], ["m"]), helper.make_node("Softmax", ["m"], ["y"], axis=1),
        helper.make_node("Cast", ["m"], ["whole"], to=TensorProto.INT32),
    ]  # fmt: skip
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", to, [64, 64])],
        [helper.make_tensor_value_info(n, t, [64, 32]) for n, t in (("y", to), ("whole", TensorProto.INT32))],
        constants,
    )  # fmt: skip
    path = folder / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


@pytest.mark.parametrize("dtype", HALF)
def test_the_same_network_in_wider_floats(dtype: str, tmp_path: Path) -> None:
    graph = import_model(saved(tmp_path, dtype))
    wide = in_floats(graph)
    assert [n.type for _, n in wide.outputs] == [n.type for _, n in graph.outputs] and wide.inputs == graph.inputs
    assert {n.type.dtype for n in wide.operations() if n.op == "matmul"} == {"f32"}
    halves = [n for n in wide.operations() if n.type.dtype == dtype]
    assert [n.op for n in halves] == ["cast"] and halves[0] is wide.outputs[0][1]
    x = {"x": (RANDOM.standard_normal((64, 64)) * 2).astype(DTYPES[dtype])}
    one, other = run(graph, x), run(wide, x)
    np.testing.assert_allclose(one["y"].astype(np.float32), other["y"].astype(np.float32), atol=2e-2)
    assert np.abs(one["whole"] - other["whole"]).max() <= 1
    assert in_floats(wide) is wide


@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize(
    "settings",
    [
        {"quantize": "int8", "calibrate": "random"}, {"quantize": "int8-dynamic"}, {"quantize": "int4-weight"},
        {"quantize": "mixed", "calibrate": "random", "device": "x86_64_avx512_vnni"},
        {"prune": "vector", "sparsity": 0.9, "device": "x86_64_avx512_vnni"},
    ],
    ids=lambda s: "-".join(map(str, s.values())),
)  # fmt: skip
@pytest.mark.filterwarnings("ignore:.*random inputs")
def test_every_way_to_compress_takes_it(settings: dict[str, object], dtype: str, tmp_path: Path) -> None:
    built = edgec.build(saved(tmp_path, dtype), tmp_path / "net", compile=False, **settings)  # type: ignore[arg-type]
    assert built.stages.compressed.is_changed
    checked = edgec.check(built, samples=1)
    assert checked.verdict in ("ok", "not run"), checked
    assert checked.compression
