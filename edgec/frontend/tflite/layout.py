"""Channels last, as the format keeps them, and channels first, as core operators are written.

A value that was computed with channels first is a transpose of it. Whatever does not care for the order of dimensions
is computed below that transpose, so that convolutions, what follows them and the next ones see each other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from edgec.frontend.values import Value

T = TypeVar("T")


def channels_first(x: Value) -> Value:
    """[N, H.., C] as [N, C, H..]; nothing is transposed twice."""
    if is_turned(x):
        return Value(x.node.args[0])
    return x.transpose(0, x.rank - 1, *range(1, x.rank - 1))


def channels_last(x: Value) -> Value:
    return x.transpose(*_last(x.rank))


def is_turned(x: Value) -> bool:
    """True if x is the transpose of a value with channels first."""
    return x.rank > 2 and x.node.op == "transpose" and x.node.attributes["perm"] == _last(x.rank)


def _last(rank: int) -> tuple[int, ...]:
    return (0, *range(2, rank), 1)


def axis_first(axis: int, rank: int) -> int:
    """Index of a dimension after channels were moved to the front."""
    return axis if axis == 0 else 1 if axis == rank - 1 else axis + 1


def by_channels_first(amounts: Sequence[T]) -> list[T]:
    """One amount a dimension, in the order of channels first."""
    return [amounts[0], amounts[-1], *amounts[1:-1]]


def below_transposes(operands: Sequence[Value | None], compute: Callable[..., Value]) -> Value:
    """Element-wise work on operands that broadcast, with channels first where one of them was computed so."""
    rank = max((x.rank for x in operands if x is not None), default=0)
    if not any(x is not None and x.rank == rank and is_turned(x) for x in operands):
        return compute(*operands)
    whole = (None if x is None else x if x.rank == 0 else x.reshape(*[1] * (rank - x.rank), *x.shape) for x in operands)
    return channels_last(compute(*(x if x is None or x.rank == 0 else channels_first(x) for x in whole)))
