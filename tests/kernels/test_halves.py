"""Sums of products of files in 16 bits: computed in floats, by the schedules of files in 32 bits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from chance import RANDOM
from compiled import compile_graphs, program_of, target
from small_graphs import conv, graph, number, pad, value, weights

from edgec import ops
from edgec.device.load import load_device
from edgec.errors import EdgecError
from edgec.ir.evaluate import run
from edgec.ir.graph import Graph, Node, constant
from edgec.ir.types import DTYPES
from edgec.schedule.contract.winograd import Winograd

#: Relative distance of neighboring numbers.
STEPS = {"f16": 2.0**-10, "bf16": 2.0**-7}


def network(dtype: str) -> Graph:
    """Convolutions of 3 x 3 and of 1 x 1, and a matmul, whose operands, weights and results have 16 bits."""

    def narrow(x: Node) -> Node:
        return constant(x.value.astype(DTYPES[dtype]))

    zero = narrow(number(0))
    x = ops.node("cast", value("x", 1, 12, 14, 14), to=dtype)
    inside = ops.node("max", conv(x, narrow(weights(64, 12, 1, 1, scale=0.3))), zero)
    inside = ops.node("max", conv(pad(inside, 1, 1), narrow(weights(64, 64, 3, 3, scale=0.04))), zero)
    rows = ops.node("reshape", conv(inside, narrow(weights(48, 64, 1, 1, scale=0.1))), shape=(48, 196))
    found = ops.node("matmul", rows, narrow(weights(196, 33, scale=0.07)))
    return graph(ops.node("cast", found, to="f32"))


@pytest.mark.parametrize("dtype", STEPS)
@pytest.mark.parametrize("device", ["host", "x86_64_avx2"])
def test_sums_of_halves_are_sums_of_floats(device: str, dtype: str, tmp_path: Path) -> None:
    """Values are rounded where the file says so: as near to double precision as its own rounding."""
    made, given = network(dtype), {"x": RANDOM.standard_normal((1, 12, 14, 14)).astype(np.float32)}
    where = target(device)
    compiled = compile_graphs({"halves": made}, tmp_path, flags=where.flags, device=where.device)["halves"]
    assert not isinstance(compiled, EdgecError)
    found = compiled(given)["y0"]
    expected = run(made, given)["y0"]
    assert np.abs(found - expected).max() <= STEPS[dtype] * np.abs(expected).max()


@pytest.mark.parametrize("dtype", STEPS)
def test_forms_of_winograd_are_those_of_floats(dtype: str) -> None:
    def forms(of: str) -> list[str]:
        kernels = program_of(network(of), load_device("x86_64_avx2")).kernels
        return [k.schedule.variant for k in kernels if isinstance(k.schedule, Winograd)]

    assert forms("f32")
    assert forms(dtype) == forms("f32")
