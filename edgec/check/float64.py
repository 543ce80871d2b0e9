"""The same network in double precision: tells an error from the rounding that any float network has."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from edgec import ops
from edgec.check.compare import compare
from edgec.ir import evaluate
from edgec.ir.graph import Graph, Node, constant, placeholder
from edgec.ir.types import Type


def in_double(graph: Graph) -> Graph:
    """The graph with f64 in the place of f32 everywhere."""
    new: dict[Node, Node] = {}

    def wide(dtype: str) -> str:
        return "f64" if dtype == "f32" else dtype

    for n in graph.nodes():
        if n.op == "input":
            new[n] = placeholder(n.attributes["name"], Type(wide(n.type.dtype), n.type.shape))
        elif n.op == "const":
            new[n] = constant(n.value.astype(np.float64)) if n.type.dtype == "f32" else n
        else:
            attributes = {k: wide(v) if isinstance(v, str) else v for k, v in n.attributes.items()}
            new[n] = ops.node(n.op, *(new[a] for a in n.args), **attributes)
    inputs = tuple(new[n] for n in graph.inputs if n in new)
    sizes = tuple((s, new[n]) for s, n in graph.sizes if n in new)
    demands = tuple((message, new[n]) for message, n in graph.demands)
    return Graph(inputs, tuple((name, new[n]) for name, n in graph.outputs), graph.name, sizes=sizes, demands=demands)


def rounding(graph: Graph, inputs: Mapping[str, np.ndarray], got: Mapping[str, np.ndarray]) -> dict[str, float]:
    """Difference of float results from the exact ones, by output, relative to the largest value."""
    doubled = {k: v.astype(np.float64) if v.dtype == np.float32 else v for k, v in inputs.items()}
    exact = evaluate.run(in_double(graph), doubled)
    return {k: compare(k, v.astype(np.float64), exact[k]).max_rel for k, v in got.items() if v.dtype == np.float32}
