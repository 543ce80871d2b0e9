"""Networks that remember: what lives from run to run is an input and an output of the graph.

Before the first run the input holds the initial value, which the metadata of the graph tell; after every run, its new
value is the output. The caller may pass one array as both. A variable ``x`` of TensorFlow Lite is the input ``state_x``
and the output ``state_x_out`` (where the network only reads or only writes it, one of the two is missing); in ONNX the
user says which output renews which input.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from edgec.errors import UsageError
from edgec.ir.graph import Graph
from edgec.ir.index import upper
from edgec.ir.types import DTYPES
from edgec.text import listed, printable

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


def with_states(graph: Graph, pairs: Mapping[str, str]) -> Graph:
    """The graph with states of the user's: inputs, each with the output that renews it; zero at the start.

    Raises UsageError for names that the graph does not have and for a pair of different types.
    """
    inputs = {str(n.attributes["name"]): n.type for n in graph.inputs}
    outputs = {name: n.type for name, n in graph.outputs}
    for given, known, what in ((pairs, inputs, "input"), (pairs.values(), outputs, "output")):
        unknown = [name for name in given if name not in known]
        if unknown:
            raise UsageError(
                f"a state is given for {listed(unknown)}, which is no {what} of the network",
                hint=f"its {what}s are {listed(known)}",
            )
    for name, output in pairs.items():
        old, new = inputs[name], outputs[output]
        if old != new:
            raise UsageError(
                f"state '{printable(name)}' is {old}, and its new value '{printable(output)}' {new}",
                hint="a state keeps its type and shape; one that grows is an input and an output of their own",
            )
    if len(set(pairs.values())) < len(pairs):
        raise UsageError("one output is the new value of two states", hint="give each state an output of its own")
    start = {name: (output, np.zeros(1, DTYPES[inputs[name].dtype])) for name, output in pairs.items()}
    return replace(graph, metadata={**graph.metadata, **describe(start)})


def states(graph: Graph) -> list[Loop]:
    """The states of a graph, in the order of its inputs."""
    found = []
    for n in graph.inputs:
        name = str(n.attributes["name"])
        if KEY + name in graph.metadata:
            output, initial = json.loads(graph.metadata[KEY + name])
            shape = [upper(extent) for extent in n.type.shape]  # where it is open, it begins as large as it can be
            found.append(Loop(name, output, np.broadcast_to(np.asarray(initial, DTYPES[n.type.dtype]), shape)))
    return found


def initial(graph: Graph) -> dict[str, np.ndarray]:
    """Every state at the start, by the name of its input."""
    return {loop.input: np.array(loop.initial) for loop in _fixed(graph)}


def advanced(
    graph: Graph, inputs: Mapping[str, np.ndarray], outputs: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """States for the next run, after one that had ``inputs`` and gave ``outputs``."""
    return {loop.input: outputs.get(loop.output, inputs[loop.input]) for loop in _fixed(graph)}


def _fixed(graph: Graph) -> list[Loop]:
    """The states that are as large in every run; the others can follow a run only where sizes stay."""
    types = {n.attributes["name"]: n.type for n in graph.inputs}
    return [loop for loop in states(graph) if types[loop.input].is_fixed]
