"""The reference's own error: its distance from double precision, where the import is known to be right.

Two sets of floats that both are far from double precision say little about each other. A network of rounded integers
that comes near half a step goes to either side there, and everything behind it follows. So where the results differ,
they are held against the imported graph in double precision, by the measure of the reference's distance from it. That
graph may itself be what is wrong. So it counts only where every tensor of the reference is what the graph makes, in
double precision, of those tensors of the reference that it is computed from: one step of the file, which amplifies
nothing. A step that is wrong by less than the tolerance may be amplified by those behind it, so the reference also must
not be farther from double precision than rounding takes that graph, by order of magnitude.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from edgec import ops
from edgec.build import Built
from edgec.check.bisect import tensors_of, traced
from edgec.check.compare import TOLERANCE, step_of
from edgec.check.float64 import exact_results
from edgec.check.judge import OwnError
from edgec.execute.executor import run_graph
from edgec.ir.graph import Graph, Node, constant, placeholder, rewrite
from edgec.ir.types import DTYPES, is_float

Arrays = Mapping[str, np.ndarray]
#: Part of the rounded integers of a tensor that may be a step off what its operands give.
FEW = 0.01
#: Runs with every input moved, and every number before it is rounded to an integer; the relative size: of four floats.
NUDGES, NUDGE = 3, 2.0**-21
#: Prefix of the inputs that stand for tensors of the reference.
_GIVEN = "\0"


def own_error(built: Built, inputs: Arrays, want: Arrays) -> OwnError | None:
    """The error of the reference's results ``want``; None where a step of the import is not what the reference does.

    Raises EdgecError where the graph has no meaning in double precision, or tensors of the reference are not to be had.
    """
    graph = built.stages.graph
    if not all(n.type.is_fixed for n in graph.nodes()):
        return None
    tensors = tensors_of(built, inputs)
    whole, named = traced(built)
    if not steps_agree(whole, named, {**tensors, **inputs}):
        return None
    return error_by_rounding(graph, inputs, want)


def error_by_rounding(graph: Graph, inputs: Arrays, want: Arrays) -> OwnError | None:
    """The error of results ``want``, known to be of the graph: what it makes in double precision, and when moved.

    None for a graph of open sizes; raises EdgecError where it has no meaning in double precision.
    """
    if not all(n.type.is_fixed for n in graph.nodes()):
        return None
    exact = exact_results(graph, inputs)
    random = np.random.default_rng(0)
    nudged = (
        exact_results(moved(graph, lambda shape: random.uniform(-1, 1, shape)), _moved_floats(inputs, random))
        for _ in range(NUDGES)
    )
    return OwnError(exact, want, (run_graph(graph, inputs), *nudged))


def steps_agree(graph: Graph, named: Mapping[str, Node], tensors: Arrays, tolerance: float = TOLERANCE) -> bool:
    """Is each tensor, relative to its largest value, what the graph computes from the other ``tensors``?

    ``named`` are the nodes of tensors by name. Rounded integers may be a step off in a few elements, and where half a
    step is near; other integers not at all.
    """
    given: dict[Node, str] = {}
    for name, node in named.items():
        if node.args and name in tensors and tensors[name].shape == tuple(node.type.shape):
            given.setdefault(node, name)
    made: dict[str, Node] = {}

    def change(old: Node, args: tuple[Node, ...]) -> Node:
        if not old.args:
            return old
        node = ops.node(old.op, *args, **old.attributes)
        if old not in given:
            return node
        made[given[old]] = node
        return placeholder(_GIVEN + given[old], node.type)

    split = rewrite(graph, change)
    inputs = {n.attributes["name"]: n for node in made.values() for n in _inputs_of(node)}
    apart = replace(split, inputs=tuple(inputs.values()), outputs=tuple(made.items()), origin={}, demands=())
    fed = {n: np.asarray(tensors[n.removeprefix(_GIVEN)]) for n in inputs}
    exact = exact_results(apart, fed)
    aside = [exact_results(moved(apart, change_all), fed) for change_all in (np.ones, lambda shape: -np.ones(shape))]
    for name, value in exact.items():
        want, step = tensors[name].astype(np.float64), step_of(named[name])
        large = float(np.abs(value).max(initial=0.0)) if is_float(named[name].type.dtype) else 0.0
        off = np.abs(want - value.astype(np.float64))
        is_off = ~(off <= tolerance * large) & (want != value)  # an infinity is itself
        if step is None or (is_off & ~(np.abs(off - step) <= tolerance * max(large, step))).any():
            if is_off.any():
                return False
            continue
        is_tie = aside[0][name] != aside[1][name]
        if np.count_nonzero(is_off & ~is_tie) > max(1.0, FEW * off.size):
            return False
    return True


def _moved_floats(inputs: Arrays, random: np.random.Generator) -> dict[str, np.ndarray]:
    """Inputs in double precision, moved by `NUDGE` of themselves at most; integers as they are."""
    return {
        name: x * (1 + NUDGE * random.uniform(-1, 1, x.shape)) if x.dtype.kind == "f" else x
        for name, x in inputs.items()
    }


def _inputs_of(node: Node) -> list[Node]:
    return [n for n in Graph((), (("", node),)).nodes() if n.op == "input"]


def moved(graph: Graph, factors: Callable[[tuple[int, ...]], np.ndarray]) -> Graph:
    """The graph with every float moved before it is rounded to an integer, by `NUDGE` times ``factors`` of a shape."""

    def change(old: Node, args: tuple[Node, ...]) -> Node:
        if old.op == "round":
            around = 1 + NUDGE * factors(tuple(old.type.shape))
            args = (ops.node("mul", args[0], constant(around.astype(DTYPES[args[0].type.dtype]))),)
        return ops.node(old.op, *args, **old.attributes) if old.args else old

    return rewrite(graph, change)
