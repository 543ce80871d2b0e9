"""Decisions on floats: indices of the largest, ranks and comparisons, where two scores are nearer than they round.

Two sides that both round may choose either of two such scores. So where integers or truth values of an output differ,
the scores that they were chosen by are moved by what results of floats may be off by, many times. An element passes
that is among what was chosen so, on both sides.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from edgec import ops
from edgec.execute.executor import run_graph
from edgec.ir.graph import Graph, Node, placeholder, rewrite
from edgec.ir.types import is_float
from edgec.rewrite.facts import is_static

Arrays = Mapping[str, np.ndarray]
#: Times that scores are moved. Of two as far apart as they may be off, one in eight is another choice.
DRAWS = 64
#: Sums of products are no decisions, and what is in front of them is no score.
_SUMS = frozenset(("matmul", "conv", "pool"))
#: Prefix of the inputs that stand for scores.
_SCORE = "\0score"


def scores_of(output: Node) -> tuple[Node, ...]:
    """The floats that an output of integers or truth values is chosen by; none where it is no such choice."""
    if is_float(output.type.dtype):
        return ()
    found: dict[Node, None] = {}
    seen, stack = {output}, [output]
    while stack:
        node = stack.pop()
        if node.op in _SUMS:
            return ()
        for a in node.args:
            if is_float(a.type.dtype):
                found.setdefault(a)
            elif a not in seen:
                seen.add(a)
                stack.append(a)
    scores = [n for n in found if not is_static(n)]
    return tuple(n for n in scores if not any(n is not other and _is_made_of(n, other) for other in scores))


def _is_made_of(node: Node, other: Node) -> bool:
    """Is ``other`` an operand of ``node``, directly or not? Then one moves with the other."""
    return any(n is other for n in Graph((), (("", node),)).nodes())


def scored(graph: Graph, name: str) -> Graph | None:
    """The graph of the scores of an output, by their number; None where the output is no decision."""
    scores = scores_of(dict(graph.outputs)[name])
    outputs = tuple((str(k), n) for k, n in enumerate(scores))
    return replace(graph, outputs=outputs, demands=()) if scores else None


def is_near_tie(
    graph: Graph,
    name: str,
    got: np.ndarray,
    want: np.ndarray,
    inputs: Arrays,
    off: Callable[[Graph, str], float],
) -> bool:
    """Is every element of the output ``name``, and of its reference, what its scores may give?

    ``off`` is by what part of its largest value an output of a graph may be off.
    """
    before = scored(graph, name)
    if before is None or not all(n.type.is_fixed for n in graph.nodes()):
        return False
    names = {node: _SCORE + k for k, node in before.outputs}
    given = {node: placeholder(names[node], node.type) for node in names}

    def change(old: Node, args: tuple[Node, ...]) -> Node:
        return given[old] if old in given else ops.node(old.op, *args, **old.attributes) if old.args else old

    after = rewrite(replace(graph, outputs=((name, dict(graph.outputs)[name]),), demands=()), change)
    after = replace(after, inputs=(*given.values(), *(n for n in graph.inputs if n in set(after.nodes()))))
    values = {_SCORE + k: v for k, v in run_graph(before, inputs).items()}
    amounts = {_SCORE + k: off(before, k) * _largest(values[_SCORE + k]) for k, _ in before.outputs}
    sides = np.stack([got, want])
    open_ = np.ones(sides.shape, bool)
    random = np.random.default_rng(0)
    for _ in range(DRAWS):
        moved = {n: _moved(v, amounts[n], random) for n, v in values.items()}
        chosen = run_graph(after, {**inputs, **moved})[name]
        if chosen.shape != got.shape:
            return False
        open_ &= chosen != sides
        if not open_.any():
            return True
    return False


def _moved(value: np.ndarray, amount: float, random: np.random.Generator) -> np.ndarray:
    return np.asarray(value.astype(np.float64) + amount * random.uniform(-1, 1, value.shape), value.dtype)


def _largest(value: np.ndarray) -> float:
    wide = np.abs(value.astype(np.float64))
    return float(wide[np.isfinite(wide)].max(initial=0.0))
