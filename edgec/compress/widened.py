"""Networks of 16-bit floats in floats of 32 bits: what is compressed is compressed from those.

A file in fp16 or bf16 says that every result is rounded to 16 bits. Compression replaces the rounding of its layers by
its own; around them it computes in fp32, where ranges are measured and errors told apart. Inputs and outputs keep their
types.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from edgec import ops
from edgec.ir.graph import Graph, Node, constant, rewrite
from edgec.ir.vector import HALF

#: Attributes that name the type of a result.
_TYPES = ("to", "dtype")


def in_floats(graph: Graph) -> Graph:
    """The graph with floats of 32 bits in place of those of 16; the same graph where no product is of the latter."""
    if not any(n.op in ("conv", "matmul") and n.type.dtype in HALF for n in graph.operations()):
        return graph

    def change(old: Node, args: tuple[Node, ...]) -> Node:
        if old.op == "const":
            return constant(np.asarray(old.value, np.float32)) if old.type.dtype in HALF else old
        if old.op == "input":
            return _wide(old)
        if old.op == "bitcast":  # the bits are those of the type
            return _wide(ops.node("bitcast", *map(_as, args, old.args), **old.attributes))
        if old.op == "cast" and old.type.dtype in HALF and args[0].type.dtype == "f32":
            return args[0]
        types = {key: "f32" for key in _TYPES if old.attributes.get(key) in HALF}
        return old if args == old.args and not types else ops.node(old.op, *args, **{**old.attributes, **types})

    made = rewrite(graph, change)
    outputs = zip(made.outputs, graph.outputs, strict=True)
    return replace(made, outputs=tuple((name, _as(new, old)) for (name, new), (_, old) in outputs))


def _wide(node: Node) -> Node:
    return ops.node("cast", node, to="f32") if node.type.dtype in HALF else node


def _as(new: Node, old: Node) -> Node:
    """A value in the type that it had."""
    return new if new.type.dtype == old.type.dtype else ops.node("cast", new, to=old.type.dtype)
