"""The registry of TensorFlow Lite operators, and one node as its lowering function sees it.

A lowering function takes a `TfliteCall` and returns the value (or the values) of the node::

    @tflite("ABS")
    def absolute(call: TfliteCall) -> Value:
        return emit("abs", call[0])

The same decorator serves a file of the user's own, for custom operators too; see `edgec.frontend.onnx.load_operators`.
"""

from __future__ import annotations

from collections.abc import Callable, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from edgec.errors import ModelError
from edgec.frontend.tflite.model import ABSENT, Operator, Quantization, Subgraph, Tensor
from edgec.frontend.values import Value, computed

#: The type of complex tensors, whose values are real ones with a last dimension of 2.
COMPLEX = "complex64"

Results = Value | Sequence[Value]
Lowering = Callable[["TfliteCall"], Results]

_LOWERINGS: dict[str, Lowering] = {}
_ELEMENTWISE: set[str] = set()
_REASONS: dict[str, str] = {}


def tflite(*operators: str, elementwise: bool = False) -> Callable[[Lowering], Lowering]:
    """Register the lowering of operators, builtin or custom; a later registration replaces an earlier one.

    An ``elementwise`` one gives one value, whatever order the dimensions of its operands are in.
    """

    def register(lowering: Lowering) -> Lowering:
        _LOWERINGS.update(dict.fromkeys(operators, lowering))
        (_ELEMENTWISE.update if elementwise else _ELEMENTWISE.difference_update)(operators)
        return lowering

    return register


def refuse(reason: str, *operators: str) -> None:
    """Say why operators are not supported: the text becomes the hint of the error."""
    _REASONS.update(dict.fromkeys(operators, reason))


def lowering(operator: str) -> Lowering | None:
    return _LOWERINGS.get(operator)


def is_elementwise(operator: str) -> bool:
    return operator in _ELEMENTWISE


def is_for_complex(operator: str) -> bool:
    """Does it take complex operands too?"""
    return operator in ("RESHAPE", "SQUEEZE", "EXPAND_DIMS", "CAST", "REAL", "IMAG", "COMPLEX_ABS")


def supported() -> list[str]:
    return sorted(_LOWERINGS)


def refused() -> dict[str, str]:
    return dict(sorted(_REASONS.items()))


@dataclass
class State:
    """A value that lives from one run of the network to the next."""

    #: Name of the input that holds it; its output has ``_out`` behind.
    name: str
    initial: np.ndarray
    #: As it is at this point of the network; None until it is read or written.
    value: Value | None = None
    #: What the network is given, where it reads before it writes.
    given: Value | None = None
    #: The tensor that holds the new value after a run.
    tensor: int = ABSENT

    def read(self, make: Callable[[str, np.ndarray], Value]) -> Value:
        if self.value is None:
            self.value = self.given = make(self.name, self.initial)
        return self.value


@dataclass(frozen=True)
class TfliteCall:
    """One node: its operands, its options, and the tensors they are declared as."""

    operator: Operator
    graph: Subgraph
    inputs: tuple[Value | None, ...]
    #: Makes an input of the network that holds a state.
    make_state: Callable[[str, np.ndarray], Value]
    #: States of the network by the name of their variable.
    states: MutableMapping[str, State]
    #: Lowers another subgraph, by its index, on these inputs; gives its outputs.
    inline: Callable[[int, Sequence[Value | None]], list[Value]]
    #: Which variable a tensor of type ``resource`` stands for.
    handles: MutableMapping[int, str]

    @property
    def name(self) -> str:
        return self.operator.name

    def __getitem__(self, k: int) -> Value:
        """Operand ``k``; raises ModelError when the node does not have it."""
        value = self.optional(k)
        if value is None:
            raise ModelError(f"operand {k} is missing")
        return value

    def optional(self, k: int) -> Value | None:
        return self.inputs[k] if k < len(self.inputs) else None

    def tensor(self, k: int) -> Tensor:
        """Declaration of operand ``k``."""
        index = self.operator.inputs[k] if k < len(self.operator.inputs) else ABSENT
        if index == ABSENT:
            raise ModelError(f"operand {k} is missing")
        return self.graph.tensors[index]

    def result(self, k: int = 0) -> Tensor:
        """Declaration of result ``k``."""
        return self.graph.tensors[self.operator.outputs[k]]

    @property
    def is_complex(self) -> bool:
        """Is operand 0 declared complex? Its value has one more dimension, of the real and the imaginary part."""
        return self.tensor(0).dtype == COMPLEX

    def quantization(self, k: int) -> Quantization:
        return self.tensor(k).quantized

    def option(self, name: str, default: Any = None) -> Any:
        """A field of the options; without a default, one that is missing is an error."""
        value = self.operator.options.get(name, default)
        if value is None:
            raise ModelError(f"the option '{name}' is missing")
        return value

    def constant(self, k: int) -> np.ndarray:
        """The array of operand ``k``, which no input may change."""
        array = computed(self[k])
        if array is None:
            raise ModelError(
                f"operand {k} must be known at build time, but is computed from the network's inputs",
                hint="fix the inputs it depends on with --value NAME=...",
            )
        return array

    def ints(self, k: int) -> tuple[int, ...]:
        return tuple(int(v) for v in self.constant(k).reshape(-1))
