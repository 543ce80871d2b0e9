"""Reading safetensors files that nobody vouches for: every offset is held against the file, weights are mapped.

The layout: 8 bytes with the length of a description in JSON, the description, then the bytes of all tensors
(https://github.com/huggingface/safetensors).
"""

from __future__ import annotations

import mmap
import struct
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from edgec.errors import ModelError, UsageError
from edgec.frontend.hugging.document import MOST_BYTES, Document, parsed
from edgec.ir.types import DTYPES
from edgec.text import listed, printable
from edgec.untrusted import reason, regular

#: Element types that are taken, by their names in the file.
TYPES = {"F64": "f64", "F32": "f32", "F16": "f16", "BF16": "bf16"}
_MOST_TENSORS, _MOST_DIMENSIONS = 1 << 16, 8


@dataclass(frozen=True)
class Stored:
    """A tensor of a file: its bytes are ``content[start:start + size]``."""

    name: str
    kind: str
    shape: tuple[int, ...]
    content: Any = field(repr=False)
    start: int
    size: int

    def array(self) -> np.ndarray:
        """The elements, as the file has them; raises ModelError for element types that no weight has."""
        if self.kind not in TYPES:
            raise ModelError(
                f"tensor '{printable(self.name)}' is of type {printable(self.kind)}, which is not supported",
                hint=f"weights may be {listed(TYPES)}; save the model in one of these",
            )
        raw = np.frombuffer(self.content, np.uint8, self.size, self.start)
        return raw.view(DTYPES[TYPES[self.kind]]).reshape(self.shape)


def read(path: Path) -> dict[str, Stored]:
    """The tensors of a file by name; raises ModelError for a damaged one, UsageError for one that cannot be read."""
    where = printable(str(path))
    try:
        with regular(path).open("rb") as file:
            content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except (OSError, ValueError) as error:
        raise UsageError(f"cannot read the weights: {reason(error)}", where=where) from None
    return tensors_of(content, where)


def tensors_of(content: Any, where: str) -> dict[str, Stored]:
    """`read` of bytes."""
    if len(content) < 8:
        raise ModelError("the file is too short for safetensors", hint="copy or download it again", where=where)
    (length,) = struct.unpack("<Q", content[:8])
    if length > min(MOST_BYTES, len(content) - 8):
        raise ModelError(
            f"a description of {length} bytes does not fit a file of {len(content)}",
            hint="is it safetensors? copy or download it again",
            where=where,
        )
    described = parsed(bytes(content[8 : 8 + length]), where)
    names = [name for name in described.values if name != "__metadata__"]
    if len(names) > _MOST_TENSORS:
        raise ModelError(f"the file claims {len(names)} tensors", where=where)
    return {name: _stored(name, described, content, 8 + length) for name in names}


def _stored(name: str, described: Document, content: Any, data: int) -> Stored:
    about = described.part(name)
    shape, place = about.value("shape", list), about.value("data_offsets", list)
    is_whole = all(type(n) is int and n >= 0 for n in (*shape, *place))
    if not is_whole or len(place) != 2 or len(shape) > _MOST_DIMENSIONS:
        raise ModelError(f"tensor '{printable(name)}' has no shape and place", where=described.where)
    kind, (start, end) = about.text("dtype"), place
    if not start <= end <= len(content) - data:
        raise ModelError(
            f"tensor '{printable(name)}' is said to lie at bytes {start} to {end} of {len(content) - data}",
            hint="copy or download it again",
            where=described.where,
        )
    if kind in TYPES and prod(shape) * DTYPES[TYPES[kind]].itemsize != end - start:
        raise ModelError(
            f"tensor '{printable(name)}' of {printable(kind)}{shape} does not have {end - start} bytes",
            where=described.where,
        )
    return Stored(name, kind, tuple(shape), content, data + start, end - start)
