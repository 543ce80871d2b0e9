"""However much a build fuses, the network computes the same."""

from __future__ import annotations

import networks_here as networks
import numpy as np
import pytest

import edgec
from edgec.check.compare import compare_all
from edgec.errors import UsageError
from edgec.execute.executor import run_graph, run_plan
from edgec.execute.samples import random_inputs
from edgec.fuse import plan
from edgec.fuse.modes import MODES


@pytest.mark.parametrize("simplified", [True, False])
@pytest.mark.parametrize("name", networks.here())
def test_every_mode_plans_what_the_graph_says(name: str, simplified: bool) -> None:
    graph = networks.graph(name, simplified)
    assert graph is not None
    inputs = random_inputs(graph, 0)
    want = run_graph(graph, inputs)
    blocks = []
    for mode in MODES:
        found = plan(graph, mode)
        got = run_plan(found, inputs)
        assert all(d.within(2e-5) for d in compare_all(got, want)), (mode, compare_all(got, want))
        blocks.append(len(found.blocks))
    assert blocks == sorted(blocks), f"{MODES}: less fusion gave fewer kernels: {blocks}"


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ["convnet", "tokens", "attention"])
def test_every_mode_compiles(name: str, mode: str) -> None:
    assert edgec.check(networks.SMALL[name](), samples=1, fuse=mode, threads=2).ok


def test_operators_are_kernels() -> None:
    """A normalization or a softmax is one kernel of a library, and an activation after a convolution another."""
    graph = networks.graph("convnet", simplified=False)
    assert graph is not None
    assert [len(plan(graph, mode).blocks) for mode in ("operators", "fixed")] == [10, 7]
    fixed = [{n.op for n in b.nodes} for b in plan(graph, "fixed").blocks]
    assert {"conv", "add", "max"} <= set().union(*fixed) and any({"conv", "max"} <= ops for ops in fixed)


def test_an_unknown_mode_is_refused() -> None:
    with pytest.raises(UsageError, match="no way to fuse called 'most'"):
        edgec.build(networks.SMALL["convnet"](), fuse="most")


def test_names_of_before() -> None:
    graph = networks.graph("convnet")
    assert graph is not None
    assert len(plan(graph, True).blocks) == len(plan(graph, "planner").blocks)
    assert len(plan(graph, False).blocks) == len(plan(graph, "none").blocks)
    assert np.asarray(MODES).tolist() == ["planner", "fixed", "operators", "none"]
