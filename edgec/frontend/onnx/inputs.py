"""The inputs of a model: their types, the dimensions the user fills in, the values the user fixes."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
from onnx import TensorProto, TypeProto, ValueInfoProto

from edgec.errors import ModelError, UsageError
from edgec.frontend.onnx.implied import example
from edgec.frontend.onnx.model import Model, element_type
from edgec.frontend.onnx.sequences import Absent, Item, TensorList, numbered
from edgec.frontend.onnx.strings import Strings, rows_of
from edgec.frontend.values import MAX_ELEMENTS, Value, constant
from edgec.ir.expr import Extent
from edgec.ir.graph import Node, placeholder
from edgec.ir.index import upper
from edgec.ir.sizes import Dimension
from edgec.ir.types import DTYPES, Type
from edgec.options.texts import DimensionRange
from edgec.text import listed, printable

#: A dimension as the model declares it: a size, a symbol, or nothing.
Open = int | str | None
#: How the name of the last dimension of an input of strings ends, the bytes of each; and a number for examples.
WIDTH, _USUAL = " bytes", 32


class OpenShapes(UsageError):
    """Neither the model nor the user says what shape an input has."""


def declared_types(
    model: Model, shapes: Mapping[str, Sequence[int]] = {}, values: Mapping[str, Any] = {}
) -> dict[str, tuple[str, tuple[Open, ...] | None]]:
    """Element type and dimensions of every tensor that is an input, as the model declares them."""
    given = {t.name for t in model.proto.graph.initializer} | {
        s.values.name for s in model.proto.graph.sparse_initializer
    }
    about = {*shapes, *values}
    inputs = _inputs(model, about, given)
    return {name: i.declared for i in inputs for name in i.names}


def declared_shapes(
    model: Model, shapes: Mapping[str, Sequence[int]], values: Mapping[str, Any]
) -> dict[str, tuple[Open, ...] | None]:
    """Dimensions of every tensor that is an input, as the model declares them."""
    return {name: dims for name, (_, dims) in declared_types(model, shapes, values).items()}


def bind_inputs(
    model: Model,
    shapes: Mapping[str, Sequence[int]],
    values: Mapping[str, Any],
    dims: Mapping[str, DimensionRange] = {},
    extents: Mapping[str, Extent] = {},
) -> tuple[tuple[Node, ...], dict[str, Item]]:
    """The input nodes of the graph, and what every input's name means (fixed ones are constants).

    ``extents`` are those of open dimensions by name, where neither a shape nor a range is given.
    Raises OpenShapes where a shape stays open.

    A list of tensors has as many as there are shapes or values for its numbered names; where the bare name is given
    the shape (), it is empty. An optional input is there when it is named so, and absent otherwise.
    """
    graph = model.proto.graph
    given = {t.name for t in graph.initializer} | {s.values.name for s in graph.sparse_initializer}
    about = {*shapes, *values, *(d.rpartition(".")[0] for d in dims)}
    inputs = _inputs(model, about, given)
    declared = {name: i.declared for i in inputs for name in i.names}
    empty = {i.name for i in inputs if i.kind == "list" and not i.names and i.is_there}
    for option, names in (("shape", shapes), ("value", values)):
        unknown = [n for n in names if n not in declared and n not in empty]
        if unknown:
            raise UsageError(
                f"a {option} is given for {listed(unknown)}, which the model does not have as input",
                hint=f"its inputs are {listed(i.shown for i in inputs)}",
                where=model.where,
            )
    arrays = {name: _array(value) for name, value in values.items()}
    wanted = {n: a.shape for n, a in arrays.items() if a.ndim or declared[n][1] is None}
    wanted |= {n: tuple(int(d) for d in s) for n, s in shapes.items() if n not in empty}
    ranges = _Ranges(dims, extents)
    named = {n: ranges.named(n, d) for n, (_, d) in declared.items() if n not in wanted}
    ranges.check(model.where, declared, wanted)
    concrete = _resolve(
        {n: (t, named.get(n, d)) for n, (t, d) in declared.items()},
        wanted,
        ranges.extents,
        model.where,
    )
    nodes, bound = [], {}
    for name, (dtype, _) in declared.items():
        if name in arrays:
            shape = tuple(upper(n) for n in concrete[name])
            bound[name] = constant(np.broadcast_to(arrays[name], shape).astype(DTYPES[dtype]))
        else:
            nodes.append(placeholder(name, Type(dtype, concrete[name])))
            bound[name] = Value(nodes[-1])
    return tuple(nodes), {i.name: i.item(bound) for i in inputs}


def _array(value: Any) -> np.ndarray:
    """A value of the user's; strings as rows of bytes."""
    array = np.asarray(value)
    return rows_of(array) if array.dtype.kind in "USO" else array


class _Ranges:
    """The dimensions that stay open, by the model's own name for them or as INPUT.AXIS where it has none."""

    def __init__(self, dims: Mapping[str, DimensionRange], implied: Mapping[str, Extent]) -> None:
        taken: set[str] = set()
        self.extents: dict[str, Extent] = dict(implied)
        self.given = frozenset(dims)
        self.unused = list(dims)
        for name, (low, high, step) in dims.items():
            self.extents[name] = Dimension(identifier_of(name, taken), low, high, step).extent

    def named(self, name: str, dims: tuple[Open, ...] | None) -> tuple[Open, ...] | None:
        """The dimensions of an input, those with a range by its name."""
        if dims is None:
            return None
        result = []
        for axis, dim in enumerate(dims):
            own = f"{name}.{axis}"
            found = dim if isinstance(dim, str) and dim in self.extents else own if own in self.extents else None
            if found in self.unused:
                self.unused.remove(str(found))
            result.append(found or dim)
        return tuple(result)

    def check(
        self,
        where: str,
        declared: Mapping[str, tuple[str, tuple[Open, ...] | None]],
        wanted: Mapping[str, tuple[int, ...]],
    ) -> None:
        """Raises UsageError for ranges of no open dimension, and of those that a shape gives a size."""
        for name, shape in wanted.items():
            for axis, (dim, size) in enumerate(zip(declared[name][1] or (), shape)):
                own = next((d for d in (dim, f"{name}.{axis}") if d in self.given), None)
                if own is not None and self.extents[str(own)] != size:
                    told = f"'{printable(str(own))}' is given a range"
                    raise UsageError(
                        f"{told}, and the size {size} by the shape of '{printable(name)}'",
                        hint=f"leave one of them out; --dim {printable(name)}.AXIS=SIZE gives one dimension a size",
                        where=where,
                    )
        if self.unused:
            symbols = {d for _, dims in declared.values() for d in dims or () if isinstance(d, str)}
            raise UsageError(
                f"a range is given for {listed(self.unused)}, which is no open dimension of the model",
                hint=f"the model names {listed(sorted(symbols)) or 'none'}; INPUT.AXIS names any other",
                where=where,
            )


def identifier_of(name: str, taken: set[str]) -> str:
    """A dimension's name as C can have it, unique among ``taken``."""
    base = re.sub(r"[^0-9A-Za-z]+", "_", name).strip("_")[:30] or "size"
    base = base if base[0].isalpha() else f"d{base}"
    found, k = base, 2
    while found in taken:
        found, k = f"{base}_{k}", k + 1
    taken.add(found)
    return found


def _inputs(model: Model, about: set[str], given: set[str]) -> list[_Input]:
    """The inputs that are not ``given`` as constants; ``about`` are names that options are about."""
    graph = model.proto.graph
    pictures = {name for n in graph.node if n.op_type == "ImageDecoder" for name in n.input}
    if pictures:
        pictures -= {name for n in graph.node if n.op_type != "ImageDecoder" for name in n.input}
    return [_Input(i, about, model, pictures) for i in graph.input if i.name not in given]


class _Input:
    """An input as the model declares it: one tensor, or a list of them, and whether it has to be there."""

    def __init__(self, info: ValueInfoProto, given: set[str], model: Model, pictures: set[str]) -> None:
        self.name, where = info.name, model.where
        shown = printable(info.name)
        type_ = info.type
        is_optional = type_.WhichOneof("value") == "optional_type"
        type_ = type_.optional_type.elem_type if is_optional else type_
        self.kind = {"tensor_type": "tensor", "sequence_type": "list"}.get(str(type_.WhichOneof("value")), "")
        type_ = type_.sequence_type.elem_type if self.kind == "list" else type_
        if not self.kind or type_.WhichOneof("value") != "tensor_type":
            raise ModelError(
                f"input '{shown}' is neither a tensor nor a sequence of tensors",
                hint="maps and nested sequences are not supported",
                where=where,
            )
        parts = [n for n in given if re.fullmatch(re.escape(self.name) + r"\[\d+\]", n)] if self.kind == "list" else []
        self.names = [numbered(self.name, k) for k in range(len(parts))] if self.kind == "list" else [self.name]
        self.is_there = bool(parts) or self.name in given or not is_optional
        if self.kind == "list" and self.is_there and not parts and self.name not in given:
            raise UsageError(
                f"the model leaves open how many tensors the sequence '{shown}' has",
                hint=f"give the shape of each: --shape {numbered(shown, 0)}=1,...",
                where=where,
            )
        if not self.is_there:
            self.names = []
        self.is_text = type_.tensor_type.elem_type == TensorProto.STRING
        if self.is_text and self.kind == "list":
            hint = "give the tensors one by one"
            raise ModelError(f"input '{shown}' is a sequence of strings", hint=hint, where=where)
        try:
            dtype, dims = _declared(self.name, type_.tensor_type)
        except ModelError as error:
            raise ModelError(f"input '{shown}': {error.message}", hint=error.hint, where=where) from None
        if dims is not None and self.kind == "list":  # each tensor has its own size where a symbol stands
            dims = tuple(d if isinstance(d, int) else None for d in dims)
        if self.name in pictures:
            dims = None  # the bytes of a file, or the pixels of a picture
        self.declared = dtype, dims

    @property
    def shown(self) -> str:
        return numbered(self.name, 0) if self.kind == "list" else self.name

    def item(self, bound: Mapping[str, Value]) -> Item:
        if not self.is_there:
            return Absent()
        if self.is_text:
            return Strings(bound[self.name])
        return TensorList(tuple(bound[n] for n in self.names)) if self.kind == "list" else bound[self.name]


def _declared(name: str, tensor: TypeProto.Tensor) -> tuple[str, tuple[Open, ...] | None]:
    """Element type and dimensions (None when not even their number is known) of an input."""
    is_text = tensor.elem_type == TensorProto.STRING
    dtype = "u8" if is_text else element_type(tensor.elem_type)
    if not tensor.HasField("shape"):
        return dtype, None
    dims: list[Open] = []
    for d in tensor.shape.dim:
        kind = d.WhichOneof("value")
        # "?" is how some exporters spell "unknown": it names nothing that two dimensions could share.
        symbol = d.dim_param if d.dim_param != "?" else ""
        dims.append(int(d.dim_value) if kind == "dim_value" else symbol or None)
    # Some exporters write -1 for a dimension that is left open.
    return dtype, (*(None if d == -1 else d for d in dims), *([name + WIDTH] if is_text else []))


def _resolve(
    declared: Mapping[str, tuple[str, tuple[Open, ...] | None]],
    given: Mapping[str, tuple[int, ...]],
    ranges: Mapping[str, Extent],
    where: str,
) -> dict[str, tuple[Extent, ...]]:
    """The shape of every input: as declared, as given, or by a symbol with a range or in another input's shape."""
    symbols: dict[str, Extent] = {}
    for name, wanted in given.items():
        _, dims = declared[name]
        if any(d < 0 for d in wanted):
            told = f"shape {list(wanted)} for input '{printable(name)}' is negative"
            raise UsageError(told, hint="sizes are 0 or more", where=where)
        if dims is None:
            continue
        for dim, size in zip(dims, wanted):
            if isinstance(dim, str) and symbols.setdefault(dim, size) != size:
                raise UsageError(
                    f"dimension '{printable(dim)}' is given as {symbols[dim]} and as {size}",
                    hint="inputs that share a symbol need the same size there",
                    where=where,
                )
        if len(dims) != len(wanted) or any(isinstance(d, int) and d != s for d, s in zip(dims, wanted)):
            raise UsageError(
                f"input '{printable(name)}' has shape {_shown(dims)}, which {list(wanted)} does not fit",
                hint="only dimensions that the model leaves open can be given",
                where=where,
            )
    symbols = {**ranges, **symbols}
    result: dict[str, tuple[Extent, ...]] = {}
    open_inputs: list[str] = []
    asked: set[Open] = set()  # symbols that the shapes of these give
    for name, (_, dims) in declared.items():
        filled = None if dims is None else [symbols.get(d) if isinstance(d, str) else d for d in dims]
        if name in given:
            filled = list(given[name])
        if filled is None or None in filled:
            missing = [d for d, extent in zip(dims or (), filled or ()) if extent is None]
            if filled is None or None in missing or not asked.issuperset(missing):
                open_inputs.append(name)
                asked.update(missing)
            continue
        shape = tuple(d for d in filled if d is not None)
        if any(d < 0 for d in shape) or prod(map(upper, shape)) > MAX_ELEMENTS:
            raise ModelError(f"input '{printable(name)}' has the impossible shape {list(shape)}", where=where)
        result[name] = shape
    if open_inputs:
        options = []
        for name in open_inputs:
            dims = declared[name][1]
            usual = {name + WIDTH: _USUAL, **symbols}
            sizes = [str(d if isinstance(d, int) else example(usual.get(str(d), 1))) for d in dims or ()]
            text = f"{printable(name)}={','.join(sizes) if dims is not None else '1,...'}"
            options.append(f"--shape {shlex.quote(text) if dims is not None else text}")
        ranged = [dimension_hint(n) for n in _open_names(declared, open_inputs, symbols)]
        ranged += [_width_hint(n, dims) for n in open_inputs if (dims := declared[n][1]) and dims[-1] == n + WIDTH]
        ranged = ranged or ["--dim NAME=1..8"]
        raise OpenShapes(
            f"the model leaves the shape of {listed(open_inputs)} open",
            hint=f"say what to build it for: {' '.join(options)}; or give dimensions a range: {' '.join(ranged[:4])}",
            where=where,
        )
    return result


def dimension_hint(name: str) -> str:
    """The option that keeps a dimension open, quoted for a shell."""
    return f"--dim {shlex.quote(f'{printable(name)}=1..8')}"


def _width_hint(name: str, dims: Sequence[Open]) -> str:
    """The option that gives the strings of an input a width, while other dimensions stay open."""
    return f"--dim {shlex.quote(f'{printable(name)}.{len(dims) - 1}={_USUAL}')}"


def _open_names(
    declared: Mapping[str, tuple[str, tuple[Open, ...] | None]], names: Sequence[str], symbols: Mapping[str, Extent]
) -> list[str]:
    """The names of dimensions of these inputs that nothing decides: the model's own, or INPUT.AXIS."""
    found = {
        dim if isinstance(dim, str) else f"{name}.{axis}": None
        for name in names
        for axis, dim in enumerate(declared[name][1] or ())
        if not isinstance(dim, int) and dim not in symbols and dim != name + WIDTH
    }
    return list(found)


def _shown(dims: tuple[Open, ...]) -> str:
    return "[" + ", ".join("?" if d is None else printable(str(d)) for d in dims) + "]"
