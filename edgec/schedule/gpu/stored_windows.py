"""Convolutions of few channels as products of stored windows, where tensor cores are quicker so.

A tile of a product copies its rows in pieces of 16 bytes. The windows of a picture with three channels have no such
pieces: each element is loaded and converted by itself, again for every tile along the filters. Stored once, side by
side (im2col), they are rows like others; the price is a kernel more, and memory for as many elements as there are taps.
The gradient for the weights of such a convolution is a product of the same windows.
"""

from __future__ import annotations

from math import prod

import numpy as np

from edgec import ops
from edgec.device.device import Device, has_tensor_cores
from edgec.ir.graph import Graph, Node, constant, rewrite
from edgec.ir.types import DTYPES
from edgec.ops import graphs
from edgec.schedule.gpu.tiles import cycles, multiplied, tile_for

#: Rows of windows are padded to a multiple of so many elements: pieces of 16 bytes, of halves too.
PIECE = 8
#: Instructions that load and store an element of a window, of the four that a multiprocessor issues at once.
INSTRUCTIONS, ISSUED = 25, 4
#: The size of stored windows, as a part of the device's second cache: beyond it they would come from memory.
ROOM = 2.0


def with_stored_windows(graph: Graph, device: Device) -> Graph:
    """The graph with products of stored windows in place of those convolutions for which the model of tiles says so."""
    if not has_tensor_cores(device) or device.language != "cuda":
        return graph
    changed = {n for n in graph.nodes() if n.op == "conv" and (_pays(n, device) or _is_by_image(n))}

    def change(old: Node, args: tuple[Node, ...]) -> Node:
        new = old if args == old.args else ops.node(old.op, *args, **old.attributes)
        if old not in changed:
            return new
        return _by_image(new) if _is_by_image(new) else _product(new)

    return rewrite(graph, change) if changed else graph


def _pays(n: Node, device: Device) -> bool:
    """Is a convolution by constant or trained weights quicker with its windows stored?"""
    x, w = n.args
    if not (n.type.is_fixed and x.type.is_fixed) or n.attributes["groups"] != 1 or n.type.dtype != "f32":
        return False
    (outputs, channels, *kernel), (batch, _, *places) = w.type.shape, n.type.shape
    if 0 in n.type.shape or not _by_elements(x, channels):
        return False
    rows, depth = batch * prod(places), channels * prod(kernel)
    columns = _whole(depth)
    own = tile_for(1, rows, outputs, depth, device, piece=0)
    stored = tile_for(1, rows, outputs, columns, device, piece=16)
    gain = cycles(own, 1, rows, outputs, depth, device, 0) - cycles(stored, 1, rows, outputs, columns, device, 16)
    lanes = 32 * ISSUED * device.gpu.multiprocessors
    return gain > device.costs.tensor_tile.start + rows * columns * INSTRUCTIONS / lanes


def _by_elements(x: Node, channels: int) -> bool:
    """Do the channels of a picture lie apart, or are they too few for a piece? Values of kernels have theirs together."""
    while x.op in ("pad", "slice", "cast") or (len(x.args) == 1 and x.op not in ("input", "const", "reduce")):
        x = x.args[0]
    return channels % PIECE != 0 or x.op == "input"


def _is_by_image(n: Node) -> bool:
    """Is it the gradient for the weights of a convolution of few channels: by values, to less than those are?"""
    if n.op != "conv" or n.args[1].is_const or not n.type.is_fixed or n.attributes["groups"] != 1:
        return False
    (channels, outputs, *taps), (_, _, *pixels) = n.type.shape, n.args[1].type.shape
    return channels < PIECE <= outputs and prod(taps) < prod(pixels) and n.type.dtype == "f32"


def _product(n: Node) -> Node:
    """[N * places, C * taps] by [C * taps, O]."""
    x, w = n.args
    (outputs, channels, *kernel), (batch, _, *places) = w.type.shape, n.type.shape
    depth = channels * prod(kernel)
    rows = _rows(x, kernel, n.attributes["strides"], n.attributes["dilations"])
    y = ops.node("matmul", rows, _turned(w, outputs, depth, rows.type.shape[1]))
    y = graphs.reshape(y, (batch, *places, outputs))
    return graphs.transpose(y, [0, n.type.rank - 1, *range(1, n.type.rank - 1)])


def _by_image(n: Node) -> Node:
    """[O, N * places] by [N * places, C * taps], of [C, N, ..] by [O, N, places]."""
    x, g = n.args
    (channels, outputs, *taps), (_, batch, *places) = n.type.shape, g.type.shape
    perm = [1, 0, *range(2, n.type.rank)]
    is_turned = x.op == "transpose" and list(x.attributes["perm"]) == perm
    x = x.args[0] if is_turned else graphs.transpose(x, perm)
    strides, dilations = n.attributes["dilations"], n.attributes["strides"]
    rows = _rows(x, taps, strides, dilations)
    seeds = graphs.reshape(g, (outputs, batch * prod(places)))
    y = ops.node("matmul", seeds, rows)
    y = graphs.part(y, (0, 0), (outputs, channels * prod(taps)))
    return graphs.transpose(graphs.reshape(y, (outputs, channels, *taps)), perm)


def _rows(x: Node, kernel: list[int], strides: tuple[int, ...], dilations: tuple[int, ...]) -> Node:
    """The windows as a matrix, each a row."""
    columns = _whole(x.type.shape[1] * prod(kernel))
    windows = ops.node("windows", x, kernel=tuple(kernel), strides=strides, dilations=dilations, columns=columns)
    return graphs.reshape(windows, (windows.type.elements // columns, columns))


def _turned(w: Node, outputs: int, depth: int, columns: int) -> Node:
    """Weights as [columns, O], with zeros below."""
    if w.is_const:
        own = np.zeros((columns, outputs), DTYPES[w.type.dtype])
        own[:depth] = np.asarray(w.value).reshape(outputs, depth).T
        return constant(own)
    return graphs.pad(graphs.transpose(graphs.reshape(w, (outputs, depth)), [1, 0]), (0, 0), (columns - depth, 0))


def _whole(depth: int) -> int:
    return -(-depth // PIECE) * PIECE
