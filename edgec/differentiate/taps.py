"""Gradients for the weights of convolutions as a matrix product for each tap.

Such a gradient is a convolution whose filters are images and whose result has a few taps. GPUs multiply matrices of all
pixels faster than they convolve by images; on CPUs a kernel passes over pixels a part at a time, for all taps.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from math import prod

from edgec import ops
from edgec.ir.graph import Graph, Node, rewrite
from edgec.ops import graphs
from edgec.ops.contraction import is_by_image
from edgec.rewrite.facts import is_static

#: Channels from which on, and taps up to which, products for each tap are wide enough and few enough.
WIDE, TAPS = 8, 64


def by_taps(graph: Graph, others: Callable[[Node], bool]) -> Graph:
    """The graph with products for each tap in place of convolutions by images; the same where there are none.

    ``others`` are left as they are.
    """

    def change(n: Node, args: tuple[Node, ...]) -> Node:
        new = n if args == n.args else ops.node(n.op, *args, **n.attributes)
        return _products(new) if _is_wide(new) and not others(new) else new

    return rewrite(graph, change, within=True) if any(map(_is_wide, graph.nodes())) else graph


def _is_wide(n: Node) -> bool:
    """Is this a convolution by an image with channels enough, and few results?"""
    if not is_by_image(n) or is_static(n.args[1]):
        return False
    channels, outputs, *taps = n.type.shape
    return bool(max(channels, outputs // n.attributes["groups"]) >= WIDE and prod(taps) <= TAPS)


def _products(n: Node) -> Node:
    """The product for each tap of [C, groups * batch, ..] by [O, batch, ..]: the greater side is that of lanes."""
    x, g = n.args
    strides, dilations, groups = (n.attributes[name] for name in ("strides", "dilations", "groups"))
    (channels, outputs, *taps), (_, batch, *pixels) = n.type.shape, g.type.shape
    rows = graphs.elements((batch, *pixels))
    space = [*range(3, len(pixels) + 3)]

    def seen(tap: tuple[int, ...]) -> Node:
        """[groups, pixels, C]"""
        starts = (0, 0, *(t * s for t, s in zip(tap, strides)))
        part = graphs.part(x, starts, (channels, groups * batch, *pixels), (1, 1, *dilations))
        split = graphs.reshape(part, (channels, groups, batch, *pixels))
        return graphs.reshape(graphs.transpose(split, [1, 2, *space, 0]), (groups, rows, channels))

    split = graphs.reshape(g, (groups, outputs // groups, batch, *pixels))
    seeds = graphs.reshape(graphs.transpose(split, [0, 2, *space, 1]), (groups, rows, outputs // groups))
    found = []
    for tap in product(*map(range, taps)):
        if outputs // groups > channels:
            turned = graphs.transpose(ops.node("matmul", graphs.transpose(seen(tap), [0, 2, 1]), seeds), [0, 2, 1])
        else:
            turned = ops.node("matmul", graphs.transpose(seeds, [0, 2, 1]), seen(tap))
        found.append(graphs.reshape(turned, (outputs, channels, 1)))
    return graphs.transpose(
        graphs.reshape(graphs.concat(found, 2), (outputs, channels, *taps)), [1, 0, *range(2, n.type.rank)]
    )
