"""Trials of a training step: equal blocks are scheduled once, and what cannot take the least memory is left out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
import pytest
from chance import RANDOM
from small_models import model, node, tensor_input, weights
from trained_models import attention, floats

import edgec
from edgec.build import Built
from edgec.ir.graph import Graph, Node
from edgec.pipeline import trials
from edgec.schedule import build as scheduler
from edgec.schedule import choose
from edgec.schedule.known import Known
from edgec.schedule.memory import overwrites_in_place
from edgec.schedule.program import Buffer, Kernel, Program
from edgec.schedule.states import overwritten_early

#: Bytes that no arena has.
HUGE = 1 << 60


def bottlenecks(layers: int) -> onnx.ModelProto:
    """Layers of one shape that widen, filter and narrow again, with sums around them, and a classifier."""
    narrow, wide, side = 2 * int(RANDOM.integers(2, 4)), 24, 2 * int(RANDOM.integers(5, 7)) + 1
    nodes, held, value = [], {}, "x"
    for k in range(layers):
        held |= {
            f"a{k}": floats(wide, narrow, 1, 1), f"b{k}": floats(wide, 1, 3, 3), f"c{k}": floats(narrow, wide, 1, 1),
            f"s{k}": floats(wide),
        }  # fmt: skip
        nodes += [
            node("Conv", [value, f"a{k}", f"s{k}"], [f"w{k}"]),
            node("Relu", [f"w{k}"], [f"r{k}"]),
            node("Conv", [f"r{k}", f"b{k}"], [f"d{k}"], group=wide, pads=[1, 1, 1, 1]),
            node("Relu", [f"d{k}"], [f"q{k}"]),
            node("Conv", [f"q{k}", f"c{k}"], [f"n{k}"]),
            node("Add", [value, f"n{k}"], [f"y{k}"]),
        ]
        value = f"y{k}"
    held["classes"] = floats(narrow, 3)
    nodes += [
        node("ReduceMean", [value], ["mean"], axes=[2, 3], keepdims=0),
        node("MatMul", ["mean", "classes"], ["logits"]),
    ]
    image = tensor_input("x", [1, narrow, side, side])
    return model(nodes, [image], ["logits"], [weights(n, v) for n, v in held.items()])


def step_of(network: onnx.ModelProto) -> Built:
    return edgec.build(
        network.SerializeToString(), compile=False, threads=1, device="cortex_m7", loss="cross_entropy",
        update="all", optimizer="adam", batch=2,
    )  # fmt: skip


def files_of(built: Built) -> dict[str, bytes]:
    return {path: content for path, content in built.stages["emit"].files.items() if path.endswith((".c", ".h"))}


@pytest.fixture
def chosen(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Node]]:
    """The results of the blocks that a schedule was made for."""
    made: list[Node] = []

    def choosing(request: choose.Request) -> choose.Found:
        made.append(request.block.output)
        return choose.choose(request)

    monkeypatch.setattr(scheduler, "choose", choosing)
    yield made


def test_equal_blocks_are_scheduled_once(chosen: list[Node], monkeypatch: pytest.MonkeyPatch) -> None:
    network = bottlenecks(3)
    built = step_of(network)
    once = len(chosen)

    def each(self: Known, block: Any, views: Any, device: Any, weights: Any, further: Any, make: Any) -> Any:
        return make(weights)

    monkeypatch.setattr(Known, "schedule", each)
    assert files_of(step_of(network)) == files_of(built)
    assert once < 0.6 * (len(chosen) - once)


def test_trials_that_are_left_out_take_more(monkeypatch: pytest.MonkeyPatch) -> None:
    network = bottlenecks(2)
    usual = step_of(network)
    tried, least, kept = trials.tried, scheduler.least_arena, trials.least_kept
    plans: list[int] = []
    graphs: list[int] = []
    arenas: list[int] = []

    def all_of(trial: Graph, context: Any, arena: float = HUGE, plans: Any = None) -> Program | None:
        program = tried(trial, context, HUGE)
        assert program is not None
        loss = dict(trial.outputs)[trial.outputs[0][0]]
        graphs.append(kept(trial, [loss]))
        arenas.append(program.arena_bytes)
        assert tried(trial, context, program.arena_bytes - 1) is None
        return program if program.arena_bytes <= arena else None

    def noted(plan: Any, views: Any) -> int:
        plans.append(least(plan, views))
        return plans[-1]

    monkeypatch.setattr(trials, "tried", all_of)
    monkeypatch.setattr(trials, "least_kept", lambda trial, results: 0)
    monkeypatch.setattr(scheduler, "least_arena", noted)
    assert files_of(step_of(network)) == files_of(usual)
    assert len(arenas) > 1
    assert all(bound <= arena for bound, arena in zip(graphs, arenas))
    assert max(graphs) > 0
    for k, arena in enumerate(arenas):  # of each trial twice: with the bound that nothing reaches, and below its arena
        own = plans[2 * k : 2 * k + 2]
        assert own and all(0.8 * arena <= bound <= arena for bound in own)


def test_operands_of_matmuls_and_attention_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    tried, kept = trials.tried, trials.least_kept
    bounds: list[tuple[int, int]] = []

    def noted(trial: Graph, context: Any, arena: float = HUGE, plans: Any = None) -> Program | None:
        program = tried(trial, context, HUGE, plans)
        assert program is not None
        bounds.append((kept(trial, [trial.outputs[0][1]]), program.arena_bytes))
        return program if program.arena_bytes <= arena else None

    monkeypatch.setattr(trials, "tried", noted)
    monkeypatch.setattr(trials, "least_kept", lambda trial, results: 0)
    edgec.build(
        attention(tokens=96).SerializeToString(), compile=False, threads=1, device="x86_64_avx512",
        loss="cross_entropy", optimizer="adam",
    )  # fmt: skip
    values = 4 * 96 * 12  # bytes of queries, and of what attention gives
    assert bounds and all(2 * values <= bound <= arena for bound, arena in bounds)


@pytest.mark.parametrize("optimizer", ["sgd:lr=0.1,momentum=0.9", "adam"])
def test_a_batch_that_is_divided_is_as_if_it_was_scheduled_whole(
    optimizer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    network, scheduled = bottlenecks(2).SerializeToString(), scheduler.schedule
    given = {
        "compile": False, "threads": 2, "device": "x86_64_avx512", "loss": "cross_entropy", "optimizer": optimizer,
        "batch": 4,
    }  # fmt: skip
    made: list[int] = []

    def counted(*args: Any) -> Program:
        program = scheduled(*args)
        made.append(len(program.kernels))
        return program

    monkeypatch.setattr("edgec.pipeline.stages.schedule_plan", counted)
    quick = edgec.build(network, **given)
    fewer = len(made)
    monkeypatch.setattr("edgec.pipeline.training.largest", lambda *of: 0)  # nothing is known before it is scheduled
    whole = edgec.build(network, **given)
    assert files_of(quick) == files_of(whole)
    divided = "adam" not in optimizer
    assert (fewer < len(made) - fewer) == divided
    assert whole.program.training is not None and (whole.program.training.micro_batches > 1) == divided


def test_states_overwritten_early() -> None:
    """New values that are written over a state while it is read: as one looks at each state by itself."""
    step = edgec.build(
        bottlenecks(2).SerializeToString(), compile=False, threads=1, loss="cross_entropy", optimizer="adam"
    ).program.training.step  # type: ignore[union-attr]

    def is_early(kernels: list[Kernel], new: Buffer, old: Buffer) -> bool:
        begun = False
        for kernel in kernels:
            writes, reads = kernel.writes is new, old in kernel.touches[:-1]
            if reads and (begun or (writes and not overwrites_in_place(kernel, old))):
                return True
            begun = begun or writes
        return False

    for seed in range(20):
        order = np.random.default_rng(seed).permutation(len(step.kernels)) if seed else range(len(step.kernels))
        kernels = [step.kernels[k] for k in order]
        want = {new for new, old in step.states.items() if is_early(kernels, new, old)}
        assert overwritten_early(kernels, step.states) == want
