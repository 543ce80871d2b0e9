"""Random inputs that prove something: as large as lets the outputs depend on them, and on both sides of decisions.

A network that expects pixels from 0 to 1 may saturate its softmax on numbers from a normal distribution, and is then
right whatever came before. So floats are drawn smaller where more outputs follow a change of the inputs by a tenth. And
a network that returns the number of a class returns the same one for most inputs, and for most mistakes. So pairs of
inputs are added that are near each other and have different classes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from edgec.check.compare import compare
from edgec.errors import EdgecError, NotMet
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
#: Seed of the change: of another one than inputs, in whose direction what is scaled anyway would not move.
NOISE = 0xED6E
#: Inputs that are tried for another decision, and their factors, in turns.
DRAWS, DRAWN_SCALES = 12, (1.0, 10.0, 0.1)
#: Pairs of inputs near each other for an output.
PAIRS = 4
#: Elements of an output of decisions; some of more elements differ from one input to the next anyway.
MOST_DECISIONS = 64


def scaled(graph: Graph, arrays: Mapping[str, np.ndarray], scale: float) -> Arrays:
    """The same arrays, with the floats among them times ``scale``; states and integers stay."""
    names = floats_of(graph)
    return {n: np.asarray(a * np.asarray(scale, a.dtype), a.dtype) if n in names else a for n, a in arrays.items()}


def telling_scale(graph: Graph, execute: Executor, arrays: Mapping[str, np.ndarray], least: float) -> float:
    """The scale of ``arrays`` at which most outputs change by more than ``least`` of their largest value.

    The greatest such scale, and 1 where none makes a difference. It takes two runs, and four more where outputs stand.
    """
    best, fewest = 1.0, len(graph.outputs) + 1
    for scale in SCALES:
        tried = scaled(graph, arrays, scale)
        try:
            results = execute(tried)
        except NotMet:
            continue  # numbers that have a meaning of their own
        still = len(unmoved(graph, execute, tried, results, least))
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
    names = floats_of(graph)
    reached = _reached(graph, names)
    if not reached:
        return []
    random = np.random.default_rng(NOISE)
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


def both_sides(
    graph: Graph, execute: Executor, sets: Sequence[Arrays], draw: Callable[[int], Arrays], halvings: int
) -> list[Arrays]:
    """Inputs to add to ``sets``: pairs for each output of integers or truth values that is a decision on floats.

    The two of a pair differ in the output, and by ``2**-halvings`` of what two drawn ones differ by. ``draw`` gives
    other inputs by number. Nothing is added for an output that none of `DRAWS` others changes, nor where no input has
    floats.
    """
    names = floats_of(graph)
    reached = _reached(graph, names)
    waiting = [n for n, node in graph.outputs if n in reached and node.type.dtype in ("i64", "i32", "bool")]
    if not waiting:
        return []
    start, first = sets[0], execute(sets[0])
    pairs = {n: 0 for n in waiting if first[n].size <= MOST_DECISIONS}
    added: list[Arrays] = []
    for k in range(-len(sets) + 1, DRAWS):
        waiting = [n for n in pairs if pairs[n] < PAIRS]
        if not waiting:
            break
        drawn = scaled(graph, draw(k), DRAWN_SCALES[k % len(DRAWN_SCALES)]) if k >= 0 else sets[k]
        other = {**start, **{n: drawn[n] for n in names}}
        found = execute(other)
        for name in [n for n in waiting if not np.array_equal(found[n], first[n])]:
            pairs[name] += 1
            added += _nearer(execute, start, other, name, names, halvings)
    return added


def _nearer(
    execute: Executor, one: Arrays, other: Arrays, output: str, names: set[str], halvings: int
) -> tuple[Arrays, Arrays]:
    """Inputs between two with different values of ``output``, which differ in it too."""
    first = execute(one)[output]
    for _ in range(halvings):
        middle = {n: np.asarray((one[n] + a) / 2, a.dtype) if n in names else a for n, a in other.items()}
        if np.array_equal(execute(middle)[output], first):
            one = middle
        else:
            other = middle
    return one, other


def _nudged(array: np.ndarray, random: np.random.Generator) -> np.ndarray:
    wide = array.astype(np.float64)
    step = NUDGE * float(np.abs(wide).max(initial=0.0))
    return np.asarray(wide + step * random.standard_normal(array.shape), array.dtype)


def floats_of(graph: Graph) -> set[str]:
    """Names of the inputs of floats that are no states."""
    kept = states.initial(graph)
    return {n.attributes["name"] for n in graph.inputs if is_float(n.type.dtype)} - set(kept)


def _reached(graph: Graph, names: set[str]) -> set[str]:
    """Names of the outputs that are computed from the inputs ``names``."""
    below: dict[Node, bool] = {}
    for node in graph.nodes():
        below[node] = (node.op == "input" and node.attributes["name"] in names) or any(below[a] for a in node.args)
    return {name for name, node in graph.outputs if below.get(node, False)}
