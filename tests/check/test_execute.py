"""Every stage's result computes what the model says, on memory that was poisoned first."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx
import pytest
from convnet import convnet, tokens
from small_graphs import graph, value
from small_models import model, node, tensor_input, weights

from edgec import ops, pipeline
from edgec.check.compare import compare_all
from edgec.check.reference import Reference
from edgec.execute.executor import run_plan
from edgec.execute.invariants import InvariantError, verify_plan, verify_program
from edgec.execute.samples import random_inputs
from edgec.frontend.onnx.model import read
from edgec.fuse import plan
from edgec.options import resolve
from edgec.pipeline.context import Context
from edgec.pipeline.run import Run
from edgec.schedule.program import Program


def same_value_twice() -> onnx.ModelProto:
    """Outputs that are an input, a constant, one value under two names, and parts of a concatenation twice over."""
    nodes = [
        node("Relu", ["x"], ["a"]),
        node("Concat", ["a", "a", "x"], ["b"], axis=0),
        node("Identity", ["x"], ["same"]),
        node("Identity", ["a"], ["also"]),
        node("Pad", ["b", "pads"], ["padded"]),
        node("MaxPool", ["wide"], ["p"], kernel_shape=[2, 2]),
        node("Unsqueeze", ["padded", "axes"], ["wide"]),
    ]
    constants = [weights("pads", np.array([1, 0, 0, 2])), weights("axes", np.array([0, 1]))]
    return model(nodes, None, ("a", "also", "b", "same", "p"), constants)


def scan() -> onnx.ModelProto:
    nodes = [node("CumSum", ["x", "axis"], ["y"]), node("Transpose", ["y"], ["z"], perm=[1, 0])]
    return model(nodes, [tensor_input("x", [3, 4])], ("y", "z"), [weights("axis", np.array(1))])


MODELS = {"convnet": convnet, "tokens": tokens, "same_value_twice": same_value_twice, "scan": scan}


def walked(name: str, **settings: object) -> Run:
    return pipeline.run(MODELS[name](), Context(resolve(settings)), until="schedule")  # type: ignore[arg-type]


@pytest.mark.parametrize("fuse", [True, False])
@pytest.mark.parametrize("name", MODELS)
def test_stages_agree_with_onnxruntime(name: str, fuse: bool) -> None:
    run = walked(name, fuse=fuse, threads=2)
    inputs = random_inputs(run.graph, 0)
    want = Reference(read(MODELS[name]())).run(inputs)
    for step in run.steps:
        got = step.stage.executor(step.value, run.context)(inputs)
        assert all(d.within(1e-5) for d in compare_all(got, want)), (step.stage.name, compare_all(got, want))


def test_buffers_that_overlap_are_found() -> None:
    program: Program = walked("convnet", fuse=False)["schedule"]
    arena = sorted((b for b in program.offsets if b.space == "arena"), key=lambda b: program.offsets[b])
    moved = replace(program, offsets={**program.offsets, **dict.fromkeys(arena, 0)})
    with pytest.raises(InvariantError, match="overlap"):
        verify_program(moved)
    outside = replace(program, offsets={**program.offsets, arena[0]: program.arena_bytes})
    with pytest.raises(InvariantError, match="it lies at"):
        verify_program(outside)


def test_a_plan_in_the_wrong_order_is_found() -> None:
    plan = walked("convnet")["fuse"]
    with pytest.raises(InvariantError, match="no earlier block writes"):
        verify_plan(replace(plan, blocks=tuple(reversed(plan.blocks))))
    with pytest.raises(InvariantError, match="no block writes it"):
        verify_plan(replace(plan, blocks=plan.blocks[:-1]))
    view = next(n for n, place in plan.aliases.items() if place.is_view)
    with pytest.raises(InvariantError, match="no block writes its own memory"):
        verify_plan(replace(plan, outputs=(*plan.outputs, ("padded", view))))


def test_memory_that_nobody_wrote_shows() -> None:
    """Without its border, a padded buffer is NaN at the rim, and the result with it."""
    run = walked("convnet")
    program: Program = run["schedule"]
    without = replace(program, kernels=tuple(k.main for k in program.kernels))
    assert without.kernels != program.kernels
    execute = next(s for s in run.steps if s.stage.name == "schedule").stage.executor(without, run.context)
    assert np.isnan(execute(random_inputs(run.graph, 0))["scores"]).all()


def test_a_padded_number_has_a_place() -> None:
    """A halo around no dimension is nothing, and what it is around is still an array."""
    number = ops.node("pad", value("n"), before=(), after=(), value=-1.0)
    product = ops.node("matmul", ops.node("reshape", number, shape=(1, 1)), value("x", 1, 3))
    made = graph(ops.node("sign", number), product)
    given = {"n": np.array(-2, np.float32), "x": np.ones((1, 3), np.float32)}
    planned = plan(made)
    got = run_plan(planned, given)
    assert planned.halos and {n: a.tolist() for n, a in got.items()} == {"y0": -1.0, "y1": [[-2.0] * 3]}
