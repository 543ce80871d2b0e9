"""Networks that remember: what lives from run to run is an input and an output of the graph.

A state called ``x`` is the input ``state_x`` and the output ``state_x_out`` (where the network only reads or only
writes it, one of the two is missing). Before the first run the input holds the initial value, which the metadata of
the graph tell; after every run, its new value is the output.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from edgec.ir.graph import Graph
from edgec.ir.types import DTYPES

#: How the keys of the graph's metadata begin, then the input; the value is [output, initial value] in JSON, one number
#: where all elements are equal.
KEY = "state "
#: Likewise for quantized inputs and outputs: [scale, zero point].
SCALES = "quantization "


@dataclass(frozen=True)
class Loop:
    """A state: the input that holds it, the output that renews it, and what it is at the start."""

    input: str
    output: str
    initial: np.ndarray


def describe(states: Mapping[str, tuple[str, np.ndarray]]) -> dict[str, str]:
    """The metadata of states: input, to output and initial value."""

    def short(value: np.ndarray) -> object:
        first = value.reshape(-1)[:1]
        return first.item() if value.size and (value == first).all() else value.tolist()

    return {KEY + name: json.dumps([output, short(initial)]) for name, (output, initial) in states.items()}


def states(graph: Graph) -> list[Loop]:
    """The states of a graph, in the order of its inputs."""
    found = []
    for n in graph.inputs:
        name = str(n.attributes["name"])
        if KEY + name in graph.metadata:
            output, initial = json.loads(graph.metadata[KEY + name])
            found.append(Loop(name, output, np.broadcast_to(np.asarray(initial, DTYPES[n.type.dtype]), n.type.shape)))
    return found


def initial(graph: Graph) -> dict[str, np.ndarray]:
    """Every state at the start, by the name of its input."""
    return {loop.input: np.array(loop.initial) for loop in states(graph)}


def advanced(
    graph: Graph, inputs: Mapping[str, np.ndarray], outputs: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """What the states are for the next run, after one that had ``inputs`` and gave ``outputs``."""
    return {loop.input: outputs.get(loop.output, inputs[loop.input]) for loop in states(graph)}
