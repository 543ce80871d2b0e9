"""ONNX nodes in front of a graph, in a form that every operator set from 8 on has."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import NodeProto, TensorProto, helper, numpy_helper

#: The operator set from which on elements of different shapes are multiplied, added and compared.
OLDEST = 8


class Nodes:
    """Nodes and constants that are written one after the other; tensors are named by their values here.

    ``taken`` are the names of the model, which none of these gets; ``opset`` is the version of its operators.
    """

    def __init__(self, taken: Iterable[str], opset: int) -> None:
        self.opset = opset
        self.nodes: list[NodeProto] = []
        self.constants: list[TensorProto] = []
        self.kept: list[str] = []  # nodes whose results are read often
        self._taken = set(taken)
        self.prefix = "pre/"  # of all names here, and of no other
        while any(name.startswith(self.prefix) for name in self._taken):
            self.prefix = f"_{self.prefix}"

    def name(self, wanted: str) -> str:
        """A name that is not taken: the wanted one, with as many underscores behind it as it needs."""
        while wanted in self._taken:
            wanted += "_"
        self._taken.add(wanted)
        return wanted

    def constant(self, array: np.ndarray | Sequence[float] | float, dtype: type = np.float32) -> str:
        name = self.name(f"{self.prefix}constant_{len(self.constants)}")
        self.constants.append(numpy_helper.from_array(np.asarray(array, dtype), name))
        return name

    def apply(self, operator: str, *inputs: str, **attributes: Any) -> str:
        """The result of an operator."""
        label = self.name(f"{self.prefix}{operator}_{len(self.nodes)}")
        self.nodes.append(helper.make_node(operator, inputs, [label], name=label, **attributes))
        return label

    def cast(self, x: str, to: int) -> str:
        return self.apply("Cast", x, to=to)

    def scaled(self, x: str, by: np.ndarray) -> str:
        """x * by; nothing where that is 1."""
        return x if (by == 1).all() else self.apply("Mul", x, self.constant(by))

    def less(self, x: str, by: np.ndarray) -> str:
        """x - by; nothing where that is 0."""
        return x if (by == 0).all() else self.apply("Sub", x, self.constant(by))

    def plus(self, *terms: str) -> str:
        total = terms[0]
        for term in terms[1:]:
            total = self.apply("Add", total, term)
        return total

    def within(self, x: str, low: float, high: float) -> str:
        """x, but at least ``low`` and at most ``high``."""
        return self.apply("Min", self.apply("Max", x, self.constant(low)), self.constant(high))

    def rows(self, x: str, axis: int, start: int, end: int) -> str:
        """The part of a dimension from ``start`` to before ``end``."""
        if self.opset < 10:
            return self.apply("Slice", x, axes=[axis], starts=[start], ends=[end])
        return self.apply("Slice", x, *(self.constant([n], np.int64) for n in (start, end, axis)))

    def reshaped(self, x: str, *shape: int) -> str:
        return self.apply("Reshape", x, self.constant(shape, np.int64))

    def picked(self, x: str, axis: int, places: Sequence[int] | np.ndarray) -> str:
        return self.apply("Gather", x, self.constant(places, np.int64), axis=axis)

    def weighted(self, x: str, axis: int, rank: int, places: np.ndarray, weights: np.ndarray) -> str:
        """Sums along a dimension: of the elements at ``places`` [count, taps], times ``weights`` [count, taps]."""
        shape = [-1 if d == axis else 1 for d in range(rank)]
        terms = [
            self.scaled(self.picked(x, axis, places[:, k]), weights[:, k].reshape(shape))
            for k in range(places.shape[1])
            if weights[:, k].any()
        ]
        return self.plus(*terms)

    def joined(self, axis: int, *parts: str) -> str:
        return parts[0] if len(parts) == 1 else self.apply("Concat", *parts, axis=axis)


def names_in(graph: onnx.GraphProto) -> set[str]:
    """The names of all tensors and nodes of a graph, and of the graphs inside it."""
    found = {x.name for x in (*graph.input, *graph.output, *graph.initializer, *graph.node)}
    for node in graph.node:
        found.update((*node.input, *node.output))
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                found |= names_in(inner) if inner.node else set()
    return found
