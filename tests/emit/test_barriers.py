"""Barriers stand where kernels share memory that one of them writes; many kernels do not take a square of work."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import onnx
import pytest
from chance import RANDOM
from small_graphs import graph, value
from small_models import model, node, tensor_input

import edgec
from edgec import ops
from edgec.device.load import load_device
from edgec.emit.barriers import Barriers
from edgec.fuse import plan
from edgec.schedule.build import schedule
from edgec.schedule.program import Buffer, Kernel


def drawn(count: int) -> tuple[Any, list[Kernel]]:
    """Kernels whose operands, guards and scratch are buffers drawn anywhere in a small arena, and outside it."""
    arena = [Buffer(f"b{k}", "arena", "u8", 64 * int(RANDOM.integers(1, 5))) for k in range(30)]
    states = [Buffer(f"state{k}", "input", "u8", 64) for k in range(2)]
    outputs = [Buffer(f"y{k}", "output", "u8", 64) for k in range(4)]
    weights = [Buffer("w", "weights", "u8", 64)]
    values = [SimpleNamespace(output=object()) for _ in range(12)]
    offsets = {b: 64 * int(RANDOM.integers(200)) for b in arena} | {weights[0]: 0}
    kernels = []
    for _ in range(count):
        read = [*RANDOM.choice(arena + states + weights, 2)]  # type: ignore[arg-type]
        guards = tuple((b, True) for b in RANDOM.choice(arena, int(RANDOM.integers(2))))  # type: ignore[arg-type]
        scratch: list[Buffer] = []
        if RANDOM.integers(3) == 0:
            scratch = [Buffer("scratch", "arena", "u8", 64)]
            offsets[scratch[0]] = 64 * int(RANDOM.integers(300, 320))
        block = RANDOM.choice([None, *values])
        operands = (*scratch, *read, RANDOM.choice(arena + outputs))  # type: ignore[arg-type]
        kernels.append(Kernel(None, operands, block, (), 64 * len(scratch), guards=guards))
    return SimpleNamespace(offsets=offsets, states=dict(zip(outputs, states)), views={}), kernels


def places(program: Any, *buffers: Buffer) -> set[object]:
    """Memory of buffers, in pieces of 64 bytes."""
    found: set[object] = set()
    for b in buffers:
        first = program.offsets.get(b, 0) // 64
        arena = b.space == "arena"
        found |= set(range(first, first + b.bytes // 64)) if arena else {program.states.get(b, b)}
    return found


def conflict(program: Any, a: Kernel, b: Kernel) -> bool:
    changed_a, changed_b = (places(program, *k.operands[: 1 if k.scratch_bytes else 0]) for k in (a, b))
    read_a, read_b = (places(program, *k.touches[:-1]) for k in (a, b))
    out_a, out_b = (places(program, k.writes) for k in (a, b))
    parts = a.writes is b.writes and (a.block is None or b.block is None or a.block is not b.block)
    return bool(
        (not parts and out_a & out_b)
        or (out_a | changed_a) & (read_b | changed_b)
        or (out_b | changed_b) & (read_a | changed_a)
    )


def test_kernels_wait_for_what_they_share() -> None:
    waited = 0
    for _ in range(20):
        program, kernels = drawn(100)
        barriers = Barriers(program)
        since: list[Kernel] = []
        for kernel in kernels:
            expected = any(conflict(program, kernel, o) for o in since)
            since = [kernel] if expected else [*since, kernel]
            assert barriers.must_wait(kernel) == expected
            waited += expected
    assert 200 < waited < 1800


def test_an_update_waits_for_what_it_changes() -> None:
    whole, part = (ops.node("mul", value(f"a{n}", n, 96), value(f"b{n}", n, 96)) for n in (8, 3))
    for made in (ops.node("update", whole, part, starts=(4, 0)), ops.node("concat", whole, part, axis=0)):
        program = schedule(plan(graph(made)), load_device("x86_64_avx2"))
        barriers = Barriers(program)
        waits = [barriers.must_wait(k) for k in program.kernels]
        assert len({k.writes for k in program.kernels}) == 1
        assert waits == [False, made.op == "update"]


def many(count: int, computed: bool) -> onnx.ModelProto:
    """A model with a concatenation of ``count`` operands: the input itself, or as many values computed from it."""
    names = [f"a{k}" if computed else "x" for k in range(count)]
    nodes = []
    for k in range(count if computed else 0):
        nodes += [node("Constant", [], [f"c{k}"], value_float=float(k)), node("Add", ["x", f"c{k}"], [f"a{k}"])]
    nodes += [node("Concat", names, ["z"], axis=0), node("Exp", ["z"], ["y"])]
    return model(nodes, [tensor_input("x", [1, 8])])


def calls(count: int, computed: bool) -> int:
    """Number of function calls to build such a model."""
    given = many(count, computed)
    made = 0

    def counted(frame: object, event: str, argument: object) -> None:
        nonlocal made
        made += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(counted)
    try:
        edgec.build(given, compile=False)
    finally:
        sys.setprofile(before)
    return made


@pytest.mark.parametrize("computed", [False, True], ids=["one value", "many values"])
def test_work_grows_with_the_kernels_and_not_with_their_square(computed: bool) -> None:
    calls(10, computed)  # what is done once
    few, many = calls(100, computed), calls(300, computed)
    assert many < 3.3 * few, (few, many)
