"""TensorFlow Lite files of a few operators, written with the schema that ai-edge-litert ships."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("tflite", reason="the package that reads TensorFlow Lite files is not installed")
schema = pytest.importorskip("ai_edge_litert.schema_py_generated", reason="ai-edge-litert is not installed")
flatbuffers = pytest.importorskip("flatbuffers")

TYPES = {
    "f32": (schema.TensorType.FLOAT32, np.float32),
    "f16": (schema.TensorType.FLOAT16, np.float16),
    "complex": (schema.TensorType.COMPLEX64, np.complex64),
    "i8": (schema.TensorType.INT8, np.int8),
    "u8": (schema.TensorType.UINT8, np.uint8),
    "i16": (schema.TensorType.INT16, np.int16),
    "i32": (schema.TensorType.INT32, np.int32),
    "i64": (schema.TensorType.INT64, np.int64),
    "bool": (schema.TensorType.BOOL, np.bool_),
    "resource": (schema.TensorType.RESOURCE, np.int32),
}


class Subgraph:
    """One subgraph under construction; tensors are numbers."""

    def __init__(self, file: File) -> None:
        self.file = file
        self.proto = schema.SubGraphT()
        self.proto.tensors, self.proto.operators, self.proto.name = [], [], b"main"
        self.proto.inputs, self.proto.outputs = [], []

    def tensor(
        self, dtype: str, shape: tuple[int, ...], name: str = "", *, data: Any = None, scale: Any = None, zero: Any = 0,
        axis: int = 0, variable: bool = False,
    ) -> int:  # fmt: skip
        t = schema.TensorT()
        code, numpy_type = TYPES[dtype]
        t.type, t.shape, t.isVariable = code, list(shape), variable
        t.name = (name or f"t{len(self.proto.tensors)}").encode()
        if data is not None:
            t.buffer = self.file.buffer(np.asarray(data, numpy_type).reshape(shape).tobytes())
        if scale is not None:
            scales = np.atleast_1d(np.asarray(scale, np.float32))
            t.quantization = schema.QuantizationParametersT()
            t.quantization.scale = scales
            t.quantization.zeroPoint = np.broadcast_to(np.asarray(zero, np.int64), scales.shape).copy()
            t.quantization.quantizedDimension = axis
        self.proto.tensors.append(t)
        return len(self.proto.tensors) - 1

    def input(self, dtype: str, shape: tuple[int, ...], name: str = "", **more: Any) -> int:
        index = self.tensor(dtype, shape, name or f"x{len(self.proto.inputs)}", **more)
        self.proto.inputs.append(index)
        return index

    def const(self, values: Any, dtype: str = "i32", **more: Any) -> int:
        array = np.asarray(values, TYPES[dtype][1])
        return self.tensor(dtype, array.shape, data=array, **more)

    def op(self, name: str, inputs: list[int], outputs: list[int], options: Any = None, custom: bytes = b"") -> None:
        o = schema.OperatorT()
        o.opcodeIndex, o.inputs, o.outputs = self.file.code(name), inputs, outputs
        if options is not None:
            o.builtinOptions = options
            o.builtinOptionsType = getattr(schema.BuiltinOptions, type(options).__name__[:-1])
        if custom:
            o.customOptions = list(custom)
        self.proto.operators.append(o)

    def output(self, *indices: int) -> None:
        self.proto.outputs.extend(indices)


class File:
    """A file under construction; ``main`` is the network."""

    def __init__(self) -> None:
        self.buffers = [b""]
        self.codes: list[str] = []
        self.main = Subgraph(self)
        self.subgraphs = [self.main]

    def buffer(self, content: bytes) -> int:
        self.buffers.append(content)
        return len(self.buffers) - 1

    def subgraph(self) -> Subgraph:
        self.subgraphs.append(Subgraph(self))
        return self.subgraphs[-1]

    def code(self, name: str) -> int:
        if name not in self.codes:
            self.codes.append(name)
        return self.codes.index(name)

    def content(self, version: int = 3) -> bytes:
        model = schema.ModelT()
        model.version, model.description = version, b"made by a test"
        model.subgraphs = [g.proto for g in self.subgraphs]
        model.buffers, model.operatorCodes = [], []
        for data in self.buffers:
            b = schema.BufferT()
            b.data = np.frombuffer(data, np.uint8) if data else None
            model.buffers.append(b)
        for name in self.codes:
            c = schema.OperatorCodeT()
            number = getattr(schema.BuiltinOperator, name, schema.BuiltinOperator.CUSTOM)
            c.builtinCode, c.deprecatedBuiltinCode, c.version = (
                number,
                min(number, 127),
                2 if name == "BROADCAST_TO" else 1,
            )
            c.customCode = name.encode() if number == schema.BuiltinOperator.CUSTOM else None
            model.operatorCodes.append(c)
        builder = flatbuffers.Builder(1024)
        builder.Finish(model.Pack(builder), b"TFL3")
        return bytes(builder.Output())


def options(kind: str, **fields: Any) -> Any:
    """``options("Conv2D", strideW=2)``: the table Conv2DOptions."""
    found = getattr(schema, f"{kind}OptionsT")()
    for name, value in fields.items():
        assert hasattr(found, name), f"{kind}Options has no {name}"
        setattr(found, name, value)
    return found


def compressed_rows(starts: list[int], columns: list[int]) -> Any:
    """The sparsity of a matrix of four rows."""
    rows, inner = schema.DimensionMetadataT(), schema.DimensionMetadataT()
    rows.format, rows.denseSize = schema.DimensionType.DENSE, 4
    inner.format = schema.DimensionType.SPARSE_CSR
    inner.arraySegmentsType = inner.arrayIndicesType = schema.SparseIndexVector.Int32Vector
    inner.arraySegments, inner.arrayIndices = schema.Int32VectorT(), schema.Int32VectorT()
    inner.arraySegments.values, inner.arrayIndices.values = starts, columns
    found = schema.SparsityParametersT()
    found.traversalOrder, found.dimMetadata = [0, 1], [rows, inner]
    return found
