"""Inputs and outputs of a network, with the scales of quantized ones."""

from __future__ import annotations

import json

from edgec.build import Built
from edgec.frontend.states import SCALES
from edgec.ir.graph import Node
from edgec.report.record import Record
from edgec.text import printable


def ports(built: Built) -> list[Record]:
    """A row for each, inputs first; scale and zero point are None where numbers are what they say."""
    program, metadata = built.program, built.graph.metadata

    def row(kind: str, name: str, node: Node, size: int) -> Record:
        told = json.loads(metadata[SCALES + name]) if SCALES + name in metadata else None
        shape = [n if isinstance(n, int) else str(n) for n in node.type.shape]
        scale, zero = told if told is not None else (None, None)
        named = {"kind": kind, "name": printable(name), "dtype": node.type.dtype, "shape": shape}
        return {**named, "bytes": size, "scale": scale, "zero_point": zero}

    inputs = [row("input", name, node, buffer.bytes) for name, buffer, node in program.inputs]
    return [*inputs, *(row("output", name, node, buffer.bytes) for name, buffer, node in program.outputs)]
