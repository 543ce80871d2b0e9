"""The place of a micro-batch in its batch, of which a step knows: moments decay with the first, weights change with
the last."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from edgec.frontend.values import Value
from edgec.ir.graph import Node, placeholder
from edgec.ir.types import Type

#: Names of the inputs that tell of a micro-batch whether it is the first and the last of a batch.
FIRST, LAST = "first_micro_batch", "last_micro_batch"


@dataclass(frozen=True)
class MicroBatches:
    """The number of micro-batches of a batch, and the inputs that tell of one whether it is the first or the last."""

    count: int
    first: Node
    last: Node

    @staticmethod
    def of(count: int, first: str, last: str) -> MicroBatches:
        """``count`` micro-batches, with inputs of these names."""
        return MicroBatches(count, placeholder(first, Type("bool", ())), placeholder(last, Type("bool", ())))

    @property
    def is_first(self) -> Value:
        return Value(self.first)

    @property
    def is_last(self) -> Value:
        return Value(self.last)

    def flags(self, number: int) -> dict[str, np.ndarray]:
        """Values of the inputs for the micro-batch of this number, from 0."""
        told = ((self.first, number == 0), (self.last, number == self.count - 1))
        return {str(node.attributes["name"]): np.asarray(holds) for node, holds in told}
