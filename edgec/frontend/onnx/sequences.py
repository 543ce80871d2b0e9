"""Lists of tensors, and values that may be absent: both are known when a model is imported, and gone from the graph.

A list that is an input or output of the model becomes numbered tensors: ``x[0]``, ``x[1]``, ...
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from edgec.frontend.onnx.strings import Strings
from edgec.frontend.values import Value


@dataclass(frozen=True, eq=False)
class TensorList:
    """A list of tensors whose length is known; each has a shape of its own."""

    parts: tuple[Value, ...] = ()


@dataclass(frozen=True)
class Absent:
    """An optional value that is not there."""


#: What a name of a model may mean.
Item = Value | TensorList | Absent | Strings


def values_of(items: Iterable[Item | None]) -> list[Value]:
    """Every tensor of these, in order."""
    found: list[Value] = []
    for item in items:
        if isinstance(item, Value):
            found.append(item)
        elif isinstance(item, TensorList):
            found.extend(item.parts)
        elif isinstance(item, Strings):
            found.append(item.rows)
    return found


def numbered(name: str, k: int) -> str:
    """The name of tensor k of a list."""
    return f"{name}[{k}]"


def named(name: str, item: Item) -> list[tuple[str, Value]]:
    """The tensors of an output with their names: one, one a part of a list, or none."""
    if isinstance(item, Value):
        return [(name, item)]
    if isinstance(item, Strings):
        return [(name, item.rows)]
    return [(numbered(name, k), v) for k, v in enumerate(item.parts)] if isinstance(item, TensorList) else []
