"""Products of networks that are stored in 16 bits: sums of floats, rounded at their end, in the kernels of floats."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from chance import RANDOM
from compiled import Compiled, compile_graphs, program_of, target

from edgec import ops
from edgec.ir import evaluate
from edgec.ir.graph import Graph, Node, constant, placeholder, topological
from edgec.ir.types import DTYPES, Type
from edgec.schedule.contract.contract import Contract

#: Half a step of a result of each type, beside it.
STEP = {"f16": 2.0**-11, "bf16": 2.0**-8}


def weights(dtype: str, *shape: int) -> Node:
    return constant((RANDOM.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))).astype(DTYPES[dtype]))


def convolved(x: Node, w: Node, around: int = 0, stride: int = 1, groups: int = 1) -> Node:
    inside = ops.node("pad", x, before=(0, 0, around, around), after=(0, 0, around, around), value=0.0)
    settings = {"strides": (stride, stride), "dilations": (1, 1), "groups": groups}
    return ops.node("conv", inside if around else x, w, **settings)


def networks(dtype: str) -> dict[str, Graph]:
    x = placeholder("x", Type(dtype, (1, 5, 9, 7)))
    m, n = placeholder("x", Type(dtype, (7, 19))), placeholder("y", Type(dtype, (19, 21)))
    half, zero = constant(np.asarray(0.5, DTYPES[dtype])), constant(np.asarray(0, DTYPES[dtype]))
    first = ops.node("max", convolved(x, weights(dtype, 18, 5, 3, 3), 1), zero)
    found = {
        "convolutions": convolved(first, weights(dtype, 9, 18, 1, 1)),
        "strided": ops.node("add", convolved(x, weights(dtype, 17, 5, 2, 2), stride=2), weights(dtype, 17, 1, 1)),
        "in groups": convolved(first, weights(dtype, 18, 9, 3, 3), groups=2),
        "matmul": ops.node("mul", ops.node("matmul", m, weights(dtype, 19, 33)), half),
        "matmul of two inputs": ops.node("matmul", m, n),
        "to floats": ops.node("cast", ops.node("matmul", m, weights(dtype, 19, 4)), to="f32"),
    }  # fmt: skip
    return {name: Graph(_inputs(end), (("z", end),)) for name, end in found.items()}


def _inputs(end: Node) -> tuple[Node, ...]:
    return tuple(n for n in topological([end]) if n.op == "input")


@pytest.mark.parametrize("dtype", STEP)
@pytest.mark.parametrize("device", ["host", "generic"])
def test_products_of_sixteen_bits(dtype: str, device: str, tmp_path: Path) -> None:
    graphs, where = networks(dtype), target(device)
    for name, graph in graphs.items():
        assert {k.template for k in program_of(graph, where.device).kernels} & {"contract", "winograd"}, name
    for name, network in compile_graphs(graphs, tmp_path, flags=where.flags, device=where.device).items():
        assert isinstance(network, Compiled)
        given = {n.attributes["name"]: _drawn(n) for n in graphs[name].inputs}
        got, want = (found["z"].astype(np.float64) for found in (network(given), evaluate.run(graphs[name], given)))
        # A value inside that is rounded the other way moves what is computed of it by a step.
        assert np.abs(got - want).max() <= 4 * STEP[dtype] * np.abs(want).max(), name


def ahead() -> dict[str, Graph]:
    """Products whose rows end within a vector, are whole at every tap, or are added up in parts."""
    half = placeholder("x", Type("f16", (11, 53)))
    long = placeholder("x", Type("f16", (31, 2 * 800 + 5)))
    zero = constant(np.float16(0))
    first = ops.node("max", convolved(placeholder("x", Type("f16", (1, 5, 6, 7))), weights("f16", 48, 5, 1, 1)), zero)
    found = {
        "rows that end within a vector": ops.node("matmul", half, weights("f16", 53, 40)),
        "taps of whole rows": convolved(first, weights("f16", 33, 48, 3, 1), 1, 2),
        "a long sum": ops.node("matmul", long, weights("f16", 2 * 800 + 5, 21)),
    }
    return {name: Graph(_inputs(end), (("z", end),)) for name, end in found.items()}


def test_rows_are_computed_on_lanes_ahead_of_their_products(tmp_path: Path) -> None:
    graphs, where = ahead(), target("host")
    for name, graph in graphs.items():
        found = [s.schedule for k in program_of(graph, where.device).kernels for s in k.steps]
        assert any(isinstance(s, Contract) and s.ahead for s in found) == (where.device.lanes(4) > 1), name
    for name, network in compile_graphs(graphs, tmp_path, flags=where.flags, device=where.device).items():
        assert isinstance(network, Compiled)
        (x,) = graphs[name].inputs
        given = {"x": _drawn(x)}
        got, want = (found["z"].astype(np.float64) for found in (network(given), evaluate.run(graphs[name], given)))
        assert np.abs(got - want).max() <= 4 * STEP["f16"] * np.abs(want).max(), name


def _drawn(node: Node) -> np.ndarray:
    return RANDOM.standard_normal(node.type.shape).astype(DTYPES[node.type.dtype])
