"""Random numbers of a model: the number of the run is a state of the network, of which all are a function."""

from __future__ import annotations

from collections.abc import Sequence, Set

import numpy as np

from edgec.frontend.states import describe
from edgec.frontend.values import Value, emit
from edgec.ir.expr import Extent
from edgec.ir.graph import RANDOM_STEP, Node, placeholder
from edgec.ir.types import Type

#: The state that numbers the runs, from 0 on.
COUNTER = "random_step"


class Drawn:
    """Random numbers by the places of nodes; ``taken`` are names that the model has for its inputs and outputs."""

    def __init__(self, taken: Set[str]) -> None:
        self.name = COUNTER
        while taken & {self.name, f"{self.name}_out"}:
            self.name += "_"
        self.step = placeholder(self.name, Type("i32", ()))
        self.streams: dict[str, int] = {}

    def numbers(self, place: str, shape: Sequence[Extent], seed: int | None) -> Value:
        """Numbers from 0 to below 1. Nodes without a seed draw different ones, nodes of one seed the same; ``place``
        is another one for each node."""
        number = self.streams.setdefault(place, len(self.streams) + 1)
        stream = number if seed is None else 0
        return emit("random", Value(self.step), shape=tuple(shape), stream=stream, seed=seed or 0)

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.step,) if self.streams else ()

    @property
    def outputs(self) -> tuple[tuple[str, Node], ...]:
        return ((f"{self.name}_out", (Value(self.step) + 1).node),) if self.streams else ()

    @property
    def metadata(self) -> dict[str, str]:
        if not self.streams:
            return {}
        return {RANDOM_STEP: self.name, **describe({self.name: (f"{self.name}_out", np.zeros((), np.int32))})}
