"""Values that lie inside the buffers of others, and the borders around values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from edgec.ir import expr as X
from edgec.ir.expr import Extent
from edgec.ir.graph import Node

#: Operators whose operands are parts of the result's buffer.
JOINED = ("concat", "update")


@dataclass(frozen=True)
class BufferAlias:
    """A value stored in the buffer of ``parent``, at ``offset`` elements from its first one along each dimension.

    It is a part, written there by its own block; or a view, which no block writes: a slice, or, with negative offsets,
    the value together with the halo of its buffer.
    """

    parent: Node
    offset: tuple[Extent, ...]
    is_view: bool = False


@dataclass(frozen=True)
class Halo:
    """Border around the value that owns a buffer: this many elements ``before`` and ``after`` it, all of ``value``."""

    before: tuple[Extent, ...]
    after: tuple[Extent, ...]
    value: float | int

    def around(self, shape: tuple[Extent, ...]) -> tuple[Extent, ...]:
        """The shape with its halo."""
        return tuple(X.plain(b + n + a) for b, n, a in zip(self.before, shape, self.after))


def root_of(node: Node, aliases: Mapping[Node, BufferAlias]) -> tuple[Node, tuple[Extent, ...]]:
    """The value that owns the memory ``node`` lies in, and where in relation to it."""
    offset: tuple[Extent, ...] = (0,) * node.type.rank
    while node in aliases:
        place = aliases[node]
        offset = tuple(X.plain(a + b) for a, b in zip(offset, place.offset))
        node = place.parent
    return node, offset
