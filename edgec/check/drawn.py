"""Random inputs that prove something: as large as lets the outputs depend on them.

A network that expects pixels from 0 to 1 may saturate its softmax on numbers from a normal distribution, and is then
right whatever came before. So floats are drawn smaller where more outputs follow a change of the inputs by a tenth.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from edgec.check.compare import compare
from edgec.errors import EdgecError
from edgec.execute.executor import Executor
from edgec.frontend import states
from edgec.ir.graph import Graph, Node
from edgec.ir.types import is_float

Arrays = dict[str, np.ndarray]
#: Factors on floats from a standard normal distribution, in the order in which they are tried.
SCALES = (1.0, 0.1, 0.01)
#: A change of the outputs, relative to their largest, that shows however large the tolerance is.
SHOWS = 1e-4
#: Change of the inputs, as a part of their largest value, that has to show in an output.
NUDGE = 0.1


def scaled(graph: Graph, arrays: Mapping[str, np.ndarray], scale: float) -> Arrays:
    """The same arrays, with the floats among them times ``scale``; states and integers stay."""
    names = _floats(graph)
    return {n: np.asarray(a * np.asarray(scale, a.dtype), a.dtype) if n in names else a for n, a in arrays.items()}


def telling_scale(graph: Graph, execute: Executor, arrays: Mapping[str, np.ndarray], least: float) -> float:
    """The scale of ``arrays`` at which most outputs change by more than ``least`` of their largest value.

    The greatest such scale, and 1 where none makes a difference. It takes two runs, and four more where outputs stand.
    """
    best, fewest = 1.0, len(graph.outputs) + 1
    for scale in SCALES:
        tried = scaled(graph, arrays, scale)
        still = len(unmoved(graph, execute, tried, execute(tried), least))
        if still < fewest:
            best, fewest = scale, still
        if not still:
            break
    return best


def unmoved(
    graph: Graph, execute: Executor, arrays: Mapping[str, np.ndarray], results: Mapping[str, np.ndarray], least: float
) -> list[str]:
    """Outputs of floats that a change of the floats among the inputs moves by no more than ``least`` of their largest.

    ``results`` are those of ``arrays``. Outputs that no input of floats reaches are not among them.
    """
    names = _floats(graph)
    reached = _reached(graph, names)
    if not reached:
        return []
    random = np.random.default_rng(0)
    nudged = {n: _nudged(a, random) if n in names else a for n, a in arrays.items()}
    try:
        moved = execute(nudged)
    except EdgecError:
        return []  # numbers that have a meaning of their own, such as sizes
    found = []
    for name, node in graph.outputs:
        result = results.get(name)
        if name in reached and is_float(node.type.dtype) and result is not None and result.size:
            same = moved[name].shape == result.shape
            if same and compare(name, moved[name], result).max_rel <= min(least, SHOWS):
                found.append(name)
    return found


def _nudged(array: np.ndarray, random: np.random.Generator) -> np.ndarray:
    wide = array.astype(np.float64)
    step = NUDGE * float(np.abs(wide).max(initial=0.0))
    return np.asarray(wide + step * random.standard_normal(array.shape), array.dtype)


def _floats(graph: Graph) -> set[str]:
    """Names of the inputs of floats that are no states."""
    kept = states.initial(graph)
    return {n.attributes["name"] for n in graph.inputs if is_float(n.type.dtype)} - set(kept)


def _reached(graph: Graph, names: set[str]) -> set[str]:
    """Names of the outputs that are computed from the inputs ``names``."""
    below: dict[Node, bool] = {}
    for node in graph.nodes():
        below[node] = (node.op == "input" and node.attributes["name"] in names) or any(below[a] for a in node.args)
    return {name for name, node in graph.outputs if below.get(node, False)}
