"""Parts of a divided network: a graph for one worker each, and the tensors that cross between them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod

from edgec.distribute.held import Held
from edgec.ir.dtypes import DTYPES
from edgec.ir.graph import Graph, Node
from edgec.ir.types import Type


@dataclass(frozen=True)
class Read:
    """An input of a part: a tensor, or along ``axis`` its elements from ``begin`` to before ``end``."""

    port: str
    tensor: str
    axis: int | None = None
    begin: int = 0
    end: int = 0

    def shape(self, whole: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of what is read of a tensor of shape ``whole``."""
        return tuple(self.end - self.begin if d == self.axis else n for d, n in enumerate(whole))

    def bytes(self, dtype: str, whole: tuple[int, ...]) -> int:
        return prod(self.shape(whole)) * DTYPES[dtype].itemsize


@dataclass(frozen=True)
class Part:
    """A graph for one worker. Its outputs are tensors of their names; ``seconds`` are predicted for its kernels.

    ``variants`` are those of its products by their keys, where it does not choose them itself. ``finals`` are the
    shares of the seconds after which each output is final, and all before it; without them, all are at the end.
    """

    worker: int
    graph: Graph
    reads: tuple[Read, ...]
    seconds: float
    variants: Mapping[str, str] | None = None
    finals: tuple[float, ...] = ()

    @property
    def writes(self) -> Mapping[str, Node]:
        """Outputs by name, but for the next values of states, which stay there."""
        return Held(self.graph).outputs


@dataclass(frozen=True)
class Division:
    """A network as parts, each after those that it reads from. ``split`` is one, pipeline, rows or tensor.

    ``sums`` are tensors that no part gives: the coordinator adds their terms, in order. ``found`` says how good a
    choice it is, in words, where that is known. ``other`` names sums of rows and pipelines whose terms are added in
    another order than one device has. ``panels`` are the tensors that others are cut up into.
    """

    split: str
    parts: tuple[Part, ...]
    inputs: dict[str, Type]
    outputs: dict[str, Type]
    sums: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    found: str = ""
    other: tuple[str, ...] = ()
    panels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def tensors(self) -> dict[str, Type]:
        """Types of the inputs, of everything that a part gives, and of sums, by name."""
        made = {name: n.type for part in self.parts for name, n in part.writes.items()}
        return {**self.inputs, **made, **{name: made[terms[0]] for name, terms in self.sums.items()}}

    @property
    def workers(self) -> int:
        """Number of workers that have a part."""
        return len({p.worker for p in self.parts})


def whole(graph: Graph, worker: int, seconds: float) -> Division:
    """The undivided network on one worker."""
    inputs, outputs = ports(graph)
    return Division("one", (Part(worker, graph, tuple(Read(n, n) for n in inputs), seconds),), inputs, outputs)


def ports(graph: Graph) -> tuple[dict[str, Type], dict[str, Type]]:
    """Types of the inputs and outputs of a network by name, but for its states."""
    held = Held(graph)
    inputs, outputs = ({name: n.type for name, n in own.items()} for own in (held.inputs, held.outputs))
    return inputs, outputs
