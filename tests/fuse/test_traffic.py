"""The byte ledger counts what a numpy walk over every index would."""

from __future__ import annotations

from math import prod

import networks_here as networks
import numpy as np
import pytest

from edgec import ops, pipeline
from edgec.fuse import plan
from edgec.ir import expr as X
from edgec.ir.evaluate import evaluate_formula
from edgec.ir.footprint import footprint
from edgec.ir.graph import Formula, Graph, Node, constant, placeholder
from edgec.ir.types import Type
from edgec.options import resolve
from edgec.pipeline.context import Context
from edgec.report import traffic


def counted(derived: Formula) -> dict[Node, int]:
    """Every element that a formula loads, by marking them; each array holds the positions of its elements."""
    seen: dict[Node, set[int]] = {}
    arrays = {e.value: np.arange(e.value.type.elements).reshape(e.value.type.shape) for e in X.loads(derived.body)}
    for load in X.loads(derived.body):
        loops = sorted(X.free_variables(load), key=str)
        names = [X.var(f"i{k}", v.value.extent) for k, v in enumerate(loops)]
        body = X.load(load.value, [X.substitute(i, dict(zip(loops, names))) for i in load.args], "i64")
        type = Type("i64", tuple(v.value.extent for v in loops))
        found = evaluate_formula(Formula(type, tuple(names), body), arrays.__getitem__)
        seen.setdefault(load.value, set()).update(np.asarray(found).reshape(-1).tolist())
    return {node: len(places) for node, places in seen.items()}


def value(name: str, *shape: int) -> Node:
    return placeholder(name, Type("f32", shape))


def window() -> Node:
    return ops.node("pool", value("x", 1, 3, 9, 11), combine="max", kernel=(3, 2), strides=(4, 5), dilations=(1, 2))


def stride() -> Node:
    w = constant(np.ones((2, 4, 1, 1), np.float32))
    return ops.node("conv", value("x", 1, 4, 9, 9), w, strides=(2, 3), dilations=(1, 1), groups=1)


def part() -> Node:
    return ops.node("exp", ops.node("slice", value("x", 9, 8), starts=(1, 0), shape=(4, 3), steps=(2, 3)))


CASES = {
    "window": window,
    "stride": stride,
    "broadcast": lambda: ops.node("mul", ops.node("broadcast", value("x", 1, 5), shape=(7, 5)), value("y", 7, 5)),
    "reorganize": lambda: ops.node("exp", ops.node("reshape", value("x", 6, 4), shape=(3, 8))),
    "part": part,
}


@pytest.mark.parametrize("name", CASES)
def test_elements_are_counted_exactly(name: str) -> None:
    node = CASES[name]()
    (block,) = plan(Graph(tuple(_inputs(node)), (("y", node),))).blocks
    assert footprint(block.formula) == counted(block.formula)


def _inputs(node: Node) -> list[Node]:
    found = [] if node.op != "input" else [node]
    for a in node.args:
        found += [n for n in _inputs(a) if n not in found]
    return found


@pytest.mark.parametrize("name", ["convnet", "attention", "digits"])
def test_whole_networks_are_counted_exactly(name: str) -> None:
    graph = networks.graph(name)
    assert graph is not None
    for block in plan(graph).blocks:
        small = prod(block.output.type.shape) * max((v.value.extent for v in _loops(block.formula)), default=1)
        if not block.is_procedure and small < 1 << 18:
            assert footprint(block.formula) == counted(block.formula)


def _loops(derived: Formula) -> list[X.Expr]:
    return [X.var(v.name, v.extent) for e in X.walk(derived.body) if e.op == "reduce" for v in e.value[1]]


@pytest.mark.parametrize("name", networks.here())
def test_plans_stand_between_the_bound_and_the_unfused_graph(name: str) -> None:
    source = networks.source(name)
    run = pipeline.run(source, Context(resolve({"shapes": networks.TRAINED.get(name, {})})), until="schedule")
    planned = traffic.of_plan(run["fuse"])
    assert traffic.least(run["fuse"]).together <= planned.together <= traffic.unfused(run.graph).together
    assert traffic.total(map(traffic.of_kernel, run["schedule"].kernels)) == planned
