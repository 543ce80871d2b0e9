"""Weights of few bits stay so: no rule scales them row by row, and the measure lets none."""

from __future__ import annotations

import numpy as np
import pytest
from chance import RANDOM
from compiled import program_of

from edgec import ops
from edgec.ir.evaluate import run
from edgec.ir.graph import Graph, Node, constant, placeholder
from edgec.ir.types import DTYPES, Type
from edgec.rewrite import load_rules, rule_on, simplify
from edgec.rewrite.few_bits import has_few_bits, is_kept, kept_bytes
from edgec.rewrite.measure import measure
from edgec.schedule.contract.few_bits import FewBits

INPUTS, OUTPUTS = 96, 64


def floats(*shape: int) -> Node:
    return constant(RANDOM.uniform(0.5, 2, shape).astype(np.float32))


def coded(dtype: str = "f32") -> Node:
    """Weights [INPUTS, OUTPUTS] as MatMulNBits has them: transposed, in groups of 32."""
    codes = constant(RANDOM.integers(-8, 8, (OUTPUTS, INPUTS)).astype(DTYPES["i4"]))
    scale = constant(RANDOM.uniform(0.5, 2, (OUTPUTS, INPUTS // 32)).astype(DTYPES[dtype]))
    return ops.node("transpose", ops.node("dequantize", codes, scale, axis=1, block=32), perm=(1, 0))


def network(before: Node | None = None, after: Node | None = None, dtype: str = "f32") -> Graph:
    """(x * before) @ weights * after."""
    x = placeholder("x", Type("f32", (3, INPUTS)))
    y = ops.node("matmul", x if before is None else ops.node("mul", x, before), coded(dtype))
    return Graph((x,), (("y", y if after is None else ops.node("mul", y, after)),))


def simplified(g: Graph, *more: object) -> Graph:
    """The graph after all rules, with the same result and weights that are kept in as many bytes."""
    got, _ = simplify(g, [*more, *load_rules()] if more else None)  # type: ignore[list-item]
    given = {"x": RANDOM.standard_normal((3, INPUTS)).astype(np.float32)}
    want = run(g, given)["y"]
    np.testing.assert_allclose(run(got, given)["y"], want, rtol=0, atol=1e-5 * np.abs(want).max())
    (product,) = (n for n in got.operations() if n.op == "matmul")
    assert is_kept(product.args[1]) and not measure(product).unpacked
    before = next(n for n in g.operations() if n.op == "matmul").args[1]
    assert kept_bytes(product.args[1]) == kept_bytes(before)
    return got


def test_a_norm_stays_on_the_activations() -> None:
    got = simplified(network(before=floats(INPUTS)))
    assert [n.op for n in got.operations() if not has_few_bits(n)] == ["mul", "matmul"]


def test_a_scale_of_columns_joins_those_of_the_groups() -> None:
    for g in (network(after=floats(OUTPUTS)), network(after=floats()), network(before=floats(1, 1))):
        assert [n.op for n in simplified(g).operations() if not has_few_bits(n)] == ["matmul"]


def test_scales_of_16_bits_stay_so() -> None:
    got = simplified(network(after=floats(OUTPUTS), dtype="f16"))
    assert [n.op for n in got.operations() if not has_few_bits(n)] == ["matmul", "mul"]


def test_the_measure_refuses_a_rule_that_unpacks() -> None:
    def examples(random: object) -> list[Node]:
        return []

    @rule_on("matmul", family="scaling", numeric="reassociates", examples=examples)
    def unpack(n: Node, view: object) -> Node | str:
        """(x * s) @ w = x @ (w * s), whatever that makes of w."""
        x, w = n.args
        if x.op != "mul" or not x.args[1].is_const:
            return "there is no scale"
        return ops.node("matmul", x.args[0], ops.node("mul", w, ops.node("reshape", x.args[1], shape=(INPUTS, 1))))

    simplified(network(before=floats(INPUTS)), unpack)


@pytest.mark.parametrize("dtype", ["f32", "f16"])
def test_kernels_store_codes_and_scales(dtype: str) -> None:
    """No weight is stored as a float, not even behind a norm."""
    graph = simplified(network(before=floats(INPUTS), dtype=dtype))
    program = program_of(graph)
    assert any(isinstance(k.schedule, FewBits) for k in program.kernels)
    assert program.weights_bytes <= INPUTS * OUTPUTS // 2 + OUTPUTS * INPUTS // 32 * 4 + INPUTS * 4 + 3 * 64
