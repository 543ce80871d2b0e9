"""Bounds as kernels in CUDA, run in emulation: what they enclose, what they read, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from chance import RANDOM
from enclosed_networks import NETWORKS, dense, model, node, weights

import edgec
from edgec.certify.pair_rules import ULPS
from edgec.certify.pairs_of import enclosed
from edgec.check.float64 import exact_results
from edgec.errors import ModelError, UsageError
from edgec.execute.executor import run_graph
from edgec.schedule.gpu.contract import GpuContract

CUDA = "cuda_sm90"


def _pictures() -> onnx.ModelProto:
    """A convolution, and a matmul of several rows."""
    nodes = [
        node("Conv", "x w b", "a", pads=[1, 1, 1, 1]), node("Relu", "a", "c"), node("Reshape", "c rows", "d"),
        node("MatMul", "d v", "e"), node("Sigmoid", "e", "y"),
    ]  # fmt: skip
    shape = np.array([8, 36])
    return model(nodes, (1, 3, 6, 6), {"w": weights(8, 3, 3, 3), "b": weights(8), "rows": shape, "v": weights(36, 5)})


def _signs(found: edgec.Built) -> list[str]:
    assert found.program.bounds is not None
    return [k.schedule.signs for k in found.program.bounds.kernels if isinstance(k.schedule, GpuContract)]


def test_no_drawn_input_leaves_the_bounds() -> None:
    found = edgec.build(_pictures(), device=CUDA, compiler="emulated", bounds=True)
    assert found.program.bounds is not None and _signs(found) == ["kept", "none", "halved"]
    x = RANDOM.normal(size=(1, 3, 6, 6)).astype(np.float32)
    for eps in (0.0, 0.03125):
        low, high = found.bounds(x, eps)
        wanted = run_graph(found.program.bounds.graph, {"x": x, "eps": np.array([eps], np.float32)})
        np.testing.assert_allclose(low, wanted["lower y"], rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(high, wanted["upper y"], rtol=1e-5, atol=1e-6)
        for k in range(30):
            part = RANDOM.uniform(-1, 1, x.shape) if k % 2 else RANDOM.choice([-1.0, 1.0], x.shape)
            near = np.clip(x + np.float32(eps) * part.astype(np.float32), x - np.float32(eps), x + np.float32(eps))
            for y in (found(near), exact_results(found.graph, {"x": near})["y"]):
                assert ((low <= y) & (y <= high)).all()
    for eps in (-1.0, float("nan")):
        with pytest.raises(UsageError, match="zero or more"):
            found.bounds(x, eps)
    x[0, 1, 2, 3] = np.nan
    assert np.isinf(found.bounds(x, 0.0)[0]).any()


def test_weights_are_read_once_and_kept_once(tmp_path: Path) -> None:
    """A matmul multiplies by weights and by their magnitudes, which are made in registers, in one kernel."""
    found = edgec.build(NETWORKS["rows"], tmp_path / "a", device=CUDA, compile=False, bounds=True)
    alone = edgec.build(NETWORKS["rows"], device=CUDA, compile=False)
    assert _signs(found) == ["halved", "halved"]
    text = "".join(p.read_text() for p in sorted((tmp_path / "a").glob("net_interval_kernels_*.cu")))
    assert text.count("sizes[j] = fabsf(b[j])") == 2
    assert found.weights_bytes - alone.weights_bytes < 0.1 * alone.weights_bytes
    header = (tmp_path / "a" / "net_bounds.h").read_text()
    assert "int net_bounds(net_bounding *bounding," in header and "NET_BAD_DISTANCE = 35" in header


def test_functions_of_cuda_are_less_accurate() -> None:
    """Errors of its exp, log and sigmoid are counted, which are greater than those of vector mathematics."""
    found = edgec.build(NETWORKS["functions"], compile=False)
    assert found.stages.plan is not None
    x = RANDOM.normal(size=tuple(map(int, found.graph.inputs[0].type.shape))).astype(np.float32)
    widths = []
    for language in ("c", "cuda"):
        ends = run_graph(enclosed(found.stages.plan, ULPS[language]), {"x": x, "eps": np.zeros(1, np.float32)})
        widths.append(ends["upper y"] - ends["lower y"])
    assert (widths[0] <= widths[1]).all() and (widths[0] < widths[1]).any()


def test_what_has_no_bounds_is_refused_in_words() -> None:
    built = edgec.build(dense(), device=CUDA, compile=False)
    with pytest.raises(ModelError, match="code for a GPU has no bounds"):
        edgec.certify(built, inputs={"x": np.zeros((1, 64), np.float32)}, eps=0.1)
    with pytest.raises(UsageError, match="in C or CUDA"):
        edgec.build(dense(), device="generic_opencl", compile=False, bounds=True)
    with pytest.raises(ModelError, match="sums in fp16"):
        edgec.build(dense(4), device=CUDA, precision="fp16", compile=False, bounds=True)
