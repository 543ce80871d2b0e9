"""All inputs of a network as one row of numbers, for searches that cut or move them together."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

import numpy as np

from edgec.certify.domain import Domain
from edgec.certify.network import Network
from edgec.certify.ranges import Array
from edgec.ir.graph import Node


class JoinedInputs:
    """The inputs of a network in their order, as one row of numbers."""

    def __init__(self, network: Network) -> None:
        self.inputs = list(network.inputs.values())
        counts = [prod(n.type.shape) for n in self.inputs]
        self.ends = np.cumsum(counts)[:-1]

    def joined(self, points: Mapping[Node, Array]) -> Array:
        """Inputs as rows of numbers, [points, elements]."""
        return np.concatenate([points[n].reshape(len(points[n]), -1) for n in self.inputs], axis=1)

    def points(self, flat: Array) -> dict[Node, Array]:
        """Rows of numbers as inputs."""
        apart = np.split(flat, self.ends, axis=1)
        return {n: x.reshape(len(flat), *n.type.shape) for n, x in zip(self.inputs, apart)}

    def domain(self, low: Array, high: Array) -> Domain:
        """Boxes between rows of numbers."""
        return Domain(self.points(low), self.points(high))

    def rows(self, rows: Mapping[Node, Array], shape: tuple[int, ...]) -> Array:
        """Rows of the inputs, [boxes, rows, elements]; zero for an input that has none."""
        wide = ((n, (*shape, prod(n.type.shape))) for n in self.inputs)
        blank = (rows[n].reshape(s) if n in rows else np.zeros(s) for n, s in wide)
        return np.concatenate(list(blank), axis=2)
