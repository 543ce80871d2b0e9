"""Element types."""

from __future__ import annotations

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
    "f8e4m3fn": np.dtype(ml_dtypes.float8_e4m3fn),
    "f8e4m3fnuz": np.dtype(ml_dtypes.float8_e4m3fnuz),
    "f8e5m2": np.dtype(ml_dtypes.float8_e5m2),
    "f8e5m2fnuz": np.dtype(ml_dtypes.float8_e5m2fnuz),
    "f8e8m0": np.dtype(ml_dtypes.float8_e8m0fnu),
    "f4e2m1": np.dtype(ml_dtypes.float4_e2m1fn),
    "i4": np.dtype(ml_dtypes.int4),
    "u4": np.dtype(ml_dtypes.uint4),
    "i2": np.dtype(ml_dtypes.int2),
    "u2": np.dtype(ml_dtypes.uint2),
}
#: The byte that no computation leaves behind: a NaN in every float type.
POISON = 0xFF
_NAMES = {dtype: name for name, dtype in DTYPES.items()}
MINIFLOATS = frozenset({"f8e4m3fn", "f8e4m3fnuz", "f8e5m2", "f8e5m2fnuz", "f8e8m0", "f4e2m1"})
FLOATS = frozenset({"f16", "bf16", "f32", "f64"}) | MINIFLOATS
#: Types that are moved, compared with nothing, and cast: what is computed with them is computed in a wider type.
STORED = MINIFLOATS | {"i4", "u4", "i2", "u2"}
#: Types whose elements lie in memory as codes, narrower than what C computes with.
CODED = STORED | {"f16", "bf16"}


def dtype_name(dtype: np.dtype) -> str:
    """Name of a numpy element type; raises KeyError for one edgec does not hold."""
    return _NAMES[np.dtype(dtype)]


def bits(dtype: str) -> int:
    """Number of significant bits of an element; a boolean is a byte."""
    narrow = {"f4e2m1": 4, "i4": 4, "u4": 4, "i2": 2, "u2": 2}
    return narrow.get(dtype, DTYPES[dtype].itemsize * 8)


def ends(dtype: str) -> tuple[int, int] | tuple[float, float]:
    """The least and the greatest finite number of a type."""
    if dtype in FLOATS:
        greatest = float(ml_dtypes.finfo(DTYPES[dtype]).max)  # type: ignore[no-untyped-call]
        return -greatest, greatest
    limits = ml_dtypes.iinfo(DTYPES[dtype])  # type: ignore[no-untyped-call]
    return int(limits.min), int(limits.max)


def converted(array: np.ndarray, dtype: str) -> np.ndarray:
    """Elements in another type, by the conversions of ``ec_scalar.h``: integers of fewer than 8 bits keep the low bits
    of the whole number, e8m0 rounds to the nearest. Versions of ml_dtypes differ in both."""
    kind = DTYPES[dtype]
    with np.errstate(all="ignore"):
        if dtype in CODED and dtype_name(array.dtype) in CODED:  # f32 holds every value of both
            array = array.astype(np.float32)
        if dtype == "f8e8m0":
            pattern = array.astype(np.float32).view(np.uint32)
            code = np.where(pattern < 0x800000, pattern >= 0x600000, (pattern + 0x400000) >> 23)
            return np.where((pattern == 0) | (pattern >= 0x7F800000), 0xFF, code).astype(np.uint8).view(kind)
        if dtype in STORED - FLOATS:
            return (array.astype(np.int64) & (1 << bits(dtype)) - 1).astype(np.uint8).view(kind)
        return array.astype(kind)


def plain(array: np.ndarray) -> np.ndarray:
    """The same bits in a type of numpy's own: its files and generated modules know no other."""
    known = array.dtype.type.__module__ == "numpy"
    return array if known else array.view(np.dtype(f"u{array.dtype.itemsize}"))


def is_float(dtype: str) -> bool:
    return dtype in FLOATS


def neutral(combine: str, dtype: str) -> float | int | bool:
    """The value a reduction over nothing has."""
    kind = DTYPES[dtype]
    if combine in ("add", "or"):
        return 0
    if combine in ("mul", "and"):
        return 1
    if dtype == "bool":
        return combine == "min"
    if dtype in FLOATS:
        return -np.inf if combine == "max" else np.inf
    limits = np.iinfo(kind)
    return int(limits.min if combine == "max" else limits.max)
