"""Reading an ONNX model that nobody vouches for: its file, its tensors, the files its weights lie in."""

from __future__ import annotations

import mmap
from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from onnx import TensorProto, numpy_helper

from edgec.errors import ModelError, UsageError
from edgec.frontend.onnx.external import Folder, external_bytes, mapped
from edgec.frontend.values import MAX_ELEMENTS
from edgec.ir.types import dtype_name, is_worth_computing
from edgec.text import identifier, printable
from edgec.untrusted import reason, regular

Source = str | Path | bytes | onnx.ModelProto

OLDEST_OPSET = 1
#: Below this, only operators are taken that meant the same then.
FIRST_COMPLETE_OPSET = 6
NEWEST_OPSET: int = onnx.defs.onnx_opset_version()

#: Bytes from which a file is mapped.
_MAPPED_BYTES = 1 << 20
#: How other formats begin, and what to do about them.
_FOREIGN = (
    (4, b"TFL3", "this is a TensorFlow Lite model; edgec.load and edgec.build read it"),
    (0, b"PK\x03\x04", "this is a zip archive (PyTorch saves so); export it with torch.onnx.export"),
    (0, b"\x89HDF", "this is an HDF5 file (Keras saves so); convert it with tf2onnx"),
    (4, b"ORTM", "this is an onnxruntime (.ort) model; use the .onnx file it was made from"),
    (0, b"\x1f\x8b", "this is a gzip archive; unpack it first"),
    (0, b"version https://git-lfs", "this is a git-lfs pointer; fetch the file with git lfs pull"),
)


@dataclass(frozen=True)
class Part:
    """The model that another one is a part of.

    The first part knows the names of the networks of all ``others``, and why nodes of the ``whole`` are ``left`` out.
    """

    whole: Model
    others: tuple[str, ...] = ()
    left: str = ""
    fixed: tuple[tuple[str, int], ...] = ()  # dimensions by name, in any of the parts


@dataclass(frozen=True)
class Front:
    """Nodes in front of a model: the input that they compute, and nodes whose results are best kept in memory.

    Their names, and no others, begin with ``prefix``. ``dims`` are the dimensions that the input alone had.

    A result that many elements are computed of is one: pixels of rows that are summed already.
    """

    input: str
    kept: tuple[str, ...]
    prefix: str
    dims: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Model:
    """A parsed model, where it came from, and the folder its external weights may lie in (None: nowhere).

    ``path`` is the file itself, where it came from one; ``front`` is what
    `edgec.frontend.preprocessing` put in front of it.
    """

    proto: onnx.ModelProto
    name: str
    where: str
    folder: Folder | None
    path: Path | None = None
    part: Part | None = None
    front: Front | None = None

    @property
    def opsets(self) -> dict[str, int]:
        """Version of every operator set the model imports; the default domain is ''."""
        return opset_versions(self.proto.opset_import)


def opset_versions(imports: object) -> dict[str, int]:
    found = {domain_name(o.domain): int(o.version) for o in imports}  # type: ignore[attr-defined]
    for domain, version in found.items():
        if not -(2**31) <= version < 2**31:
            raise ModelError(f"operator set '{printable(domain or 'ai.onnx')}' has no version {version}")
    return found


def domain_name(domain: str) -> str:
    """'ai.onnx' is another spelling of the default domain."""
    return "" if domain == "ai.onnx" else domain


def read(source: Source) -> Model:
    """Parse a file, its bytes, or take a ModelProto as it is.

    Raises UsageError when the file is not there, ModelError when it is no ONNX model of an operator set that
    is known.
    """
    if isinstance(source, onnx.ModelProto):
        model = Model(source, identifier(source.graph.name), "model", None)
    elif isinstance(source, bytes):
        model = _parse(source, "model", None)
    elif not isinstance(source, (str, Path)):
        hint = "give the path of a file, its bytes, or a ModelProto"
        raise UsageError(f"a model cannot be an object of type {type(source).__name__}", hint=hint)
    else:
        path = Path(source)
        try:
            content, folder = _content(regular(path)), Folder.of(path)
        except (OSError, ValueError) as error:  # a ValueError: a path that cannot be one
            raise UsageError(f"cannot read the model: {reason(error)}", where=printable(str(source))) from None
        model = replace(_parse(content, printable(str(source)), path), folder=folder)
    _check_header(model)
    return model


def _content(path: Path) -> bytes | memoryview:
    """The bytes of a file; those of a large one as it is mapped, so that parsing makes the only copy."""
    if path.stat().st_size < _MAPPED_BYTES:
        return path.read_bytes()
    with path.open("rb") as file:
        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))


def _parse(content: bytes | memoryview, where: str, path: Path | None) -> Model:
    for start, magic, hint in _FOREIGN:
        if content[start : start + len(magic)] == magic:
            raise ModelError("not an ONNX file", hint=hint, where=where)
    if not content:
        raise ModelError("the file is empty", hint="copy or download it again", where=where)
    proto = onnx.ModelProto()
    try:
        proto.ParseFromString(content)
    except DecodeError:
        raise ModelError(
            "not an ONNX file, or one that was cut off", hint="copy or download it again", where=where
        ) from None
    _check_text(proto, where)
    name = identifier(path.stem if path else proto.graph.name)
    return Model(proto, name, where, None, path)


def _check_header(model: Model) -> None:
    proto = model.proto
    if not proto.HasField("graph") or not proto.opset_import:
        raise ModelError(
            "the file holds no ONNX graph", hint="is it cut off, or another protobuf file?", where=model.where
        )
    if not 0 <= proto.ir_version < 2**31:
        raise ModelError(
            f"there is no version {proto.ir_version} of ONNX", hint="the file is damaged", where=model.where
        )
    if not proto.graph.node or not proto.graph.output:
        missing = "nodes" if not proto.graph.node else "outputs"
        raise ModelError(f"the graph has no {missing}", hint="export the model again", where=model.where)
    version = model.opsets.get("")
    if version is not None and version > NEWEST_OPSET:
        raise ModelError(
            f"the model uses operator set {version}, newer than {NEWEST_OPSET}, the newest one known here",
            hint=f"export it with opset_version={NEWEST_OPSET} or less, or install a newer onnx package",
            where=model.where,
        )
    if version is not None and version < OLDEST_OPSET:
        raise ModelError(
            f"the model uses operator set {version}; {OLDEST_OPSET} is the oldest that is supported",
            hint="upgrade it with onnx.version_converter.convert_version(model, 17)",
            where=model.where,
        )


def _check_text(message: Any, where: str) -> None:
    """Names that are no UTF-8 come out of protobuf as bytes: nothing later expects them."""
    if isinstance(message, TensorProto):  # its fields are not listed, for that would copy the weights
        texts: list[Any] = [message.name, *(x for e in message.external_data for x in (e.key, e.value))]
        if any(isinstance(t, bytes) for t in texts):
            raise ModelError("a tensor's name is no text", hint="the file is damaged", where=where)
        return
    for field, value in message.ListFields():
        if field.cpp_type == field.CPPTYPE_MESSAGE:
            for inner in value if isinstance(value, Iterable) else (value,):
                _check_text(inner, where)
        elif field.type == field.TYPE_STRING:
            for text in (value,) if isinstance(value, str | bytes) else value:
                if isinstance(text, bytes):
                    raise ModelError(f"a {field.name} is no text", hint="the file is damaged", where=where)


def metadata_of(model: Model) -> dict[str, str]:
    proto = model.proto
    found = {printable(p.key): printable(p.value, 1000) for p in proto.metadata_props}
    if proto.producer_name:
        found["producer"] = printable(f"{proto.producer_name} {proto.producer_version}".strip())
    found["opset"] = ", ".join(f"{printable(d) or 'ai.onnx'} {v}" for d, v in sorted(model.opsets.items()))
    return found


def element_type(code: int) -> str:
    """edgec's name of an ONNX element type; raises ModelError for one it does not hold."""
    try:
        return dtype_name(onnx.helper.tensor_dtype_to_np_dtype(code))
    except (KeyError, ValueError, TypeError):
        known = TensorProto.DataType.values()
        name = TensorProto.DataType.Name(code).lower() if code in known else f"number {code}"
        raise ModelError(f"element type {name} is not supported", hint="numbers and booleans are") from None


def tensor(proto: TensorProto, folder: Folder | None = None) -> np.ndarray:
    """The array of a tensor.

    Raises ModelError for strings, absurd shapes, and data that is missing or of another size than the shape.
    """
    name = f"tensor '{printable(proto.name)}'"
    if any(d < 0 for d in proto.dims) or prod(proto.dims) > MAX_ELEMENTS:
        raise ModelError(f"{name} has the impossible shape {list(proto.dims)}", hint="the file is damaged")
    if proto.data_type == TensorProto.STRING:
        raise ModelError(f"{name} holds strings, which are not supported")
    element_type(proto.data_type)
    if proto.data_location == TensorProto.EXTERNAL:
        if (large := mapped(proto, folder, name)) is not None:
            return large
        local = TensorProto()
        local.CopyFrom(proto)
        local.raw_data = external_bytes(proto, folder, name)
        local.data_location = TensorProto.DEFAULT
        proto = local
    try:
        return np.asarray(numpy_helper.to_array(proto))
    except (ValueError, TypeError, OverflowError) as error:
        raise ModelError(
            f"{name} of shape {list(proto.dims)} has data of another size or type: {error}",
            hint="the file is damaged",
        ) from None


def dense(proto: onnx.SparseTensorProto) -> np.ndarray:
    """A sparse tensor written out."""
    values, places = tensor(proto.values), tensor(proto.indices)
    if any(d < 0 for d in proto.dims) or not is_worth_computing(max(prod(proto.dims), *proto.dims, 0), values.size):
        raise ModelError(f"sparse tensor has the impossible shape {list(proto.dims)}", hint="the file is damaged")
    result = np.zeros(tuple(proto.dims), values.dtype)
    flat = places if places.ndim == 1 else np.ravel_multi_index(tuple(places.T), tuple(proto.dims))
    if len(flat) != len(values) or (len(flat) and not 0 <= flat.min() <= flat.max() < result.size):
        raise ModelError("sparse tensor has indices outside its shape", hint="the file is damaged")
    result.reshape(-1)[flat] = values
    return result
