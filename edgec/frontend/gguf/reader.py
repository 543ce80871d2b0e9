"""Reading a GGUF file that nobody vouches for.

Every count and length is held against the bytes that are left before anything of that size is made; weights are mapped
and not read. The layout: https://github.com/ggml-org/ggml, page gguf.
"""

from __future__ import annotations

import mmap
import struct
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any, Union

import numpy as np

from edgec.errors import ModelError, UsageError
from edgec.frontend.gguf.blocks import FORMATS, OTHERS, Blocks, Format
from edgec.text import identifier, printable

MAGIC = b"GGUF"
VERSIONS = (2, 3)
#: More dimensions than a tensor may have, more tensors and keys than a model does.
MOST_DIMENSIONS, MOST_TENSORS, MOST_KEYS = 4, 1 << 16, 1 << 16
_LONGEST_NAME = 1 << 16
_SCALARS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}
_STRING, _ARRAY = 8, 9
#: A value of the metadata: a number, a truth value, a text, or an array of numbers or of texts.
Metadata = Union[bool, int, float, str, np.ndarray, tuple[bytes, ...]]


@dataclass(frozen=True)
class GgufTensor:
    """A tensor in the file: ``shape`` in numpy's order, ``start`` bytes from the beginning of the file."""

    name: str
    format: Format
    shape: tuple[int, ...]
    start: int

    @property
    def bytes(self) -> int:
        return prod(self.shape) // self.format.elements * self.format.size


@dataclass(frozen=True)
class GgufModel:
    """A parsed file and where it came from; the weights stay in the file."""

    name: str
    where: str
    path: Path | None
    content: Any = field(repr=False)  # bytes, or the mapped file
    version: int
    metadata: Mapping[str, Metadata] = field(repr=False)
    tensors: Mapping[str, GgufTensor] = field(repr=False)

    @property
    def architecture(self) -> str:
        return self.text("general.architecture")

    def operator_counts(self) -> Counter[str]:
        """Number of tensors of every format: a file of this format has no operators."""
        return Counter(t.format.name for t in self.tensors.values())

    @property
    def weights_bytes(self) -> int:
        return sum(t.bytes for t in self.tensors.values())

    def value(self, key: str, kind: type | tuple[type, ...], default: Any = None) -> Any:
        """A value of the metadata; raises ModelError where it is missing or of another type."""
        found = self.metadata.get(key, default)
        if found is None:
            raise ModelError(f"the file has no '{key}'", where=self.where)
        if not isinstance(found, kind):
            raise ModelError(f"'{key}' is {printable(str(found))[:80]}, which is no such value", where=self.where)
        return found

    def text(self, key: str) -> str:
        return str(self.value(key, str))

    def integer(self, key: str, default: int | None = None) -> int:
        return int(self.value(key, int, default))

    def number(self, key: str, default: float | None = None) -> float:
        return float(self.value(key, (int, float), default))

    def tensor(self, name: str) -> np.ndarray | Blocks:
        """The content of a tensor: fp32 [rows, columns], or codes with their scales."""
        t = self.tensors[name]
        columns = t.shape[-1]
        raw = np.frombuffer(self.content, np.uint8, t.bytes, t.start)
        read = t.format.read(raw.reshape(-1, columns // t.format.elements, t.format.size))
        return read.reshape(t.shape) if isinstance(read, np.ndarray) else read


def is_gguf(content: bytes) -> bool:
    return content[:4] == MAGIC


def parse(content: bytes | None, where: str = "model", path: Path | None = None) -> GgufModel:
    """The records of a file; raises ModelError where it is damaged or not of this format."""
    if content is None:
        assert path is not None
        with path.open("rb") as file:
            mapped: Any = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    else:
        mapped = content
    try:
        return _Reader(mapped).model(identifier(path.stem) if path is not None else "lm", where, path)
    except ModelError as error:
        error.where = error.where or where
        raise


class _Reader:
    """A position in the file; every step is held against its end."""

    def __init__(self, content: Any) -> None:
        self.content, self.at, self.end = content, 0, len(content)

    def take(self, count: int) -> int:
        """The position of ``count`` bytes, which are passed over."""
        if count > self.end - self.at:
            raise ModelError(
                f"the file ends after {self.end} bytes, in the middle of its description",
                hint="copy or download it again",
            )
        start, self.at = self.at, self.at + count
        return start

    def number(self, kind: str) -> Any:
        (found,) = struct.unpack_from(kind, self.content, self.take(struct.calcsize(kind)))
        return found

    def raw(self, most: int) -> bytes:
        length = self.number("<Q")
        if length > most:
            raise ModelError(f"a text of {length} bytes is longer than the file may have")
        start = self.take(length)
        return bytes(self.content[start : start + length])

    def text(self, most: int) -> str:
        try:
            return self.raw(most).decode("utf-8")
        except UnicodeDecodeError:
            raise ModelError("a name is not UTF-8") from None

    def value(self, kind: int) -> Metadata:
        if kind in _SCALARS:
            return self.number(_SCALARS[kind])  # type: ignore[no-any-return]
        if kind == _STRING:
            return self.raw(self.end).decode("utf-8", "replace")
        if kind != _ARRAY:
            raise ModelError(f"a value is of type {kind}, which GGUF does not have")
        kind, count = self.number("<I"), self.number("<Q")
        if kind in _SCALARS:
            dtype = np.dtype("?" if kind == 7 else _SCALARS[kind])
            return np.frombuffer(self.content, dtype, count, self.take(count * dtype.itemsize))
        if kind != _STRING or count > (self.end - self.at) // 8:
            raise ModelError(f"an array of {count} values of type {kind} does not fit the file")
        return tuple(self.raw(self.end) for _ in range(count))

    def model(self, name: str, where: str, path: Path | None) -> GgufModel:
        if bytes(self.content[:4]) != MAGIC:
            raise ModelError("this is no GGUF file")
        self.take(4)
        version = self.number("<I")
        if version not in VERSIONS:
            raise ModelError(f"the file is of version {version}; 2 and 3 are supported", hint="convert it again")
        tensors, keys = self.number("<Q"), self.number("<Q")
        if tensors > MOST_TENSORS or keys > MOST_KEYS:
            raise ModelError(f"the file claims {tensors} tensors and {keys} keys")
        metadata: dict[str, Metadata] = {}
        for _ in range(keys):
            key = self.text(_LONGEST_NAME)
            if key in metadata:
                raise ModelError(f"the key '{printable(key)}' is given twice")
            metadata[key] = self.value(self.number("<I"))
        described = [self.described() for _ in range(tensors)]
        alignment = metadata.get("general.alignment", 32)
        if not isinstance(alignment, int) or not 0 < alignment <= 1 << 20 or alignment & (alignment - 1):
            raise ModelError("the alignment of tensors is no power of two up to 1 MiB")
        data = -(-self.at // alignment) * alignment
        found = {}
        for name_of, format, shape, offset in described:
            tensor = GgufTensor(name_of, format, shape, data + offset)
            if tensor.start + tensor.bytes > self.end:
                raise ModelError(
                    f"tensor '{printable(name_of)}' ends at byte {tensor.start + tensor.bytes}, the file at {self.end}",
                    hint="copy or download it again",
                )
            if name_of in found:
                raise ModelError(f"two tensors are named '{printable(name_of)}'")
            found[name_of] = tensor
        return GgufModel(name, where, path, self.content, version, metadata, found)

    def described(self) -> tuple[str, Format, tuple[int, ...], int]:
        """Name, format, shape and place of a tensor."""
        name = self.text(_LONGEST_NAME)
        rank = self.number("<I")
        if not 1 <= rank <= MOST_DIMENSIONS:
            raise ModelError(f"tensor '{printable(name)}' has {rank} dimensions")
        shape = tuple(self.number("<Q") for _ in range(rank))[::-1]
        number, offset = self.number("<I"), self.number("<Q")
        if number not in FORMATS:
            known = ", ".join(f.name for f in FORMATS.values())
            raise ModelError(
                f"tensor '{printable(name)}' is of format {OTHERS.get(number, number)}, which is not supported",
                hint=f"quantize the model to one of {known}",
            )
        format = FORMATS[number]
        if min(shape) < 1 or shape[-1] % format.elements:
            raise ModelError(f"tensor '{printable(name)}' cannot be {format.name}{list(shape)}")
        return name, format, shape, offset


def read(path: Path, where: str) -> GgufModel:
    """`parse` of a file; raises UsageError where it cannot be opened."""
    try:
        return parse(None, where, path)
    except (OSError, ValueError) as error:
        raise UsageError(f"cannot read the model: {error}", where=where) from None
