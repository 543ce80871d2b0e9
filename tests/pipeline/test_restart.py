"""A build that restarts at a saved stage gives the same bytes as the whole build."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import edgec
from edgec.errors import ModelError
from edgec.pipeline.run import Run

#: Stages that a build can start at, with the file that the stage before left.
STARTS = {
    "simplify": "1_import.txt",
    "compress": "2_simplify.txt",
    "fuse": "3_compress.txt",
    "schedule": "4_fuse.txt",
    "emit": "5_schedule.txt",
}
#: Entries of a lock that only a build from the model itself knows.
OF_THE_MODEL = ("model", "started_at")


def network() -> bytes:
    """Convolutions with few and with many channels, and a dense layer: something for every way to compress."""
    random = np.random.default_rng(5)

    def weights(name: str, *shape: int) -> onnx.TensorProto:
        scale = 1 / np.sqrt(np.prod(shape[1:]))
        return numpy_helper.from_array((random.standard_normal(shape) * scale).astype(np.float32), name)

    nodes = [
        helper.make_node("Conv", ["x", "w0"], ["c0"], name="first", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c0"], ["r0"], name="relu0"),
        helper.make_node("Conv", ["r0", "w1"], ["c1"], name="second", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c1"], ["r1"], name="relu1"),
        helper.make_node("Conv", ["r1", "w2"], ["c2"], name="third"),
        helper.make_node("GlobalAveragePool", ["c2"], ["p"], name="pool"),
        helper.make_node("Flatten", ["p"], ["f"], name="flat"),
        helper.make_node("Gemm", ["f", "w3"], ["y"], name="dense", transB=1),
    ]
    tensors = [weights("w0", 32, 3, 3, 3), weights("w1", 64, 32, 3, 3), weights("w2", 64, 64, 1, 1)]
    graph = helper.make_graph(
        nodes,
        "restart",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 24, 24])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 10])],
        [*tensors, weights("w3", 10, 64)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    return bytes(model.SerializeToString())


#: Ways to build that leave findings on the way from one stage to the next.
BUILDS: dict[str, dict[str, Any]] = {
    "fp32": {},
    "int8": {"quantize": "int8", "calibrate": "random"},
    "mixed": {"quantize": "mixed", "calibrate": "random", "max_loss": "cosine=0.9999"},
    "bf16 layers": {"quantize": "mixed", "calibrate": "random", "max_loss": "cosine=0.99999", "device": "neoverse_v1"},
    "fp16 with an error": {"device": "jetson_orin_nano", "precision": "mixed:0.01", "calibrate": "random"},
    "pruned": {"prune": "vector", "sparsity": 0.8},
    "partition": {"place": "auto", "device": "pixel_8"},
    "ram": {"ram": 180 * 1024, "device": "cortex_m7"},
}
#: The finding that a build must have for its test to mean anything.
FINDINGS: dict[str, Callable[[Run], Any]] = {
    "int8": lambda run: run["compress"].report,
    "mixed": lambda run: run["compress"].report,
    "bf16 layers": lambda run: run["fuse"].bf16_layers,
    "pruned": lambda run: run["compress"].pruned.masks,
    "partition": lambda run: len(run.assignment.sides) == 2 and run["schedule"].parts,
    "ram": lambda run: run.stripes,
}


def files(folder: Path) -> dict[str, Any]:
    """Every file of an artifact; of the lock all but what only a build from the model knows."""
    found: dict[str, Any] = {
        str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()
    }
    lock = json.loads(found["edgec.lock"])
    found["edgec.lock"] = {key: value for key, value in lock.items() if key not in OF_THE_MODEL}
    return found


@pytest.mark.parametrize("name", BUILDS)
def test_restarts_give_the_same_bytes(name: str, tmp_path: Path) -> None:
    options: Mapping[str, Any] = BUILDS[name]
    saved = tmp_path / "stages"
    whole = edgec.build(network(), tmp_path / "whole", compile=False, save_stages=saved, **options)
    assert name not in FINDINGS or FINDINGS[name](whole.stages)
    wanted = files(whole.folder)
    for start, file in STARTS.items():
        again = edgec.build(saved / file, tmp_path / start, compile=False, start=start, **options)
        assert files(again.folder) == wanted, start


def test_layers_in_bf16_are_saved(tmp_path: Path) -> None:
    """The one finding of compression that the graph itself does not hold."""
    built = edgec.build(network(), compile=False, save_stages=tmp_path, **BUILDS["bf16 layers"])
    layers = built.stages["compress"].bf16_layers
    text = (tmp_path / STARTS["fuse"]).read_text()
    assert layers and text.startswith(f"bf16_layers {json.dumps(sorted(layers))}\n")


@pytest.mark.parametrize(
    "line", ['bf16_layers ["a"', "bf16_layers {}", "bf16_layers [1]", "bf16_layers " + "[" * 10**5]
)
def test_damaged_lines_are_refused(line: str, tmp_path: Path) -> None:
    (tmp_path / "3_compress.txt").write_text(f"{line}\ngraph g\n")
    with pytest.raises(ModelError, match="no list of names"):
        edgec.build(tmp_path / "3_compress.txt", compile=False, start="fuse")
