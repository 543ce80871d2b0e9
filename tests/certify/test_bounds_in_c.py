"""Bounds as code: what they enclose, how wide they are, and what is refused."""

from __future__ import annotations

import ctypes
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from bounded import box, network
from chance import RANDOM
from enclosed_networks import NETWORKS, dense, model, node, weights

import edgec
from edgec.build import Built
from edgec.certify import pair_rules, pair_sums
from edgec.certify.pair import Pair
from edgec.certify.pairs_of import enclosed
from edgec.check.float64 import exact_results
from edgec.device.toolchain import LANGUAGE_FLAGS, WARNING_FLAGS
from edgec.errors import ModelError, UsageError
from edgec.execute.executor import run_graph
from edgec.ir.graph import Graph

DISTANCES = (0.0, 1e-3, 0.1)
DRAWN = 3400  # inputs a distance: more than 10 000 a network


@cache
def made(name: str) -> Built:
    """A network with its bounds, compiled once; fused attention would have none."""
    fuse = "none" if name == "transformer" else "planner"
    return edgec.build(NETWORKS[name], numeric="exact", bounds=True, fuse=fuse)


def built(proto: onnx.ModelProto, **settings: Any) -> Built:
    return edgec.build(proto, numeric="exact", bounds=True, fuse="none", **settings)


def shape_of(found: Built) -> tuple[int, ...]:
    return tuple(int(d) for d in found.graph.inputs[0].type.shape)


def within(x: np.ndarray, eps: float, k: int) -> np.ndarray:
    """An input of the box: any, or a corner."""
    part = RANDOM.uniform(-1, 1, x.shape) if k % 2 else RANDOM.choice([-1.0, 1.0], x.shape)
    exact = x.astype(np.float64)
    near = (exact + eps * part).astype(np.float32)
    near = np.where(near > exact + eps, np.nextafter(near, np.float32(-np.inf)), near)
    return np.asarray(np.where(near < exact - eps, np.nextafter(near, np.float32(np.inf)), near), np.float32)


@pytest.mark.parametrize("name", NETWORKS)
def test_no_drawn_input_leaves_the_bounds(name: str) -> None:
    """Neither what is computed does, nor the exact result."""
    found = made(name)
    x = RANDOM.normal(size=shape_of(found)).astype(np.float32)
    for eps in DISTANCES:
        low, high = found.bounds(x, float(np.float32(eps)))
        assert np.isfinite(low).all() or (name, eps) == ("functions", 0.1)
        for k in range(DRAWN):
            near = within(x, float(np.float32(eps)), k)
            y = found(near)
            assert ((low <= y) & (y <= high)).all(), (eps, k)
            if k < 8:
                exact = exact_results(found.graph, {"x": near})["y"]
                assert ((low <= exact) & (exact <= high)).all(), (eps, k)


@pytest.mark.parametrize("name", NETWORKS)
def test_bounds_are_as_wide_as_intervals_in_python(name: str) -> None:
    """Those of `edgec certify` before lines tighten them; a softmax has narrower ones here."""
    found = made(name)
    net = network(found.graph)
    (output,) = net.outputs.values()
    x = RANDOM.normal(size=shape_of(found)).astype(np.float32)
    for eps in (0.0, 1e-3):
        low, high = (v.astype(np.float64) for v in found.bounds(x, eps))
        ranges = net.bounds(box(net, {"x": x}, eps), tighten=False).seen[output].computed
        wide = ranges.high[0] - ranges.low[0]
        # Twice the rounding, that of the bounds too, and what additions are counted with.
        nearest = net.bounds(box(net, {"x": x}, 0.0), tighten=False).seen[output].computed
        rounding = 8 * (nearest.high[0] - nearest.low[0]) + 1e-6
        assert (high - low <= 1.02 * wide + rounding).all(), eps
        if name not in ("convolutions", "transformer"):
            assert (high - low >= 0.98 * wide - rounding).all(), eps


def test_bounds_at_a_point_are_a_few_roundoffs_wide() -> None:
    found = built(model([node("MatMul", "x w", "y")], (1, 300), {"w": weights(300, 40)}))
    x = RANDOM.normal(size=(1, 300)).astype(np.float32)
    low, high = found.bounds(x, 0.0)
    (values,) = (n.value for n in found.graph.nodes() if n.is_const and n.type.rank == 2)
    mass = np.abs(x.astype(np.float64)) @ np.abs(values.astype(np.float64))
    assert (high - low <= 2.5 * 2 * 310 * 2.0**-24 * mass + 1e-27).all()
    assert (high - low >= 2 * 300 * 2.0**-24 * mass).all(), "sums in any order may differ by more"


def _faults(graph: Graph, bounds: Graph, x: np.ndarray, eps: float) -> int:
    """Elements of exact results that leave the bounds, or of sums in floats as numpy adds them up."""
    found = run_graph(bounds, {"x": x, "eps": np.array([eps], np.float32)})
    low, high = found["lower y"], found["upper y"]
    results = []
    for k in range(40):
        near = within(x, eps, k)
        results += [run_graph(graph, {"x": near})["y"], exact_results(graph, {"x": near})["y"]]
    return sum(int(((y < low) | (y > high)).sum()) for y in results)


def test_planted_mistakes_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rounding that is not counted, weights where magnitudes belong, a lower bound where the upper one does."""
    deep = built(dense(), compile=False)
    wide = built(model([node("MatMul", "x w", "y")], (1, 900), {"w": weights(900, 40)}), compile=False)
    x = RANDOM.normal(size=(1, 64)).astype(np.float32)
    long = (RANDOM.normal(size=(1, 900)) * 10.0 ** RANDOM.integers(-3, 4, (1, 900))).astype(np.float32)

    def faults() -> tuple[int, int]:
        plans = [b.stages.plan for b in (deep, wide)]
        bounds = [enclosed(p) for p in plans if p is not None]
        return _faults(deep.graph, bounds[0], x, 0.01), _faults(wide.graph, bounds[1], long, 0.0)

    assert faults() == (0, 0)
    with monkeypatch.context() as m:
        m.setattr(pair_sums, "rounding_of", lambda terms: 1e-12)
        assert faults()[1] > 0
    with monkeypatch.context() as m:
        m.setattr(pair_sums.ops, "node", lambda op, *a, **k: a[0] if op == "abs" else _node(op, *a, **k))
        assert faults()[0] > 0
    with monkeypatch.context() as m:
        greatest = pair_rules.RULES["max"]
        m.setitem(pair_rules.RULES, "max", lambda at, args: Pair(*[greatest(at, args).low] * 2))
        assert faults()[0] > 0


_node = pair_sums.ops.node


@pytest.mark.parametrize("name", ["dense", "rows", "convolutions"])
def test_the_code_computes_what_the_graph_says(name: str) -> None:
    """Middles by weights and reaches by their magnitudes, a matmul in one kernel: as numpy has it, but for rounding."""
    found = made(name)
    assert found.program.bounds is not None
    x = RANDOM.normal(size=shape_of(found)).astype(np.float32)
    wanted = run_graph(found.program.bounds.graph, {"x": x, "eps": np.array([0.02], np.float32)})
    low, high = found.bounds(x, 0.02)
    np.testing.assert_allclose(low, wanted["lower y"], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(high, wanted["upper y"], rtol=1e-4, atol=1e-5)
    assert (wanted["upper y"] - wanted["lower y"] > 1e-3).any()


def test_a_matmul_reads_its_weights_once_and_shares_them(tmp_path: Path) -> None:
    proto = dense()
    found = edgec.build(proto, tmp_path / "a", numeric="exact", bounds=True, device="x86_64_avx2", compile=False)
    alone = edgec.build(proto, numeric="exact", device="x86_64_avx2", compile=False)
    assert found.program.bounds is not None
    products = [k for k in found.program.bounds.kernels if k.template == "contract"]
    assert len(products) == 2 and all(k.schedule.describe.startswith("contract M=2 ") for k in products)
    text = "".join(p.read_text() for p in sorted((tmp_path / "a").glob("net_interval_kernels_*.c")))
    assert "ec_abs(l0)" in text
    #  What bounds add to the weights are biases moved outward, and panels of the few results that a run sums by rows.
    assert found.weights_bytes - alone.weights_bytes < 0.15 * alone.weights_bytes


def test_a_distance_that_is_none_gives_a_status(tmp_path: Path) -> None:
    found = edgec.build(dense(), tmp_path, numeric="exact", bounds=True)
    net = found.network._net
    x, results = np.ones((1, 64), np.float32), np.full((2, 7), 5, np.float32)

    def status(eps: float, given: Any = x) -> int:
        pointers = [p.ctypes.data if p is not None else None for p in (net._weights, net._arena, given)]
        after = [r.ctypes.data for r in results]
        call = net._library.net_bounds
        return int(call(*map(ctypes.c_void_p, pointers), ctypes.c_float(eps), *map(ctypes.c_void_p, after)))

    assert found.program.bounds is not None
    net._arena = _aligned(found.program.bounds.arena_bytes)
    assert [status(eps) for eps in (-1.0, float("nan"), float("inf"))] == [35, 35, 35]
    assert (results == 5).all(), "bounds stay as they were"
    assert status(0.0, None) == 1
    assert status(0.0) == 0 and (results[0] < results[1]).all()
    for eps in (-0.5, float("nan")):
        with pytest.raises(UsageError, match="zero or more"):
            found.bounds(x, eps)


def _aligned(size: int) -> np.ndarray:
    raw = np.empty(size + 64, np.uint8)
    return raw[-raw.ctypes.data % 64 :][:size]


@pytest.mark.parametrize("value", [np.nan, np.inf, 3e38])
def test_nothing_is_known_where_floats_end(value: float) -> None:
    found = made("dense")
    x = np.ones((1, 64), np.float32)
    x[0, 3] = value
    low, high = found.bounds(x, 0.0)
    assert (low == -np.inf).all() and (high == np.inf).all()


def test_a_maximum_keeps_what_is_not_known() -> None:
    nodes = [node("MatMul", "x w", "a"), node("Relu", "a", "c"), node("MaxPool", "c", "y", kernel_shape=[2])]
    found = built(model(nodes, (1, 4, 8), {"w": np.eye(8, dtype=np.float32)}))
    x = np.ones((1, 4, 8), np.float32)
    x[0, 2, 5] = np.nan
    low, high = found.bounds(x, 0.1)
    assert np.isinf(low[0, 2]).all() and np.isinf(high[0, 2]).all()
    assert np.isfinite(low[0, :2]).all() and np.isfinite(high[0, :2]).all()


def test_a_distance_is_no_less_as_a_float() -> None:
    """The nearest float of some distances is below them: inputs that are allowed were outside."""
    found = built(model([node("Neg", "x", "y")], (1,), {}))
    down = [d for d in (0.1, 0.2, 0.3, 0.7, 0.9, 1.1) if float(np.float32(d)) < d]
    assert down
    for distance in down:
        x = np.array([np.float32(distance)])  # itself is at a distance of less; the distance takes it below zero
        _low, high = found.bounds(x, distance)
        assert high[0] >= distance - float(x[0]) > 0


def test_an_input_named_as_the_distance() -> None:
    proto = model([node("Add", "x x", "y")], (1, 3), {})
    proto.graph.input[0].name = "eps"
    proto.graph.node[0].input[:] = ["eps", "eps"]
    low, high = built(proto).bounds(np.ones((1, 3), np.float32), 0.25)
    assert (low <= 1.5).all() and (low > 1.49).all() and (high >= 2.5).all() and (high < 2.51).all()


def test_outputs_that_nothing_computes_and_a_product_of_one_value() -> None:
    nodes = [node("MatMul", "x x", "y"), node("Identity", "x", "same"), node("Identity", "c", "known")]
    proto = model(nodes, (4, 4), {"c": weights(3)})
    for name in ("same", "known"):
        proto.graph.output.add().CopyFrom(onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None))
    found, x = built(proto), weights(4, 4)
    ends = found.bounds({"x": x}, 0.01)
    wide = {
        o.name: (o.low, o.high)
        for o in edgec.certify(found, inputs={"x": x}, eps=0.01, output="y").certificates[0].outputs
    }
    random = np.random.default_rng(1)
    for _ in range(200):
        y = found.run({"x": x + random.choice([-0.0099, 0, 0.0099], x.shape).astype(np.float32)})
        assert all((low <= y[k]).all() and (y[k] <= high).all() for b in (ends, wide) for k, (low, high) in b.items())
    assert (ends["known"][0] == ends["known"][1]).all() and np.ptp(ends["same"], axis=0).max() < 0.0201


def test_what_has_no_bounds_is_refused_in_words() -> None:
    sine = model([node("Sin", "x", "wave"), node("Relu", "wave", "y")], (1, 8), {})
    with pytest.raises(ModelError, match=r"no code for bounds of 'sin \('wave'\)'") as told:
        built(sine, compile=False)
    assert "certify.md" in str(told.value.hint)
    with pytest.raises(UsageError, match="training"):
        built(dense(), loss="mse", compile=False)
    with pytest.raises(UsageError, match="one device"):
        built(dense(), device="x86_64_sse4", dispatch="x86_64_avx2", compile=False)
    with pytest.raises(UsageError, match="streamed"):
        built(dense(), weights="stream", compile=False)
    with pytest.raises(UsageError, match="networks of floats"):
        built(dense(), quantize="int8", calibrate="random", compile=False)
    with pytest.raises(UsageError, match="no code for bounds"):
        edgec.build(dense(), numeric="exact").bounds(np.ones((1, 64), np.float32), 0.1)


def test_kernels_by_other_formulas_are_refused() -> None:
    nodes = [node("Conv", "x w", "y", pads=[1, 1, 1, 1])]
    proto = model(nodes, (1, 32, 24, 24), {"w": weights(32, 32, 3, 3)})
    with pytest.raises(ModelError, match="winograd"):
        edgec.build(proto, bounds=True, device="x86_64_avx2", compile=False)
    assert edgec.build(proto, bounds=True, device="x86_64_avx2", numeric="exact", compile=False).program.bounds


_MAIN = """
#include "net_bounds.h"
#include <stdio.h>
#include <stdlib.h>
static float *block(size_t count) {
  void *p = 0;
  if (posix_memalign(&p, NET_ALIGNMENT, count * sizeof(float))) abort();
  return (float *)p;
}
int main(void) {
  float *x = block(NET_X_ELEMENTS), *low = block(NET_Y_ELEMENTS), *high = block(NET_Y_ELEMENTS);
  void *arena = block(NET_BOUNDS_ARENA_BYTES / sizeof(float));
  if (fread(x, sizeof(float), NET_X_ELEMENTS, stdin) != NET_X_ELEMENTS) return 1;
  for (size_t i = 0; i < NET_BOUNDS_ARENA_BYTES / sizeof(float); ++i) ((unsigned *)arena)[i] = 0x7fc00000u;
  const int status = net_bounds(net_weights, arena, x, 0.015625f, low, high);
  fwrite(low, sizeof(float), NET_Y_ELEMENTS, stdout);
  fwrite(high, sizeof(float), NET_Y_ELEMENTS, stdout);
  free(x), free(low), free(high), free(arena);
  return status;
}
"""


@pytest.mark.parametrize("name", ["dense", "rows", "convolutions", "functions"])
def test_the_code_is_strict_and_stays_in_its_memory(name: str, tmp_path: Path) -> None:
    """It compiles without a warning; the arena, the input and the outputs are blocks of exactly their sizes."""
    folder = tmp_path / "net"
    edgec.build(NETWORKS[name], folder, numeric="exact", bounds=True, weights="array", compile=False)
    found = made(name)
    (folder / "try.c").write_text(_MAIN)
    sources = [str(p) for p in sorted(folder.glob("*.c")) if p.name not in ("main.c", "runner.c")]
    strict = ["gcc", *LANGUAGE_FLAGS, *WARNING_FLAGS, "-Werror", "-march=native", "-O1"]
    checked = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-g1"]
    program = tmp_path / "try"
    subprocess.run([*strict, *checked, *sources, "-o", str(program), "-lm", "-lpthread"], check=True)
    x = RANDOM.normal(size=shape_of(found)).astype(np.float32)
    done = subprocess.run([program], input=x.tobytes(), capture_output=True)
    assert done.returncode == 0, done.stderr.decode()[-2000:]
    low, high = np.frombuffer(done.stdout, np.float32).reshape(2, *found.network.outputs[0].shape)
    wanted = found.bounds(x, 0.015625)
    for got, other in zip((low, high), wanted):
        np.testing.assert_allclose(got, other, rtol=1e-4, atol=1e-5)


def test_a_build_begins_again_at_its_program(tmp_path: Path) -> None:
    proto = dense()
    whole = edgec.build(proto, tmp_path / "a", numeric="exact", bounds=True, compile=False, save_stages=tmp_path / "st")
    stage = tmp_path / "st" / "5_schedule.txt"
    again = edgec.build(stage, tmp_path / "b", start="emit", numeric="exact", bounds=True, compile=False)
    assert set(whole.files) == set(again.files)
    for path in whole.files:
        if path.endswith((".c", ".h", ".weights")):
            assert (tmp_path / "a" / path).read_bytes() == (tmp_path / "b" / path).read_bytes(), path
