"""A TensorFlow Lite model as plain records: what the file says, with every index known to be inside its table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from edgec.errors import ModelError
from edgec.text import printable

#: What marks an operand that is left out.
ABSENT = -1


@dataclass(frozen=True)
class Quantization:
    """real = (integer - zero) * scale: one pair for the whole tensor, or one for each place along ``axis``."""

    scales: np.ndarray
    zeros: np.ndarray
    axis: int = 0

    @property
    def scale(self) -> np.float32:
        """The scale of a tensor that has one."""
        return self._only(self.scales)  # type: ignore[no-any-return]

    @property
    def zero(self) -> int:
        return int(self._only(self.zeros))

    def along(self, shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
        """Scales and zero points (f32 and i64) in a shape that broadcasts against a tensor of ``shape``."""
        if self.scales.size == 1:
            return self.scales.reshape(()), self.zeros.reshape(())
        if not 0 <= self.axis < len(shape) or shape[self.axis] != self.scales.size:
            raise ModelError(f"{self.scales.size} scales for dimension {self.axis} of shape {list(shape)}")
        spread = [n if d == self.axis else 1 for d, n in enumerate(shape)]
        return self.scales.reshape(spread), self.zeros.reshape(spread)

    @staticmethod
    def _only(values: np.ndarray) -> Any:
        if values.size != 1:
            raise ModelError(f"one scale and zero point is expected for the tensor, not {values.size}")
        return values[0]


@dataclass(frozen=True)
class Tensor:
    """A tensor as declared. ``dtype`` is edgec's name, or TFLite's in lower case where edgec has none.

    ``data`` is None for what is computed at run time; ``signature`` is the shape with -1 where it is left open.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    signature: tuple[int, ...]
    quantization: Quantization | None = None
    data: np.ndarray | None = None
    variable: bool = False

    @property
    def quantized(self) -> Quantization:
        if self.quantization is None:
            raise ModelError(f"tensor '{printable(self.name)}' of type {self.dtype} has no scale")
        return self.quantization


@dataclass(frozen=True)
class Operator:
    """A node. ``name`` is the builtin operator's, or a custom one's; tensors are indices into the subgraph."""

    name: str
    label: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    options: Mapping[str, Any] = field(default_factory=dict)
    version: int = 1
    custom: bool = False
    custom_options: bytes = b""
    #: Tensors that only tell the scales of values inside the node.
    intermediates: tuple[int, ...] = ()


@dataclass(frozen=True)
class Subgraph:
    name: str
    tensors: tuple[Tensor, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    operators: tuple[Operator, ...]

    @property
    def input_names(self) -> dict[str, int]:
        """Tensors of the inputs by name; one that comes again has a number behind its name."""
        return self._named(self.inputs)

    @property
    def output_names(self) -> dict[str, int]:
        return self._named(self.outputs)

    def _named(self, indices: tuple[int, ...]) -> dict[str, int]:
        found: dict[str, int] = {}
        for index in indices:
            k, unique = 1, self.tensors[index].name
            while unique in found:
                unique, k = f"{self.tensors[index].name}_{k}", k + 1
            found[unique] = index
        return found


@dataclass(frozen=True)
class TfliteModel:
    """A parsed file and where it came from; the first subgraph is the network."""

    name: str
    where: str
    path: Path | None
    content: bytes = field(repr=False)
    subgraphs: tuple[Subgraph, ...]
    version: int
    description: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)

    @property
    def main(self) -> Subgraph:
        return self.subgraphs[0]

    def operator_counts(self) -> Counter[str]:
        return Counter(printable(o.name) for graph in self.subgraphs for o in graph.operators)

    @property
    def weights_bytes(self) -> int:
        """Bytes of the weights, written out as the program reads them."""
        return sum(t.data.nbytes for graph in self.subgraphs for t in graph.tensors if t.data is not None)
