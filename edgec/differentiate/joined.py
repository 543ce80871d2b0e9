"""All trained weights as one vector: the optimizer is then a few kernels over it, however many weights there are.

The weights stay inputs of their own, each for the kernels that read it; the vector is one more input over the same
memory. A kernel that writes the vector needs the loss and all gradients, and so comes after all that read weights.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from edgec.frontend.values import Value, concat, full
from edgec.ir.graph import Node

#: Elements at whose multiples weights begin: kernels of GPUs read 16 bytes at once.
STEP = 4
#: The vector is whole rows of so many elements, which threads add up side by side.
ROW = 1024


@dataclass(frozen=True)
class Joined:
    """The element of a vector that each weight begins at, by name, and the length of the vector."""

    places: Mapping[str, int]
    size: int


def joined(weights: Sequence[Node]) -> Joined:
    """The weights one after the other, those that end between steps last."""
    places, end = {}, 0
    for node in sorted(weights, key=lambda n: _elements(n) % STEP != 0):
        places[str(node.attributes["name"])] = end
        end += _whole(_elements(node), STEP)
    return Joined(places, _whole(end, ROW) if end > ROW else end)


def vector(where: Joined, slopes: Mapping[str, Value]) -> Value:
    """Gradients by the names of weights as the vector's; between them it is zero."""
    parts, end = [], 0
    for name, place in where.places.items():
        size = prod(slopes[name].shape)
        parts += [*_gap(place - end), slopes[name].reshape(size)]
        end = place + size
    return concat([*parts, *_gap(where.size - end)], 0)


def _gap(size: int) -> list[Value]:
    return [full([size], 0.0, "f32")] if size else []


def _elements(node: Node) -> int:
    return int(node.type.elements)


def _whole(size: int, step: int) -> int:
    return -(-size // step) * step
