"""Element types and tensor types."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import ml_dtypes
import numpy as np

#: Name of every element type, with the numpy type that holds it.
DTYPES: dict[str, np.dtype] = {
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "i8": np.dtype(np.int8),
    "i16": np.dtype(np.int16),
    "i32": np.dtype(np.int32),
    "i64": np.dtype(np.int64),
    "u8": np.dtype(np.uint8),
    "u16": np.dtype(np.uint16),
    "u32": np.dtype(np.uint32),
    "u64": np.dtype(np.uint64),
    "bool": np.dtype(np.bool_),
}
_NAMES = {dtype: name for name, dtype in DTYPES.items()}
FLOATS = frozenset({"f16", "bf16", "f32", "f64"})


def dtype_name(dtype: np.dtype) -> str:
    """Name of a numpy element type; raises KeyError for one edgec does not hold."""
    return _NAMES[np.dtype(dtype)]


def is_float(dtype: str) -> bool:
    return dtype in FLOATS


@dataclass(frozen=True, slots=True)
class Type:
    """Element type and shape of a tensor; the shape is in elements, outermost dimension first."""

    dtype: str
    shape: tuple[int, ...]

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def elements(self) -> int:
        return prod(self.shape)

    @property
    def bytes(self) -> int:
        return self.elements * DTYPES[self.dtype].itemsize

    def __str__(self) -> str:
        return f"{self.dtype}[{','.join(map(str, self.shape))}]"
