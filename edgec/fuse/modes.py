"""Fusion modes of a build: the planner, or less of it, for comparison.

``none`` makes one kernel of every core operator, padding included. ``operators`` makes one of every operator of the
model, so that a softmax is one kernel and padding is part of its convolution, as in a library without fusion. ``fixed``
adds the fixed patterns of common frameworks. In all three, a concatenation copies its parts.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from edgec.fuse import classify
from edgec.ir.graph import Graph, Node

ModeName = Literal["planner", "fixed", "operators", "none"]
MODES: tuple[ModeName, ...] = get_args(ModeName)


def mode_of(fuse: bool | str) -> ModeName:
    """The mode behind an option: True is the planner, False is none; raises KeyError for a name that is none."""
    if isinstance(fuse, bool):
        return "planner" if fuse else "none"
    return {name: name for name in MODES}[fuse]  # type: ignore[index]


@dataclass(frozen=True)
class Mode:
    """Limits of fusion in a build: the planner asks here first.

    On a ``gpu`` a conditional load is free and every kernel costs a launch: padding is a select in the reader, not a
    halo that is filled; attention has a kernel there for heads of up to ``head`` features. In a graph
    of ``one_row``, a token of a language model, attention has one query. With ``updatable``, numbers that may be
    trained are no part of the code.
    """

    name: ModeName
    graph: Graph
    gpu: bool = False
    head: int = 0
    one_row: bool = False
    updatable: bool = False

    @property
    def is_planner(self) -> bool:
        return self.name == "planner"

    def grows(self, block: Sequence[Node], found: Sequence[Node]) -> bool:
        """May a block that reduces absorb ``found``?"""
        if self.name in ("planner", "none"):
            return self.is_planner
        return self._is_one_operator(block, found) or (self.name == "fixed" and self._is_pattern(block, found))

    def joins(self, node: Node, members: Collection[Node]) -> bool:
        """May ``node`` be computed inside the block that reads it?"""
        if self.name in ("planner", "none"):
            return self.is_planner
        is_view = self.name == "fixed" and node.op == "reshape"  # nobody executes a reshape
        return is_view or self._is_one_operator(list(members), [node])

    def places(self, node: Node, members: Collection[Node]) -> bool:
        """May the operands of ``node`` be aliased to parts of its buffer? ``members`` are in its readers' blocks."""
        if self.gpu and node.op == "pad":
            return False
        if self.is_planner:
            return True
        return self.name != "none" and node.op == "pad" and self._is_one_operator(list(members), [node])

    def _is_one_operator(self, block: Sequence[Node], found: Sequence[Node]) -> bool:
        """Do all of these come from one operator of the model?"""
        common = {name for n in block for name in self.graph.names(n)}
        return all(common.intersection(self.graph.names(n)) for n in found)

    def _is_pattern(self, block: Sequence[Node], found: Sequence[Node]) -> bool:
        """Convolution or product, then a bias, then a residual, then one activation: each at most once, in this order.

        TensorFlow Lite's converter and MNN fuse a bias and one of a few activations, ONNX Runtime a residual too; what
        counts as an activation here is any operator of the model that acts on each element by itself.
        """
        if block[0].op not in ("conv", "matmul"):
            return False
        steps = [self._step(block, list(group)) for group in self._operators([*block[1:], *found])]
        order = ["bias", "residual", "activation"]
        places = [order.index(s) for s in steps if s is not None]
        return None not in steps and places == sorted(set(places))

    def _operators(self, nodes: Sequence[Node]) -> list[list[Node]]:
        """Nodes in order, grouped by the operator of the model that they come from."""
        groups: list[list[Node]] = []
        for node in nodes:
            if groups and self._is_one_operator(groups[-1], [node]):
                groups[-1].append(node)
            else:
                groups.append([node])
        return groups

    def _step(self, block: Sequence[Node], group: Sequence[Node]) -> str | None:
        """Role of an operator after a convolution: bias, residual or activation; None for anything else."""
        if not all(classify.is_elementwise(n) for n in group):
            return None
        inside = {*block, *group}
        outside = {a for n in group for a in n.args if a not in inside and not (a.is_const and a.type.elements == 1)}
        if len(group) == 1 and group[0].op == "add":
            (node,) = group
            others = [a for a in node.args if a not in block]
            if len(others) == 1 and (others[0].is_const or others[0].type.elements < node.type.elements):
                return "bias"
            return "residual"
        return "activation" if not any(not a.is_const for a in outside) else None
