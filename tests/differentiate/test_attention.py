"""Attention backwards in blocks: the same gradients as those of its parts, in all spellings, no scores in memory."""

from __future__ import annotations

import numpy as np
import pytest
from attention_cases import attention, heads
from chance import SEED
from compiled import program_of
from small_graphs import arrays, doubled, graph, number, softmax, transpose, value, weights

from edgec import ops, pipeline
from edgec.device.device import Device
from edgec.device.load import load_device
from edgec.differentiate import gradients
from edgec.differentiate.attention import Blocks
from edgec.errors import ModelError
from edgec.ir import evaluate
from edgec.ir.graph import Graph, Node, constant
from edgec.options import resolve
from edgec.report.kernels import kernel_cost
from edgec.report.predicted import predicted_seconds
from edgec.schedule.program import Kernel, Program

M, N = 130, 101
CAUSAL = np.tri(M, N, dtype=bool)


def _operands(*outer: int) -> tuple[Node, Node, Node]:
    return value("q", *outer, M, 12), value("k", *outer, N, 12), value("v", *outer, N, 20)


def _divided(q: Node, k: Node, v: Node) -> Node:
    scores = ops.node("div", ops.node("matmul", q, transpose(k, 0, 2, 1)), number(4.0))
    return ops.node("matmul", softmax(scores, 2), v)


def _hidden(q: Node, k: Node, v: Node) -> Node:
    scores = ops.node("matmul", q, transpose(k, 0, 2, 1))
    scores = ops.node("select", constant(~CAUSAL), number(-np.inf), scores)
    return ops.node("matmul", softmax(scores, 2), v)


def _with_itself(q: Node, k: Node, v: Node) -> Node:
    """Keys are values, so that one operand has two gradients."""
    return attention(q, k, k, scale=0.2)


BEFORE = constant(np.where(CAUSAL, 0, -np.inf).astype(np.float32))
BLIND = constant(np.where(CAUSAL & (np.arange(M)[:, None] % 5 != 3), 0, -np.inf).astype(np.float32))
SPELLINGS = {
    "plain": lambda q, k, v: attention(q, k, v),
    "divided": _divided,
    "causal": lambda q, k, v: attention(q, k, v, BEFORE),
    "hidden": _hidden,
    "chosen": lambda q, k, v: attention(q, k, v, value("seen", 1, M, N, dtype="bool")),
    "mask of samples": lambda q, k, v: attention(q, k, v, value("mask", 2, 1, N)),
    "guarded": lambda q, k, v: attention(q, k, v, BEFORE, is_guarded=True),
    "with itself": _with_itself,
    "scaled before": lambda q, k, v: attention(
        ops.node("mul", q, number(0.25)), ops.node("div", k, number(2.0)), v, BEFORE
    ),
}


INSIDE, BY_STATISTICS = Blocks(), Blocks(256, has_statistics=True)


def _by_weights(made: Node, blocks: Blocks | None) -> Graph:
    """The gradients of squares of a result by all inputs that are floats."""
    seed = ops.node("mul", made, number(2.0))
    inputs = [n for n in graph(made).inputs if n.attributes["name"] in ("q", "k", "v")]
    found = gradients(made, inputs, seed=seed, blocks=blocks)
    return graph(*(g for g in found if g is not None))


@pytest.mark.parametrize("blocks", [INSIDE, BY_STATISTICS], ids=["inside", "by statistics"])
@pytest.mark.parametrize("name", SPELLINGS)
def test_the_gradients_of_its_parts(name: str, blocks: Blocks) -> None:
    made = SPELLINGS[name](*_operands(2))
    apart, inside = (_by_weights(made, b) for b in (None, blocks))
    found = [n.op for n in inside.operations()]
    assert found.count("attention_gradients") == 1
    assert found.count("attention_statistics") == blocks.has_statistics
    given = {k: x.astype(np.float64) if x.dtype == np.float32 else x for k, x in arrays(apart, SEED).items()}
    for k in ("q", "k"):
        given[k] *= 0.5
    want, got = (evaluate.run(doubled(g), given) for g in (apart, inside))
    assert len(want) == len(got) > 1
    for port, array in want.items():
        assert np.abs(got[port] - array).max() <= 1e-10 * np.abs(array).max(), port


@pytest.mark.parametrize("blocks", [INSIDE, BY_STATISTICS], ids=["inside", "by statistics"])
def test_a_query_that_sees_no_key_has_no_gradient(blocks: Blocks) -> None:
    inside = _by_weights(attention(*_operands(2), BLIND, is_guarded=True), blocks)
    found = evaluate.run(inside, arrays(inside, SEED))
    assert all(np.isfinite(x).all() for x in found.values())
    assert not found["y0"][:, 3::5].any() and found["y0"][:, 4::5].any()


def test_what_is_no_attention_keeps_its_scores() -> None:
    q, k, v = _operands(2)
    trained = value("mask", 2, M, N)
    learned = attention(q, k, v, trained)
    found = gradients(learned, [q, trained], blocks=INSIDE)
    assert not any(n.op == "attention_gradients" for n in graph(*(g for g in found if g is not None)).operations())
    few = attention(value("q", 4, 8), value("k", 4, 8), value("v", 4, 8))
    (slope,) = gradients(few, [value("q", 4, 8)], blocks=INSIDE)
    assert slope is not None and not any(n.op == "attention_gradients" for n in graph(slope).operations())
    (slope,) = gradients(attention(*_operands(2)), [q], blocks=Blocks(19, has_statistics=True))
    assert slope is not None and not any(n.op == "attention_gradients" for n in graph(slope).operations())


def test_a_step_keeps_no_scores() -> None:
    x = value("x", 1, 512, 24)
    parts = [ops.node("matmul", x, weights(24, 24, scale=0.2)) for _ in range(3)]
    mixed = transpose(attention(*(heads(p, 3) for p in parts)), 0, 2, 1, 3)
    seed = value("g", *mixed.type.shape)

    def arena(blocks: Blocks | None) -> int:
        (slope,) = gradients(mixed, [x], seed=seed, blocks=blocks)
        assert slope is not None
        context = pipeline.Context(resolve({}))
        done = pipeline.run(graph(mixed, slope), context, start="simplify", until="schedule")
        program: Program = done["schedule"]
        return program.arena_bytes

    scores = 4 * 3 * 512 * 512
    assert arena(INSIDE) < scores / 4 < 2 * scores < arena(None)


def test_operands_that_do_not_fit() -> None:
    q, k, v = _operands(2)
    g, p = value("g", 2, M, 20), value("p", 2, M)
    with pytest.raises(ModelError, match="of the gradients of attention"):
        ops.node("attention_gradients", q, k, v, g, value("p", 2, N))
    with pytest.raises(ModelError, match="of the gradients of attention"):
        ops.node("attention_gradients", q, k, v, g, p, value("mask", 2, M, N + 1))
    with pytest.raises(ModelError, match="of the statistics of attention"):
        ops.node("attention_statistics", q, v)


@pytest.mark.parametrize("name", ["x86_64_avx512", "raspberry_pi_5", "generic"])
def test_the_price_is_that_of_sums_on_lanes(name: str) -> None:
    """Gradients of attention cost at most four times what a product of as many FLOPs does, and more than that."""
    device = load_device(name)
    (of_heads,) = kernels(
        graph(
            ops.node(
                "attention_gradients",
                *(value(n, 12, 256, 64) for n in ("q", "k", "v", "g")),
                value("p", 12, 256),
            )
        ),
        device,
    )
    (of_product,) = kernels(graph(ops.node("matmul", value("a", 12, 256, 64), value("b", 12, 64, 256))), device)
    for_each = predicted_seconds(of_heads, device) / kernel_cost(of_heads)["flops"]
    of_sums = predicted_seconds(of_product, device) / kernel_cost(of_product)["flops"]
    assert of_sums < for_each < 4 * of_sums


def kernels(g: Graph, device: Device) -> list[Kernel]:
    return list(program_of(g, device).kernels)
