"""Weights that no kernel reads as they are stored, of few bits or computed: they become constants of floats."""

from __future__ import annotations

from edgec import ops
from edgec.ir.evaluate import run
from edgec.ir.graph import Graph, Node, constant, rewrite, topological
from edgec.ir.types import FLOATS
from edgec.rewrite.facts import is_static
from edgec.rewrite.few_bits import has_few_bits, is_kept, is_widened

#: Operators that read some elements of their first operand, which they can compute.
_PICKING = frozenset({"gather", "gather_elements", "gather_nd"})
#: Operators that read each element several times: weights are packed for them, and so computed when they are.
_REPEATING = frozenset({"conv", "matmul"})
#: Operators whose work is none, or done in the load of an element.
_FREE = frozenset({"cast", "reshape", "transpose", "broadcast", "slice"})


def with_floats(graph: Graph, keeps: bool) -> Graph:
    """The graph with weights of few bits as constants of floats, but those that its kernels decode themselves.

    Unless it ``keeps`` any, these are the factors of matrix products whose sums consist of whole groups, and tables
    that are looked up. Those that lie in 16 bits become floats, too: the scheduler stores them as narrow as they are.
    Weights of products that are computed from constants (integers times a scale) would else be computed in every run.
    """

    floats: dict[Node, Node] = {}

    def stored(weights: Node) -> Node:
        if weights not in floats:
            floats[weights] = constant(run(Graph((), (("weights", weights),)), {})["weights"])
        return floats[weights]

    def change(old: Node, args: tuple[Node, ...]) -> Node:
        if old.op in _PICKING and is_widened(args[0]) and keeps:
            picked = ops.node(old.op, args[0].args[0], *args[1:], **old.attributes)
            return ops.node("cast", picked, to="f32")
        if not has_few_bits(old):
            args = tuple(a if not has_few_bits(a) or (keeps and _is_decoded(old, k, a)) else stored(a)
                         for k, a in enumerate(args))  # fmt: skip
        if old.op in _REPEATING:
            args = tuple(stored(a) if _is_computed(a) and not has_few_bits(a) else a for a in args)
        return old if args == old.args else ops.node(old.op, *args, **old.attributes)

    if not any(n.op == "dequantize" or is_widened(n) or n.op in _REPEATING for n in graph.nodes()):
        return graph
    return rewrite(graph, change)


def _is_computed(weights: Node) -> bool:
    """Are they floats that arithmetic on constants gives, no more of them than of those? Magnitudes are none: kernels
    make them in registers."""
    if not is_static(weights) or weights.type.dtype not in FLOATS:
        return False
    nodes = list(topological([weights]))
    work = {n.op for n in nodes if not n.is_const} - _FREE
    most = max((n.type.elements for n in nodes if n.is_const), default=0)
    return bool(work) and "abs" not in work and most >= weights.type.elements


def _is_decoded(reader: Node, k: int, weights: Node) -> bool:
    """Does the kernel of ``reader`` decode its operand ``k``?"""
    if not is_kept(weights):
        return False
    if reader.op in _PICKING:
        return k == 0 and not is_widened(weights)
    return reader.op == "matmul" and k == 1 and _has_whole_groups(weights)


def _has_whole_groups(weights: Node) -> bool:
    """Are groups along what is summed, and are all of them whole?"""
    axis = weights.type.rank - 2
    while weights.op == "transpose":
        axis = weights.attributes["perm"][axis]
        weights = weights.args[0]
    if weights.op != "dequantize" or weights.attributes["axis"] != axis:
        return False
    return bool(weights.type.shape[axis] % weights.attributes["block"] == 0)
