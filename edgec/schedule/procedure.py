"""Procedures: what a definition and its template agreed on, and the buffers of the operands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from edgec.fuse import Block
from edgec.ir.graph import Node, Procedure
from edgec.ir.index import upper
from edgec.ir.types import Type
from edgec.schedule.flat import Weights
from edgec.schedule.layout import strides_of
from edgec.schedule.program import Buffer, View

#: Scratch of threads is apart by whole cache lines.
_LINE = 64


@dataclass(frozen=True)
class ProcedureCall:
    """A procedure on buffers, each of which holds its operand alone, in row-major order."""

    node: Node
    procedure: Procedure
    operands: tuple[tuple[Buffer, Type], ...]  # one buffer may serve several operands
    store: Buffer

    @property
    def scratch_bytes(self) -> int:
        """Bytes each thread needs for itself."""
        return -(-upper(self.procedure.scratch) // _LINE) * _LINE


def procedure_call(block: Block, views: Mapping[Node, View], weights: Weights) -> ProcedureCall:
    """The call of a block that is a procedure."""
    assert isinstance(block.meaning, Procedure)

    def buffer(node: Node) -> Buffer:
        if node.is_const:
            return weights.add(node.value)
        view = views[node]
        assert view.offset == 0 and view.strides == strides_of(view.shape, len(view.shape) - 1), "not row-major"
        return view.buffer

    operands = tuple((buffer(a), a.type) for a in block.output.args)
    return ProcedureCall(block.output, block.meaning, operands, buffer(block.output))
