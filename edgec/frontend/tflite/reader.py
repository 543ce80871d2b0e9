"""Reading a TensorFlow Lite file that nobody vouches for.

The flatbuffer is decoded by the published ``tflite`` package. What it gives is not trusted: every table's length is
held against the size of the file, every index against the table it points into, every buffer against its tensor.
"""

from __future__ import annotations

import struct
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from edgec.errors import ModelError, ToolchainError
from edgec.frontend.tflite.cursor import Cursor
from edgec.frontend.tflite.model import ABSENT, Operator, Quantization, Subgraph, Tensor, TfliteModel
from edgec.frontend.tflite.options import options_of
from edgec.frontend.tflite.sparse import densified
from edgec.frontend.values import MAX_ELEMENTS
from edgec.ir.types import DTYPES
from edgec.text import identifier, printable

#: What a file of this format has at byte 4.
MAGIC = b"TFL3"
#: The only version of the format there is.
VERSION = 3
_TYPES = {
    "FLOAT64": "f64", "FLOAT32": "f32", "FLOAT16": "f16", "BFLOAT16": "bf16", "BOOL": "bool",
    "INT8": "i8", "INT16": "i16", "INT32": "i32", "INT64": "i64",
    "UINT8": "u8", "UINT16": "u16", "UINT32": "u32", "UINT64": "u64", "INT4": "i4",
}  # fmt: skip
#: What decoding a damaged file runs into.
_DAMAGED = (struct.error, IndexError, ValueError, TypeError, OverflowError, AttributeError, KeyError)


def schema() -> Any:
    """The package that knows the format; raises ToolchainError where it is not installed."""
    try:
        import tflite
    except ImportError:
        raise ToolchainError(
            "TensorFlow Lite models need a package that is not installed", hint="pip install 'edgec[tflite]'"
        ) from None
    return tflite


def is_tflite(content: bytes) -> bool:
    return content[4:8] == MAGIC


def parse(content: bytes, where: str = "model", path: Path | None = None) -> TfliteModel:
    """The records of a file; raises ModelError where it is damaged, ToolchainError without the ``tflite`` package."""
    reader = _Reader(schema(), content, where)
    name = identifier(path.stem) if path is not None else "net"
    try:
        return reader.model(name, path)
    except ModelError as error:
        error.where = error.where or where
        raise
    except _DAMAGED as error:
        raise ModelError(
            f"the file is damaged or was cut off: {printable(str(error))}",
            hint="copy or download it again",
            where=where,
        ) from None


class _Reader(Cursor):
    def __init__(self, package: Any, content: bytes, where: str) -> None:
        super().__init__(package, content, where)
        self.builtins = _names(package.BuiltinOperator)
        self.types = _names(package.TensorType)

    def model(self, name: str, path: Path | None) -> TfliteModel:
        root = self.package.Model.GetRootAs(self.content, 0)
        version = int(root.Version())
        if version != VERSION:
            raise ModelError(
                f"the model is of format version {version}; {VERSION} is supported", hint="convert it again"
            )
        buffers = [self.buffer(b) for b in self.each(root, "Buffers")] or [np.zeros(0, np.uint8)]  # the first is empty
        codes = [self.code(c) for c in self.each(root, "OperatorCodes")]
        graphs = tuple(self.subgraph(g, buffers, codes) for g in self.each(root, "Subgraphs"))
        if not graphs or not graphs[0].outputs:
            raise ModelError("the file holds no network", hint="is it cut off?")
        for graph in graphs:
            for operator in graph.operators:
                if not 0 <= int(operator.options.get("init_subgraph_index", 0)) < len(graphs):
                    raise ModelError(f"'{printable(operator.label)}' calls a subgraph that does not exist")
        described = printable(self.text(root.Description()), 1000)
        metadata = {}
        for m in self.each(root, "Metadata"):  # most of it is in formats of its own
            key, index = self.text(m.Name()), int(m.Buffer())
            if key == "min_runtime_version" and index < len(buffers):
                metadata[key] = printable(bytes(buffers[index][:64]).rstrip(b"\0").decode("ascii", "replace"))
        return TfliteModel(name, self.where, path, self.content, graphs, version, described, metadata)

    def buffer(self, table: Any) -> np.ndarray:
        """The bytes of a buffer, in the tables or, in files of more than 2 GiB, behind them."""
        start, size = int(table.Offset()), int(table.Size())
        if start > 1:
            if start + size > len(self.content):
                raise ModelError(f"a buffer lies at bytes {start} to {start + size}, behind the end of the file")
            return np.frombuffer(self.content, np.uint8, size, start)
        data = table.DataAsNumpy()
        return data if isinstance(data, np.ndarray) else np.zeros(0, np.uint8)

    def code(self, table: Any) -> tuple[str, bool, int]:
        """Name of an operator, whether it is a custom one, and its version."""
        # Up to 127 both fields hold the number; files older than the second have only the first.
        number = max(int(table.BuiltinCode()), int(table.DeprecatedBuiltinCode()))
        custom = self.text(table.CustomCode())
        if self.builtins.get(number) == "CUSTOM":
            return custom or "a custom operator without a name", True, int(table.Version())
        return self.builtins.get(number, f"builtin operator {number}"), False, int(table.Version())

    def subgraph(self, table: Any, buffers: list[np.ndarray], codes: list[tuple[str, bool, int]]) -> Subgraph:
        tensors = tuple(self.tensor(t, k, buffers) for k, t in enumerate(self.each(table, "Tensors")))

        def indices(found: tuple[int, ...], what: str, least: int = 0) -> tuple[int, ...]:
            if any(not least <= k < len(tensors) for k in found):
                raise ModelError(f"{what} are tensors {list(found)[:8]}, and there are {len(tensors)}")
            return found

        operators = []
        for position, o in enumerate(self.each(table, "Operators")):
            index = int(o.OpcodeIndex())
            if index >= len(codes):
                raise ModelError(f"operator {position} is of kind {index}, and the file names {len(codes)}")
            name, custom, version = codes[index]
            what = f"of operator {position} ({printable(name)})"
            inputs = indices(self.integers(o, "Inputs"), f"the operands {what}", ABSENT)
            outputs = indices(self.integers(o, "Outputs"), f"the results {what}")
            label = next((tensors[k].name for k in outputs if tensors[k].name), f"{name}_{position}")
            options = options_of(self.package, o, self.spend)
            own = bytes(self.numbers(o, "CustomOptions").astype(np.uint8))
            inner = indices(self.integers(o, "Intermediates"), f"the intermediates {what}")
            operators.append(Operator(name, printable(label), inputs, outputs, options, version, custom, own, inner))
        ends = [indices(self.integers(table, w), f"the network's {w.lower()}") for w in ("Inputs", "Outputs")]
        return Subgraph(self.text(table.Name()), tensors, ends[0], ends[1], tuple(operators))

    def tensor(self, table: Any, position: int, buffers: list[np.ndarray]) -> Tensor:
        name = self.text(table.Name()) or f"tensor_{position}"
        shown = f"tensor '{printable(name)}'"
        kind = self.types.get(int(table.Type()), f"number {table.Type()}")
        dtype = _TYPES.get(kind, kind.lower())
        shape = self.integers(table, "Shape")
        signature = self.integers(table, "ShapeSignature") or shape
        if any(d < 0 for d in shape) or prod(shape) > MAX_ELEMENTS or len(signature) != len(shape):
            raise ModelError(f"{shown} has the impossible shape {list(shape)}", hint="the file is damaged")
        index = int(table.Buffer())
        if index >= len(buffers):
            raise ModelError(f"{shown} lies in buffer {index}, and there are {len(buffers)}")
        data = None
        if buffers[index].size and dtype in (*DTYPES, "i4"):
            sparsity = table.Sparsity()
            raw = buffers[index]
            data = densified(self, shown, sparsity, raw, dtype, shape) if sparsity else _array(shown, raw, dtype, shape)
        scales = self.quantization(table.Quantization(), shown, shape)
        return Tensor(name, "i8" if dtype == "i4" else dtype, shape, signature, scales, data, bool(table.IsVariable()))

    def quantization(self, table: Any, shown: str, shape: tuple[int, ...]) -> Quantization | None:
        if table is None:
            return None
        scales = self.numbers(table, "Scale").astype(np.float32)
        if not scales.size:
            return None
        zeros = self.numbers(table, "ZeroPoint").astype(np.int64)
        if not zeros.size:
            zeros = np.zeros(scales.size, np.int64)
        # Some files give a bias the dimension of the weights; where there is one dimension, it is meant.
        axis = int(table.QuantizedDimension()) if len(shape) > 1 else 0
        if zeros.size != scales.size:
            zeros = np.broadcast_to(zeros, scales.shape)  # one for all, else ValueError: damaged
        if not (np.isfinite(scales).all() and (scales >= 0).all()) or (np.abs(zeros) > 2**31).any():
            raise ModelError(f"{shown} has a scale or a zero point that is no sensible number")
        return Quantization(scales, zeros, axis)


def _array(shown: str, raw: np.ndarray, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    """The elements of a tensor from its bytes; 4-bit integers lie two in a byte, the lower half first."""
    count = prod(shape)
    if dtype == "i4":
        expected = -(-count // 2)
    else:
        expected = count * DTYPES[dtype].itemsize
    if raw.size != expected:
        raise ModelError(f"{shown} of shape {list(shape)} has {raw.size} bytes of data instead of {expected}")
    if dtype == "i4":
        halves = np.stack([raw << 4, raw & 0xF0], axis=1).reshape(-1)[:count].view(np.int8)
        return np.asarray(halves >> 4).reshape(shape)
    return np.frombuffer(raw.tobytes(), DTYPES[dtype].newbyteorder("<")).astype(DTYPES[dtype]).reshape(shape)


def _names(enumeration: Any) -> dict[int, str]:
    return {number: name for name, number in vars(enumeration).items() if isinstance(number, int)}
