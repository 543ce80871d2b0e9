"""Weights of four bits: found by their formula, packed as codes, made floats in registers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from chance import RANDOM
from compiled import Compiled, compile_graphs, program_of, target
from onnx import TensorProto, helper, numpy_helper
from sanitized import ADDRESS, run_sanitized
from small_graphs import arrays, gelu, graph, transpose, value

import edgec
from edgec import ops
from edgec.compress.four_bits import rounded
from edgec.errors import UsageError
from edgec.ir import evaluate
from edgec.ir.graph import Graph, Node, constant
from edgec.ir.types import DTYPES
from edgec.schedule.contract.few_bits import FewBits


def coded(k: int, n: int, group: int, is_symmetric: bool = True, batch: tuple[int, ...] = ()) -> Node:
    """[*batch, k, n] of four bits, with groups that are zero; symmetric: without zero points."""
    codes = RANDOM.integers(-8, 8, (*batch, k, n)).astype(np.int8)
    codes[..., :group, 0] = 0
    scale = RANDOM.uniform(1e-3, 2, (*batch, k // group, n)) * RANDOM.choice([-1, 1], (*batch, k // group, n))
    offset = [] if is_symmetric else [constant(RANDOM.integers(-8, 8, scale.shape).astype(np.int8))]
    parts = [constant(codes.astype(DTYPES["i4"])), constant(scale.astype(np.float32)), *offset]
    return ops.node("dequantize", *parts, axis=len(batch), block=group)


def cases() -> dict[str, Graph]:
    found = {}
    for m, k, n, group in ((1, 64, 33, 32), (1, 256, 130, 64), (5, 32, 40, 32), (13, 96, 17, 32), (31, 128, 50, 128),
                           (3, 48, 64, 16), (40, 64, 16, 64)):  # fmt: skip
        for is_symmetric in (True, False):
            w = coded(k, n, group, is_symmetric)
            found[f"{m}x{k}x{n} of {group} {is_symmetric}"] = graph(gelu(ops.node("matmul", value("a", m, k), w)))
    turned = transpose(value("b", 64, 9), 1, 0)
    found["turned"] = graph(ops.node("matmul", turned, coded(64, 40, 32)))
    found["batch"] = graph(ops.node("matmul", value("a", 3, 4, 64), coded(64, 20, 32, batch=(3,))))
    heads = ops.node("reshape", transpose(value("a", 4, 5, 32), 1, 0, 2), shape=(5, 128))
    found["heads"] = graph(ops.node("matmul", heads, coded(128, 40, 32)))
    first = ops.node("matmul", value("a", 70, 64), coded(64, 64, 32))
    found["two"] = graph(ops.node("matmul", first, coded(64, 32, 32)))
    return found


CASES = cases()
GIVEN = {name: arrays(g, 6) for name, g in CASES.items()}


def check(name: str, got: dict[str, np.ndarray], tolerance: float = 1e-5) -> None:
    for port, want in evaluate.run(CASES[name], GIVEN[name]).items():
        assert np.abs(got[port] - want).max() <= tolerance * np.abs(want).max(), name


def test_codes_are_read_off_the_formula() -> None:
    for name, g in CASES.items():
        for kernel in program_of(g).kernels:
            assert isinstance(kernel.schedule, FewBits), name
            if " of " in name:
                assert (kernel.schedule.base is None) == name.endswith("True")
                assert kernel.schedule.group == int(name.split()[2])


@pytest.mark.parametrize("device", ["host", "generic", "x86_64_avx2"])
def test_in_c(device: str, tmp_path: Path) -> None:
    where = target(device)
    for name, network in compile_graphs(CASES, tmp_path, True, where.flags, where.device).items():
        assert isinstance(network, Compiled)
        alone = network(GIVEN[name])
        check(name, alone)
        assert all(np.array_equal(alone[p], y) for p, y in network(GIVEN[name], 2).items()), name


def test_stays_inside_its_buffers_beside_bf16(tmp_path: Path) -> None:
    where = target("host")
    where = replace(where, device=replace(where.device, precision="bf16"))
    for name, got in run_sanitized(CASES, GIVEN, tmp_path, where, ADDRESS).items():
        check(name, got, 2.0**-6)


@pytest.mark.parametrize("group", [32, 128])
def test_rounding_loses_at_most_a_step(group: int) -> None:
    w = RANDOM.standard_normal((256, 9)).astype(np.float32)
    w[:group, 3] = 0
    got = rounded(w, 0, group)
    step = np.abs(w).reshape(-1, group, 9).max(1, keepdims=True) / 8
    assert np.isfinite(got).all() and not got[:group, 3].any()
    assert (np.abs(got - w).reshape(-1, group, 9) <= 2.2 * step).all()
    assert max(len(np.unique(c)) for c in got.reshape(-1, group, 9).transpose(0, 2, 1).reshape(-1, group)) <= 16


def product(rows: int = 6, inputs: int = 64, outputs: int = 40) -> onnx.ModelProto:
    w = numpy_helper.from_array(RANDOM.standard_normal((inputs, outputs)).astype(np.float32), "w")
    ports = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("x", [rows, inputs]), ("y", None))]
    made = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "net", ports[:1], ports[1:], [w])
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def test_the_option(tmp_path: Path) -> None:
    built = edgec.build(product(), tmp_path / "q", compile=False, quantize="int4-weight")
    assert [k.template for k in built.program.kernels] == ["few_bits"]
    assert built.weights_bytes * 4 < edgec.build(product(), tmp_path / "f", compile=False).weights_bytes
    checked = edgec.check(product(), quantize="int4-weight", tolerance=0.2, samples=1)
    assert checked.ok and {e.stage: e.added_rel for e in checked.stages}["emit"] < 1e-4
    with pytest.raises(UsageError, match="groups of 32"):
        edgec.build(product(inputs=20), tmp_path / "none", quantize="int4-weight")


def test_matmul_nbits_keeps_its_bits(tmp_path: Path) -> None:
    codes, scales = RANDOM.integers(0, 256, (40, 2, 16), np.uint8), RANDOM.uniform(0.01, 1, 80).astype(np.float32)
    for zeros in ((), (RANDOM.integers(0, 256, (40, 1), np.uint8),)):
        constants = [numpy_helper.from_array(a, n) for n, a in zip(("q", "s", "z"), (codes, scales, *zeros))]
        ports = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("x", [7, 64]), ("y", [7, 40]))]
        node = helper.make_node(
            "MatMulNBits", ["x", *(t.name for t in constants)], ["y"], domain="com.microsoft", K=64, N=40, bits=4,
            block_size=32,
        )  # fmt: skip
        made = helper.make_graph([node], "net", ports[:1], ports[1:], constants)
        sets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
        model = helper.make_model(made, opset_imports=sets, ir_version=9)
        assert [k.template for k in edgec.build(model, tmp_path / "out", compile=False).program.kernels] == ["few_bits"]
        assert edgec.check(model, samples=1).ok
