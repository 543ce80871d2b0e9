"""Memory of a plan's execution: what nobody reads any more is given up, and nothing that somebody reads."""

from __future__ import annotations

import numpy as np
from small_graphs import conv, graph, relu, value, weights

from edgec import ops
from edgec.check.compare import compare_all
from edgec.execute.executor import PlanRun, run_graph
from edgec.execute.samples import random_inputs
from edgec.fuse import plan
from edgec.ir.graph import Node


def test_a_chain_holds_few_values() -> None:
    x: Node = value("x", 1, 8, 20, 20)
    first = last = relu(conv(x, weights(8, 8, 1, 1)))
    for _ in range(12):
        last = relu(conv(last, weights(8, 8, 1, 1)))
    whole = graph(ops.node("add", conv(last, weights(8, 8, 1, 1)), first), ops.node("concat", first, last, axis=1))
    planned, inputs = plan(whole), random_inputs(whole, 0)
    execution = PlanRun(planned, inputs)
    held: list[int] = []
    step = execution.step

    def counted(k: int) -> np.ndarray | None:
        found = step(k)
        held.append(sum(a.nbytes for a in execution.owned.values()))
        return found

    execution.step = counted  # type: ignore[method-assign]
    got = execution.run()
    assert all(d.within(2e-5) for d in compare_all(got, run_graph(whole, inputs)))
    each = 8 * 20 * 20 * 4
    assert len(planned.blocks) >= 12 and max(held) <= 6 * each, [n / each for n in held]
