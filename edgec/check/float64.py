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
#: Numbers beyond which scores are lost beside a mask, and those that hide as well what is masked: no share is left.
HUGE, MODERATE = 1e30, 1e4


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


def without_huge(graph: Graph) -> Graph:
    """The graph with moderate numbers in place of ``HUGE`` ones.

    Beside these, as they hide scores in masks, a change of a score is rounded off: the function has steps there, and
    its derivative has none.
    """
    return rewrite(graph, lambda old, args: _moderate(old) if old.op == "const" else _with(old, args))


def _moderate(const: Node) -> Node:
    return constant(moderate(const.value)) if const.type.dtype in ("f32", "f64") else const


def _with(old: Node, args: tuple[Node, ...]) -> Node:
    return old if args == old.args else ops.node(old.op, *args, **old.attributes)


def moderate(value: np.ndarray) -> np.ndarray:
    """An array with ``MODERATE`` numbers in place of ``HUGE`` ones that are finite."""
    is_huge = np.isfinite(value) & (np.abs(value) > HUGE)
    return np.where(is_huge, np.sign(value) * MODERATE, value).astype(value.dtype) if is_huge.any() else value


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
