"""Scratch memory of a kernel is apart from its result, whatever their types and sizes are."""

from __future__ import annotations

import numpy as np
import pytest
from chance import RANDOM
from compiled import program_of, target
from saved_cases import check_program
from small_graphs import graph, number, value

from edgec import ops
from edgec.ir.graph import Graph, Node, constant


def layer(x: Node, width: int) -> Node:
    """A dense layer of bytes without an offset, whose results are bytes again."""
    weights = constant(RANDOM.integers(-9, 9, (x.type.shape[-1], width)).astype(np.int8))
    wide = (ops.node("cast", v, to="i32") for v in (x, weights))
    scaled = ops.node("mul", ops.node("cast", ops.node("matmul", *wide), to="f32"), number(0.05))
    held = ops.node("min", ops.node("max", ops.node("round", scaled), number(0)), number(255))
    return ops.node("cast", held, to="u8")


def layers(width: int) -> Graph:
    """Of two, the vector between them is as large as their result, and of bytes as scratch memory is."""
    y = layer(layer(value("x", 1, 48, dtype="u8"), width), width)
    return graph(layer(y, 40), layer(y, 24))


@pytest.mark.parametrize("width", [64, 192])
@pytest.mark.parametrize("device", ["x86_64_avx512_vnni", "x86_64_avx2"])
def test_vectors_of_a_thread_are_not_where_the_result_is(width: int, device: str) -> None:
    program = program_of(layers(width), target(device).device, threads=1)
    found = [k for k in program.kernels if k.scratch_bytes and k.writes.space == "arena"]
    assert found
    for kernel in found:
        (scratch, start), (result, at) = ((b, program.offsets[b]) for b in (kernel.operands[0], kernel.writes))
        assert start + scratch.bytes <= at or at + result.bytes <= start
    check_program(program, target(device).device)
