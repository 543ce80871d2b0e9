"""Weights in files beside a model: found inside its own folder only, and read no further than the tensor needs."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from onnx import TensorProto, helper

from edgec.errors import ModelError
from edgec.text import printable

#: Tensors of at least so many bytes are mapped.
MAPPED_BYTES = 1 << 20


@dataclass(frozen=True)
class Folder:
    """The folder of a model; ``linked`` is the one that the model is linked from, which may be another.

    Hugging Face's cache keeps a snapshot as links into a folder of contents: such a link is no way out.
    """

    path: Path
    linked: Path

    @staticmethod
    def of(model: Path) -> Folder:
        """Raises OSError where the links of the path do not end."""
        return Folder(model.parent.resolve(), model.resolve(strict=True).parent)

    def file(self, location: str, name: str) -> Path:
        """The file of a tensor called ``name``. Raises ModelError for one that is missing or elsewhere."""
        shown = printable(location)
        if not location or "\0" in location or Path(location).is_absolute() or ".." in Path(location).parts:
            raise ModelError(f"{name} names the file '{shown}', which is not inside the model's folder")
        try:
            path = (self.path / location).resolve()
            is_inside = any(path.is_relative_to(root) for root in (self.path, self.linked))
            if is_inside and path.is_file():
                return path
        except (OSError, RuntimeError, ValueError) as error:  # names that are too long, links in a circle
            said = getattr(error, "strerror", None) or printable(str(error))
            raise ModelError(f"{name} names the file '{shown}', which cannot be opened: {said}") from None
        if not is_inside:
            raise ModelError(f"{name} names the file '{shown}', a link that leads out of the model's folder")
        raise ModelError(f"{name} lies in '{shown}', which is missing", hint="put it beside the .onnx file")


def locations(message: Any) -> set[str]:
    """The names of files that tensors of a model, or of a part of it, lie in."""
    if isinstance(message, TensorProto):
        return {e.value for e in message.external_data if e.key == "location"}
    found: set[str] = set()
    for field, value in message.ListFields():
        if field.cpp_type == field.CPPTYPE_MESSAGE:
            for inner in value if isinstance(value, Iterable) else (value,):
                found |= locations(inner)
    return found


def mapped(proto: TensorProto, folder: Folder | None, name: str) -> np.ndarray | None:
    """The array of a large tensor as its file is mapped, which takes no memory; None for one that has to be read."""
    dtype = helper.tensor_dtype_to_np_dtype(proto.data_type)
    size = prod(proto.dims) * dtype.itemsize
    if size < MAPPED_BYTES or dtype.isbuiltin != 1 or sys.byteorder != "little":
        return None
    path, offset, length = _place(proto, folder, name)
    if offset % dtype.itemsize or length != size:
        return None
    return np.asarray(np.memmap(path, dtype, "r", offset, tuple(proto.dims)))


def external_bytes(proto: TensorProto, folder: Folder | None, name: str) -> bytes:
    """The bytes of a tensor in a file beside the model; nothing outside the model's folder is ever opened."""
    path, offset, length = _place(proto, folder, name)
    most = prod(proto.dims) * helper.tensor_dtype_to_np_dtype(proto.data_type).itemsize
    with path.open("rb") as file:
        file.seek(offset)
        return bytes(file.read(min(length, most + 1)))  # one more than it needs is enough to be refused


def _place(proto: TensorProto, folder: Folder | None, name: str) -> tuple[Path, int, int]:
    """The file, and the place in it, of a tensor. Raises ModelError for one that is not there."""
    entries = {e.key: e.value for e in proto.external_data}
    location = entries.get("location", "")
    if folder is None:
        raise ModelError(
            f"{name} lies in another file, but the model came without a folder",
            hint="pass the path of the .onnx file instead of its contents",
        )
    path = folder.file(location, name)
    if not all(re.fullmatch(r"-?[0-9]{1,20}", entries.get(key, "0")) for key in ("offset", "length")):
        raise ModelError(f"{name} has an offset or a length that is no number", hint="the file is damaged")
    offset, length = int(entries.get("offset", "0")), int(entries.get("length", "-1"))
    size = path.stat().st_size
    if length == -1:
        length = size - offset
    if offset < 0 or length < 0 or offset + length > size:
        raise ModelError(
            f"{name} lies at bytes {offset} to {offset + length} of '{printable(location)}', which has only {size}",
            hint="the file is cut off, or belongs to another model",
        )
    return path, offset, length
