"""Convolutions of few channels as products of stored windows, where tensor cores are quicker so.

A tile of a product copies its rows in pieces of 16 bytes. The windows of a picture with three channels have no such
pieces: each element is loaded and converted by itself, again for every tile along the filters. Stored once, side by
side (im2col), they are rows like others; the price is a kernel more, and memory for as many elements as there are taps.
The gradient for the weights of such a convolution is a product of the same windows.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from edgec import ops
from edgec.device.device import Device
from edgec.ir.graph import Graph, Node, constant, rewrite
from edgec.ir.types import DTYPES
from edgec.ir.vector import HALF
from edgec.ops import graphs
from edgec.rewrite.facts import is_static
from edgec.schedule.gpu.contract import COPIES
from edgec.schedule.gpu.tile_cycles import cycles
from edgec.schedule.gpu.tiles import has_tensor_cores, multiplied, tile_for

#: Rows of windows are padded to a multiple of so many elements: pieces of 16 bytes, of halves too.
PIECE = 8
#: Instructions that load and store an element of a window, of the four that a multiprocessor issues at once.
INSTRUCTIONS, ISSUED = 25, 4
#: The cost of one kernel more, in starts of a product.
LAUNCH = 2.0
#: The most elements of stored windows, so that pictures of any size have room: 64 MiB of halves.
MOST = 32 << 20
#: Operators that leave a picture's elements where they are.
_KEPT = ("pad", "slice", "cast")


def _has_gain(device: Device) -> bool:
    """Has the device kernels that gain by it?"""
    return device.language == "cuda" and has_tensor_cores(device)


def with_stored_windows(graph: Graph, device: Device) -> Graph:
    """The graph with products of stored windows in place of those convolutions for which the model of tiles says so."""
    if not _has_gain(device):
        return graph
    changed = {n for n in graph.nodes() if n.op == "conv" and (is_stored_gradient(n, device) or _pays(n, device))}

    def change(old: Node, args: tuple[Node, ...]) -> Node:
        new = old if args == old.args else ops.node(old.op, *args, **old.attributes)
        if old not in changed:
            return new
        return _by_image(new) if is_stored_gradient(new, device) else _product(new)

    return rewrite(graph, change, within=True) if changed else graph


def _pays(n: Node, device: Device) -> bool:
    """Is a convolution by constant or trained weights quicker with its windows stored?"""
    x, w = n.args
    if not (n.type.is_fixed and x.type.is_fixed) or n.attributes["groups"] != 1 or n.type.dtype != "f32":
        return False
    (outputs, channels, *kernel), (batch, _, *places) = w.type.shape, n.type.shape
    if 0 in n.type.shape or prod(kernel) == 1:
        return False
    rows, depth = batch * prod(places), channels * prod(kernel)
    columns, piece = _whole(depth), _piece(x, channels, device)
    if piece == COPIES[0] or rows * columns > MOST:
        return False
    own = tile_for(1, rows, outputs, depth, device, piece=piece)
    stored = tile_for(1, rows, outputs, columns, device)
    gain = cycles(own, 1, rows, outputs, depth, device, piece) - cycles(stored, 1, rows, outputs, columns, device)
    lanes = 32 * ISSUED * device.gpu.multiprocessors
    return bool(gain > LAUNCH * device.costs.tensor_tile.start + rows * columns * INSTRUCTIONS / lanes)


def _piece(x: Node, channels: int, device: Device) -> int:
    """The bytes of channels that lie together and can be copied at once; 0 in a picture that is given, where they lie
    apart."""
    while len(x.args) == 1 and x.op in _KEPT:
        x = x.args[0]
    size = 2 if multiplied(device) in HALF else 4
    return 0 if x.op == "input" else next((c for c in COPIES if channels * size % c == 0), 0)


def is_stored_gradient(n: Node, device: Device) -> bool:
    """Is it the gradient for the weights of a convolution of few channels: by values, to less than those are?"""
    if not _has_gain(device) or n.op != "conv" or is_static(n.args[1]) or n.attributes["groups"] != 1:
        return False
    if not (n.type.is_fixed and n.args[1].type.is_fixed):
        return False
    (channels, outputs, *taps), (_, _, *pixels) = n.type.shape, n.args[1].type.shape
    is_small = prod(n.args[1].type.shape[1:]) * _whole(channels * prod(taps)) <= MOST
    return bool(is_small and channels < PIECE <= outputs and prod(taps) < prod(pixels) and n.type.dtype == "f32")


def _product(n: Node) -> Node:
    """[N * places, C * taps] by [C * taps, O]."""
    x, w = n.args
    (outputs, channels, *kernel), (batch, _, *places) = w.type.shape, n.type.shape
    rows = _rows(x, kernel, places, n.attributes["strides"], n.attributes["dilations"])
    y = ops.node("matmul", rows, _turned(w, outputs, channels * prod(kernel), rows.type.shape[1]))
    y = graphs.reshape(y, (batch, *places, outputs))
    return graphs.transpose(y, [0, n.type.rank - 1, *range(1, n.type.rank - 1)])


def _by_image(n: Node) -> Node:
    """[O, N * places] by [N * places, C * taps], of [C, N, ..] by [O, N, places]."""
    x, g = n.args
    (channels, outputs, *taps), (_, batch, *places) = n.type.shape, g.type.shape
    swapped = [1, 0, *range(2, n.type.rank)]
    rows = _rows(graphs.transpose(x, swapped), taps, places, n.attributes["dilations"], n.attributes["strides"])
    y = ops.node("matmul", graphs.reshape(g, (outputs, batch * prod(places))), rows)
    y = graphs.part(y, (0, 0), (outputs, channels * prod(taps)))
    return graphs.transpose(graphs.reshape(y, (outputs, channels, *taps)), swapped)


def _rows(
    x: Node, kernel: Sequence[int], places: Sequence[int], strides: Sequence[int], dilations: Sequence[int]
) -> Node:
    x, before = _origin(x)
    return ops.node(
        "windows", x, kernel=tuple(kernel), strides=strides, dilations=dilations, before=before, places=tuple(places),
        columns=_whole(x.type.shape[1] * prod(kernel)),
    )  # fmt: skip


def _origin(x: Node) -> tuple[Node, tuple[int, ...]]:
    """The value that x is a part of, with zeros around it, and how far x begins before it along S...

    So a convolution and its gradient have the same windows. x is read nowhere outside of its extents.
    """
    swapped, before, is_padded, found = (1, 0, *range(2, x.type.rank)), [0] * x.type.rank, False, x
    is_swapped = False
    best = x, tuple(before[2:])
    while True:
        a = found.attributes
        if found.op == "transpose" and a["perm"] == swapped:
            is_swapped = not is_swapped
        elif found.op == "slice" and not is_padded and set(a["steps"]) == {1} and not any(a["starts"][:2]):
            if found.type.shape[:2] != found.args[0].type.shape[:2]:
                return best
            before = [b - s for b, s in zip(before, a["starts"])]
        elif found.op == "pad" and not is_padded and not a["value"] and not any((*a["before"][:2], *a["after"][:2])):
            before = [b + p for b, p in zip(before, a["before"])]
            is_padded = True
        else:
            return best
        (found,) = found.args
        if not is_swapped:
            best = found, tuple(before[2:])


def _turned(w: Node, outputs: int, depth: int, columns: int) -> Node:
    """Weights as [columns, O], with zeros below."""
    if w.is_const:
        own = np.zeros((columns, outputs), DTYPES[w.type.dtype])
        own[:depth] = np.asarray(w.value).reshape(outputs, depth).T
        return constant(own)
    return graphs.pad(graphs.transpose(graphs.reshape(w, (outputs, depth)), [1, 0]), (0, 0), (columns - depth, 0))


def _whole(depth: int) -> int:
    return -(-depth // PIECE) * PIECE
