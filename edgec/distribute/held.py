"""States in a divided network: each lives in the one worker, or in slices in several, that computes its next value.

A state is an input of a part, and its next value an output of the same part. Neither crosses: the worker runs both in
one array, which is zero at the start.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from edgec.frontend.states import Loop, describe, states
from edgec.ir.graph import Graph, Node
from edgec.text import listed


@dataclass(frozen=True)
class Held:
    """The states of a graph."""

    graph: Graph

    @cached_property
    def loops(self) -> Mapping[Node, Loop]:
        """Every state by its input."""
        inputs = {str(n.attributes["name"]): n for n in self.graph.inputs}
        return {inputs[loop.input]: loop for loop in states(self.graph)}

    @cached_property
    def renewed(self) -> Mapping[Node, Node]:
        """The next value of every state, by its input."""
        outputs = dict(self.graph.outputs)
        return {n: outputs[loop.output] for n, loop in self.loops.items()}

    @cached_property
    def inputs(self) -> dict[str, Node]:
        """Inputs by name, but for states."""
        return {str(n.attributes["name"]): n for n in self.graph.inputs if n not in self.loops}

    @cached_property
    def outputs(self) -> dict[str, Node]:
        """Outputs by name, but for the next values of states."""
        own = {loop.output for loop in self.loops.values()}
        return {name: n for name, n in self.graph.outputs if name not in own}

    def refusal(self) -> str:
        """Reason why workers cannot hold the states; empty where they can."""
        outputs = dict(self.graph.outputs)
        missing = [s.input for s in states(self.graph) if s.output not in outputs]
        if missing:
            return f"the state {listed(missing)} has no next value"
        begun = [s.input for s in states(self.graph) if np.any(s.initial)]
        if begun:
            return f"the state {listed(begun)} does not begin at zero"
        twice = {n for n in self.renewed.values() if sum(n is m for _, m in self.graph.outputs) > 1}
        if twice or any(n.op in ("input", "const") for n in self.renewed.values()):
            return "a state's next value is an input, a constant, or another output too"
        return ""


def metadata(loops: Iterable[tuple[str, str]]) -> dict[str, str]:
    """The metadata of a part's states, of pairs of an input and an output."""
    return describe({old: (new, np.zeros(1)) for old, new in loops})
