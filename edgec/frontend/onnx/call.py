"""The registry of ONNX operators, and one ONNX node as its lowering function sees it.

A lowering function takes a `Call` and returns the value (or the tuple of values) of the node::

    @onnx("HardSigmoid")
    def hard_sigmoid(call: Call) -> Value:
        return clip(call[0] * call.attribute("alpha") + call.attribute("beta"), 0, 1)

The same decorator registers operators of a user's own file, outside the package; see `load_operators`.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from importlib.util import module_from_spec, spec_from_file_location
from math import prod
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from edgec import files
from edgec.errors import ModelError, UsageError
from edgec.frontend.onnx import masks
from edgec.frontend.onnx.sequences import Item, TensorList
from edgec.frontend.onnx.strings import Strings, rows_of
from edgec.frontend.symbolic import LIMIT, known_elements
from edgec.frontend.values import Operand, Value, computed, emit, normalize_axis
from edgec.ir import expr as X
from edgec.ir.expr import Extent
from edgec.ir.graph import Node, topological
from edgec.ir.types import FLOATS
from edgec.text import listed, printable

Results = Item | Sequence[Item | None]
Lowering = Callable[["Call"], Results]
AnyLowering = TypeVar("AnyLowering", bound=Lowering)

_LOWERINGS: dict[tuple[str, str], Lowering] = {}
#: Lowerings of operators where an operand is strings.
_OF_STRINGS: dict[tuple[str, str], Lowering] = {}
_REASONS: dict[tuple[str, str], str] = {}
_loaded: set[Path] = set()


class UnknownValue(ModelError):
    """A value that must be known at build time is computed from inputs, whose names are ``inputs``."""

    def __init__(self, message: str, *, inputs: tuple[str, ...], hint: str, where: str | None = None) -> None:
        super().__init__(message, hint=hint, where=where)
        self.inputs = inputs


class ModelWarning(UserWarning):
    """A violation of the standard in a model whose meaning is clear."""


def onnx(*operators: str, domain: str = "") -> Callable[[AnyLowering], AnyLowering]:
    """Register the lowering of ONNX operators; a later registration replaces an earlier one."""

    def register(lowering: AnyLowering) -> AnyLowering:
        for operator in operators:
            _LOWERINGS[domain, operator] = lowering
        return lowering

    return register


def on_strings(*operators: str, domain: str = "") -> Callable[[AnyLowering], AnyLowering]:
    """Register the lowering of operators for operands that are strings."""

    def register(lowering: AnyLowering) -> AnyLowering:
        _OF_STRINGS.update(dict.fromkeys(((domain, operator) for operator in operators), lowering))
        return lowering

    return register


def refuse(reason: str, *operators: str, domain: str = "") -> None:
    """Register the reason why operators are not supported: the text is the hint of the error."""
    for operator in operators:
        _REASONS[domain, operator] = reason


def lowering(domain: str, operator: str, inputs: Sequence[Item | None] = ()) -> Lowering | None:
    """The lowering of an operator, with these operands."""
    of_strings = _OF_STRINGS.get((domain, operator))
    if of_strings is not None and any(isinstance(item, Strings) for item in inputs):
        return of_strings
    return _LOWERINGS.get((domain, operator))


def reason(domain: str, operator: str) -> str | None:
    """Reason why an operator is refused, where it is known; otherwise None."""
    return _REASONS.get((domain, operator))


def supported() -> list[tuple[str, str]]:
    """(domain, operator) of every registered lowering."""
    return sorted(_LOWERINGS)


def refused() -> dict[tuple[str, str], str]:
    return dict(sorted(_REASONS.items()))


#: What to do where the data themselves, not an operand that was left open, decide a shape.
_DATA_DECIDE = (
    "shapes may follow how much NonZero, Compress, Unique or NonMaxSuppression find, but nothing else that is computed "
    "from data: give this one a fixed size before exporting"
)


def _may_be_fixed(node: Node) -> bool:
    """Is an input of the model such as a target shape or an axis, rather than data?"""
    return node.type.dtype not in FLOATS and node.type.elements <= LIMIT


#: Attributes that say yes or no.
_FLAGS = frozenset({
    "center_point_box", "channels_last", "exclusive", "fmod", "linear_before_reset", "reverse", "transA", "transB",
    "transBatchA", "transBatchB",
})  # fmt: skip


@dataclass(frozen=True)
class Call:
    """One ONNX node: its operands, its attributes (defaults filled in), and the version of its operator."""

    operator: str
    domain: str
    opset: int
    label: str
    inputs: tuple[Item | None, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    outputs: tuple[str, ...] = ("",)
    #: Makes a run-time size of a computed scalar (i64), from 0 to a bound; set by the importer.
    new_size: Callable[[Value, Extent], Extent] | None = None
    #: Adds a runtime assertion: a condition, and the message where it is false; set by the importer.
    demand: Callable[[Value, str], None] | None = None
    #: The largest number of iterations of a loop, where the user states it; set by the importer.
    rounds: int | None = None
    #: Draws numbers of a shape, by a seed: from 0 to below 1, others in every run; set by the importer.
    draw: Callable[[Sequence[Extent], int | None], Value] | None = None
    #: Lowers a tensor of the main graph as a function of others, by their names and the types of values: the result and
    #: its variables; set by the importer for nodes of the main graph.
    function: Callable[[str, Sequence[str], Sequence[Value]], tuple[Node, list[Node]]] | None = None
    #: Lowers a subgraph (of If, Loop, Scan) in the scope of the node; set by the importer.
    inline: Callable[..., list[Item]] | None = None

    def __post_init__(self) -> None:
        """Raises ModelError for values that attributes of their names cannot have, whatever the operator."""
        for name, value in self.attributes.items():
            if name in _FLAGS and value not in (0, 1):
                raise self.error(f"'{name}' is {value}", "it is 0 or 1")

    def __getitem__(self, k: int) -> Value:
        """Operand ``k``; raises ModelError when the node does not have it."""
        value = self.optional(k)
        if value is None:
            raise ModelError(f"operand {k} is missing", where=self.label)
        return value

    def optional(self, k: int) -> Value | None:
        """Operand ``k``, or None where it is left out."""
        item = self.item(k)
        if isinstance(item, Strings):
            hint = "do this step in your own code, and cut the model behind it"
            raise ModelError(f"operand {k} is strings, which are not supported here", hint=hint, where=self.label)
        if item is not None and not isinstance(item, Value):
            kind = "a sequence" if isinstance(item, TensorList) else "an optional that is not there"
            raise ModelError(f"operand {k} is {kind}, not a tensor", where=self.label)
        return item

    def item(self, k: int) -> Item | None:
        """Operand ``k`` of an operator that also takes lists of tensors and optional values."""
        return self.inputs[k] if k < len(self.inputs) else None

    def strings(self, k: int) -> Strings:
        """Operand ``k`` of an operator on strings."""
        item = self.item(k)
        if not isinstance(item, Strings):
            raise ModelError(f"operand {k} is no tensor of strings", where=self.label)
        return item

    def texts(self, name: str) -> np.ndarray:
        """Strings of an attribute as rows of bytes."""
        return rows_of(np.array(self.required(name), object))

    def on(self, inputs: Sequence[Item | None]) -> list[Value]:
        """The results of the operator on other operands, none of them strings."""
        found = _LOWERINGS[self.domain, self.operator](replace(self, inputs=tuple(inputs)))
        results = (found,) if isinstance(found, Item) else found
        return [r for r in results if isinstance(r, Value)]

    def require(self, condition: Value, message: str) -> None:
        """A runtime assertion; raises ModelError where it is known to be false."""
        assert self.demand is not None
        self.demand(condition, message)

    @property
    def operands(self) -> list[Value]:
        """Every operand that is present."""
        found = (self.optional(k) for k in range(len(self.inputs)))
        return [v for v in found if v is not None]

    @property
    def aligned(self) -> list[Value]:
        """Every operand, the second one broadcast by the rule of operator sets before 7: from dimension ``axis`` on."""
        operands = self.operands
        axis = self.attributes.get("axis")
        if self.opset >= 7 or len(operands) != 2 or not self.attributes.get("broadcast") or axis is None:
            return operands
        x, y = operands
        axis = normalize_axis(axis, x.rank)
        if axis + y.rank > x.rank:
            raise ModelError(
                f"shape {list(y.shape)} does not fit {list(x.shape)} from dimension {axis}", where=self.label
            )
        return [x, y.reshape(*y.shape, *(1,) * (x.rank - axis - y.rank))]

    def wants(self, k: int) -> bool:
        """True if output ``k`` is used."""
        return k < len(self.outputs) and self.outputs[k] != ""

    def attribute(self, name: str, default: Any = None) -> Any:
        """An attribute: as given, else the standard's default, else ``default``."""
        return self.attributes.get(name, default)

    def required(self, name: str) -> Any:
        """The value of an attribute; raises ModelError when it is missing."""
        if name not in self.attributes:
            raise ModelError(f"attribute '{name}' is missing", where=self.label)
        return self.attributes[name]

    def constant(self, k: int) -> np.ndarray:
        """The array of operand ``k``; raises UnknownValue when it depends on an input of the model."""
        value = self[k]
        array = computed(value)
        if array is None:
            if not any(n.op == "input" for n in topological([value.node])):
                raise ModelError(
                    f"operand {k} must be known at build time, but depends on the size of dimensions",
                    hint="build for one shape with --shape instead of --dim",
                    where=self.label,
                )
            nodes = [n for n in topological([value.node]) if n.op == "input"]
            options = " ".join(f"--value {printable(n.attributes['name'])}=..." for n in nodes)
            hint = f"say what to build the model for: {options}" if all(map(_may_be_fixed, nodes)) else _DATA_DECIDE
            raise self.unknown(k, f"operand {k} must be known at build time", hint)
        return array

    def unknown(self, k: int, message: str, hint: str) -> UnknownValue:
        """The error for an operand that depends on inputs, and must not."""
        nodes = [n for n in topological([self[k].node]) if n.op == "input"]
        inputs = tuple(n.attributes["name"] for n in nodes)
        told = f"{message}, but depends on the model's input {listed(inputs)}" if inputs else message
        return UnknownValue(told, inputs=inputs, hint=hint, where=self.label)

    def ints(self, k: int) -> tuple[int, ...]:
        """Constant operand ``k`` as a flat tuple of integers."""
        array = self.constant(k)
        if array.size and array.dtype.kind not in "iu":
            raise ModelError(f"operand {k} must be integers, not {self[k].dtype}", where=self.label)
        return tuple(int(v) for v in array.reshape(-1))

    def extents(self, k: int) -> tuple[Any, ...]:
        """Integer operand ``k`` as a flat tuple of numbers and of formulas of run-time sizes."""
        known = known_elements(self[k], self._counted)
        return self.ints(k) if known is None else known

    def size(self, count: Value, most: Extent) -> Extent:
        """A scalar (i64, from 0 to ``most``) as an extent: a number, or a size that the network computes."""
        known = known_elements(count)
        if known is not None:
            return known[0]
        size = self._counted(count.node)
        if size is not None:
            return size
        assert self.new_size is not None
        return self.new_size(count, most)

    def _counted(self, count: Node) -> Extent | None:
        """The size of a number of true elements; None for any other. Equal masks give the same size."""
        found = masks.counted(count)
        if found is None or self.new_size is None:
            return None
        mask, times = found
        true = mask.cast("i64").sum(range(mask.rank), keep=False)
        return X.plain(times * self.new_size(true, X.plain(prod(mask.shape))))

    def drawn(self, shape: Sequence[Extent]) -> Value:
        """Random numbers (f32) from 0 to below 1, others in every run; nodes with one seed draw the same."""
        assert self.draw is not None
        seed = self.attributes.get("seed")
        return self.draw(shape, None if seed is None else int(np.float32(seed).view(np.int32)))

    def counted(self, value: Value, count: Value, axis: int = 0) -> Value:
        """The first ``count`` (a scalar) slices of a tensor along ``axis``."""
        return value.part(axis, 0, self.size(count, value.shape[axis]))

    def ints_or_attribute(self, k: int, name: str) -> tuple[int, ...] | None:
        """Integers that older versions of an operator take as an attribute and newer ones as an input."""
        if self.optional(k) is not None:
            return self.ints(k)
        given = self.attributes.get(name)
        return None if given is None else tuple(given)

    def node(self, op: str, *args: Operand, **attrs: Any) -> Value:
        """The result of a core operator, by name; also of the user's own core operators."""
        return emit(op, *args, **attrs)

    def warn(self, message: str) -> None:
        warnings.warn(f"{self.label}: {message}", ModelWarning, stacklevel=2)

    def error(self, message: str, hint: str | None = None) -> ModelError:
        return ModelError(message, hint=hint, where=self.label)


def load_operators(folder: str | Path) -> None:
    """Import every Python file of a folder, so that the operators it registers are known.

    The files are programs and run with the user's rights. Raises UsageError when the folder does not exist or
    a file fails.
    """
    root = files.folder(folder, "operators").resolve()
    for path in sorted(root.glob("*.py")):
        if path in _loaded:
            continue
        name = f"edgec_operators_{sha256(str(path).encode()).hexdigest()[:12]}"
        spec = spec_from_file_location(name, path)
        assert spec is not None and spec.loader is not None
        module = module_from_spec(spec)
        sys.modules[name] = module
        try:
            spec.loader.exec_module(module)
        except Exception as error:
            del sys.modules[name]
            raise UsageError(f"cannot load: {type(error).__name__}: {error}", where=str(path)) from error
        _loaded.add(path)
