"""The same network in double precision: tells an error from the rounding that any float network has."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from edgec import ops
from edgec.check.compare import compare
from edgec.ir import evaluate
from edgec.ir.graph import Graph, Node, constant, placeholder, rewrite
from edgec.ir.types import Type

#: Floats that become f64.
_FLOATS = ("f32", "f16", "bf16")


def in_double(graph: Graph) -> Graph:
    """The graph with f64 in the place of f32 everywhere, and of the narrower floats that values are rounded to."""

    def wide(dtype: str) -> str:
        return "f64" if dtype in _FLOATS else dtype

    def change(old: Node, args: tuple[Node, ...]) -> Node:
        if old.op == "input":
            return placeholder(old.attributes["name"], Type(wide(old.type.dtype), old.type.shape))
        if old.op == "const":
            return constant(old.value.astype(np.float64)) if old.type.dtype in _FLOATS else old
        attributes = {k: wide(v) if isinstance(v, str) else v for k, v in old.attributes.items()}
        return ops.node(old.op, *args, **attributes)

    return rewrite(graph, change)


def rounding(graph: Graph, inputs: Mapping[str, np.ndarray], got: Mapping[str, np.ndarray]) -> dict[str, float]:
    """Difference of float results from the exact ones, by output, relative to the largest value."""
    exact = exact_results(graph, inputs)
    return {k: compare(k, v.astype(np.float64), exact[k]).max_rel for k, v in got.items() if v.dtype == np.float32}


def exact_results(graph: Graph, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The outputs of a network whose floats are in double precision.

    Raises EdgecError for an operator that has no meaning in it.
    """
    narrow = (np.float32, np.float16)
    doubled = {k: v.astype(np.float64) if v.dtype in narrow else v for k, v in inputs.items()}
    return evaluate.run(in_double(graph), doubled)
