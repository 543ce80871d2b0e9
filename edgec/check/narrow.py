"""Builds in 16 bits: how far rounding to them takes a network from double precision, and what a check allows for it."""

from __future__ import annotations

from dataclasses import dataclass

from edgec import ops
from edgec.check.compare import TOLERANCES
from edgec.device.device import Device
from edgec.frontend.language.facts import facts_of
from edgec.ir.graph import Graph, Node, rewrite

#: Types in the order of their rounding, and the least tolerance: four times the rounding of one number.
_ROUNDED = {"bf16": ("bf16", 2.0**-6), "fp16": ("f16", 2.0**-9)}


@dataclass(frozen=True)
class Narrow:
    """A type of 16 bits that values are rounded to.

    Differences up to ``least`` of the largest value always pass, up to ``most`` where a network's own rounding is that
    large: every one of its values rounded once, held against double precision.
    """

    dtype: str
    least: float
    most: float

    def rounded(self, graph: Graph) -> Graph:
        """The graph with every value of f32 that it computes rounded to this type."""

        def change(old: Node, args: tuple[Node, ...]) -> Node:
            if old.op in ("input", "const"):
                return old
            node = ops.node(old.op, *args, **old.attributes)
            if node.type.dtype != "f32":
                return node
            return ops.node("cast", ops.node("cast", node, to=self.dtype), to="f32")

        return rewrite(graph, change)

    def before_steps(self, graph: Graph) -> Graph:
        """The graph with every number of f32 that is rounded to an integer rounded to this type first."""

        def change(old: Node, args: tuple[Node, ...]) -> Node:
            if old.op == "round" and old.type.dtype == "f32":
                args = (ops.node("cast", ops.node("cast", args[0], to=self.dtype), to="f32"),)
            return ops.node(old.op, *args, **old.attributes) if old.args else old

        return rewrite(graph, change)


def narrow_of(graph: Graph, device: Device, tolerance: float) -> Narrow | None:
    """The type of a build whose usual tolerance is ``tolerance``; None where that is not of 16 bits.

    Sums in fp16 round more than their results, and a language model has a tolerance of its own for its cache.
    """
    if device.has_fp16_fma or facts_of(graph) is not None:
        return None
    for precision, (dtype, least) in _ROUNDED.items():
        if tolerance == TOLERANCES[precision] and device.precision in (precision, "fp32"):  # type: ignore[index]
            return Narrow(dtype, least, tolerance)
    return None
