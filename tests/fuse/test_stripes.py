"""The head of a network in stripes: the same numbers in less memory, for more work, where memory asks for it alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from small_models import model, node, tensor_input, weights

import edgec
from edgec import pipeline
from edgec.cli.main import main
from edgec.errors import UsageError
from edgec.execute.executor import run_graph
from edgec.execute.samples import random_inputs
from edgec.fuse.stripes import head_of, in_stripes
from edgec.options import resolve
from edgec.pipeline.context import Context
from edgec.report.fit import fit


def head(rows: int = 37, stride: int = 2) -> onnx.ModelProto:
    """Large values first, then small ones: windows, a depthwise convolution, a residual, a concatenation, a pool.

    Weights are whole numbers, so that sums of whole numbers are exact in any order; a mean at the end would not be.
    """
    random = np.random.default_rng(3)

    def kernel(name: str, *shape: int) -> onnx.TensorProto:
        return weights(name, random.integers(-2, 3, shape).astype(np.float32))

    nodes = [
        node("Conv", ["x", "first"], ["a"], "first", pads=[1, 1, 1, 1], strides=[stride, 2]),
        node("Relu", ["a"], ["b"]),
        node("Conv", ["b", "deep"], ["c"], "deep", pads=[2, 2, 2, 2], dilations=[2, 2], group=8),
        node("Add", ["b", "c"], ["d"]),
        node("Conv", ["d", "wide"], ["e"], "wide"),
        node("Concat", ["d", "e"], ["f"], axis=1),
        node("MaxPool", ["f"], ["g"], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 0, 1, 0]),
        node("Conv", ["g", "narrow"], ["h"], "narrow", strides=[2, 2]),
        node("Relu", ["h"], ["i"]),
        node("GlobalMaxPool", ["i"], ["y"]),
    ]
    kernels = [
        kernel("first", 8, 3, 3, 3), kernel("deep", 8, 1, 3, 3), kernel("wide", 24, 8, 1, 1),
        kernel("narrow", 4, 32, 1, 1),
    ]  # fmt: skip
    return model(nodes, [tensor_input("x", [1, 3, rows, 32])], ("y",), kernels)


def test_a_head_in_stripes_gives_the_same_in_less_memory() -> None:
    source = head().SerializeToString()
    whole = edgec.build(source, device="generic", compile=False)
    assert whole.stages.stripes is None
    needed = fit(whole.program, whole.options.device)["ram"]["bytes"]
    built = edgec.build(source, device="generic", ram=needed * 6 // 10)
    striped = built.stages.stripes
    assert striped is not None and striped.count > 1 < striped.work and striped.whole_bytes == needed
    memory = fit(built.program, built.options.device, built.options.room, striped)
    assert memory["ram"]["fits"] and memory["ram"]["bytes"] == striped.ram_bytes <= needed * 6 // 10
    assert memory["stripes"]["ram_without"] == needed
    assert edgec.check(built, samples=2).ok


@pytest.mark.parametrize(("rows", "stride"), [(37, 2), (16, 1), (9, 3)])
def test_every_cut_and_count_gives_the_same_bits(rows: int, stride: int) -> None:
    context = Context(resolve({"device": "generic"}))
    graph = pipeline.run(head(rows, stride).SerializeToString(), context, until="compress").result.graph
    arrays = {name: np.round(x * 4) for name, x in random_inputs(graph, 1).items()}
    (want,) = run_graph(graph, arrays).values()
    tried = 0
    for cut in graph.operations():
        if cut.op not in ("max", "add", "concat") or cut.type.rank != 4:
            continue
        for count in {n for n in (2, 3, cut.type.shape[2]) if 1 < n <= cut.type.shape[2]}:
            striped = in_stripes(graph, head_of(cut), count)
            (found,) = run_graph(striped, arrays).values()
            assert np.array_equal(found, want)
            assert cut not in striped.nodes()
            tried += 1
    assert tried > 5


def test_a_network_that_cannot_be_cut_stays_whole_and_is_said_not_to_fit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "head.onnx"
    onnx.save(head(), path)
    with pytest.raises(SystemExit) as end:
        main(["inspect", str(path), "--device", "nrf52840", "--ram", "12500"])
    assert end.value.code == 0 and "DOES NOT FIT" in capsys.readouterr().out
    with pytest.raises(SystemExit) as end:
        main(["inspect", str(path), "--device", "nrf52840", "--ram", "30000"])
    told = capsys.readouterr().out
    assert end.value.code == 0 and "stripes up to" in told and "DOES NOT FIT" not in told
    with pytest.raises(UsageError, match="0 bytes of RAM"):
        edgec.build(str(path), ram=0)
