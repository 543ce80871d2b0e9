"""Tensors of GGUF as numpy arrays: codes of few bits, and what turns a block of them into numbers.

A value is ``scale * code + base``. Scale and base belong to a group of neighboring codes and are kept as the file has
them: in fp16, or as small integers times the fp16 of a superblock. Nothing is rounded. The layouts are those of ggml
(https://github.com/ggml-org/ggml, MIT License).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import ml_dtypes
import numpy as np


@dataclass(frozen=True)
class Scaled:
    """A number of every group, [rows, superblocks, groups]: ``fine * coarse``, both as stored; ``fine`` may be 1."""

    coarse: np.ndarray  # fp16 [rows, superblocks, 1]
    fine: np.ndarray | None = None  # integers [rows, superblocks, groups of a superblock]

    def value(self) -> np.ndarray:
        """The numbers in fp32: exact, as a product of 11 and 8 bits."""
        coarse: np.ndarray = self.coarse.astype(np.float32)
        return coarse if self.fine is None else np.asarray(coarse * self.fine.astype(np.float32))


@dataclass(frozen=True)
class Blocks:
    """A matrix in blocks: ``codes`` [rows, superblocks, groups, group]."""

    codes: np.ndarray
    scale: Scaled
    base: Scaled | None = None

    def dequantized(self) -> np.ndarray:
        """[rows, columns] in fp32."""
        value: np.ndarray = np.multiply(self.codes, self.scale.value()[..., None], dtype=np.float32)
        if self.base is not None:
            value = value + self.base.value()[..., None]
        return value.reshape(len(value), -1)


@dataclass(frozen=True)
class Format:
    """A type of tensors: ``size`` bytes for ``elements`` neighbors; ``read`` takes [rows, blocks, size] bytes."""

    name: str
    elements: int
    size: int
    read: Callable[[np.ndarray], np.ndarray | Blocks]


def _f16(raw: np.ndarray, start: int) -> np.ndarray:
    """The fp16 at byte ``start`` of every block, [rows, blocks, 1]."""
    return np.ascontiguousarray(raw[:, :, start : start + 2]).view(np.float16)


def _plain(dtype: str | type) -> Callable[[np.ndarray], np.ndarray]:
    def read(raw: np.ndarray) -> np.ndarray:
        values = np.ascontiguousarray(raw).view(dtype)
        return values.reshape(len(raw), -1)

    return read


def _halves(packed: np.ndarray) -> np.ndarray:
    """Nibbles of bytes: the low ones of all, then the high ones."""
    return np.concatenate([packed & 15, packed >> 4], axis=-1)


def _q4_0(raw: np.ndarray) -> Blocks:
    codes = _halves(raw[:, :, 2:]).astype(np.int8) - 8
    return Blocks(codes[:, :, None], Scaled(_f16(raw, 0)))


def _q4_1(raw: np.ndarray) -> Blocks:
    return Blocks(_halves(raw[:, :, 4:])[:, :, None], Scaled(_f16(raw, 0)), Scaled(_f16(raw, 2)))


def _fifth_bits(raw: np.ndarray, start: int) -> np.ndarray:
    """The fifth bit of 32 codes, in its place: bit j of four bytes belongs to code j."""
    return np.unpackbits(raw[:, :, start : start + 4], axis=-1, bitorder="little") << 4


def _q5_0(raw: np.ndarray) -> Blocks:
    codes = (_halves(raw[:, :, 6:]) | _fifth_bits(raw, 2)).astype(np.int8) - 16
    return Blocks(codes[:, :, None], Scaled(_f16(raw, 0)))


def _q5_1(raw: np.ndarray) -> Blocks:
    codes = _halves(raw[:, :, 8:]) | _fifth_bits(raw, 4)
    return Blocks(codes[:, :, None], Scaled(_f16(raw, 0)), Scaled(_f16(raw, 2)))


#: What the codes of IQ4_NL stand for.
_LEVELS = np.array([-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113], np.int8)


def _iq4_nl(raw: np.ndarray) -> Blocks:
    return Blocks(_LEVELS[_halves(raw[:, :, 2:])][:, :, None], Scaled(_f16(raw, 0)))


def _q8_0(raw: np.ndarray) -> Blocks:
    return Blocks(np.ascontiguousarray(raw[:, :, 2:]).view(np.int8)[:, :, None], Scaled(_f16(raw, 0)))


def _q2_k(raw: np.ndarray) -> Blocks:
    """Superblocks of 16 groups of 16: a scale and a minimum of 4 bits each, in one byte."""
    shape, packed = raw.shape[:2], raw[:, :, :16]
    codes = _quarters(raw[:, :, 16:80]).reshape(*shape, 16, 16)
    return Blocks(codes, Scaled(_f16(raw, 80), packed & 15), Scaled(-_f16(raw, 82), packed >> 4))


def _q3_k(raw: np.ndarray) -> Blocks:
    """Superblocks of 16 groups of 16: the third bits of codes lie apart, and scales have 6 bits."""
    shape = raw.shape[:2]
    third = np.unpackbits(raw[:, :, :32, None], axis=-1, bitorder="little").swapaxes(2, 3)
    codes = _quarters(raw[:, :, 32:96]) | third.reshape(*shape, 256) << 2
    packed = raw[:, :, 96:108]
    low, high = _halves(packed[:, :, :8]), packed[:, :, 8:]
    pairs = np.concatenate([high >> shift & 3 for shift in (0, 2, 4, 6)], axis=-1)
    scales = (low | pairs << 4).astype(np.int8) - 32
    return Blocks(codes.reshape(*shape, 16, 16).astype(np.int8) - 4, Scaled(_f16(raw, 108), scales))


def _quarters(packed: np.ndarray) -> np.ndarray:
    """256 codes of two bits: of each 32 bytes the lowest bits first."""
    half = packed.reshape(*packed.shape[:2], 2, 1, 32)
    return np.concatenate([half >> shift & 3 for shift in (0, 2, 4, 6)], axis=3).reshape(*packed.shape[:2], 256)


def _six_bits(packed: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Eight scales and eight minima of 6 bits each, packed into 12 bytes."""
    low, high, rest = packed[:, :, :4], packed[:, :, 4:8], packed[:, :, 8:]
    scales = np.concatenate([low & 63, (rest & 15) | (low >> 6 << 4)], axis=-1)
    return scales, np.concatenate([high & 63, (rest >> 4) | (high >> 6 << 4)], axis=-1)


def _q4_k(raw: np.ndarray) -> Blocks:
    """Superblocks of 8 groups of 32."""
    scales, least = _six_bits(raw[:, :, 4:16])
    codes = _halves(raw[:, :, 16:].reshape(*raw.shape[:2], 4, 32)).reshape(*raw.shape[:2], 8, 32)
    return Blocks(codes, Scaled(_f16(raw, 0), scales), Scaled(-_f16(raw, 2), least))


def _q5_k(raw: np.ndarray) -> Blocks:
    """Superblocks of 8 groups of 32, whose fifth bits lie apart: bit j of a byte belongs to group j."""
    shape = raw.shape[:2]
    scales, least = _six_bits(raw[:, :, 4:16])
    codes = _halves(raw[:, :, 48:].reshape(*shape, 4, 32)).reshape(*shape, 8, 32)
    fifth = np.unpackbits(raw[:, :, 16:48, None], axis=-1, bitorder="little").swapaxes(2, 3)
    return Blocks(codes | fifth << 4, Scaled(_f16(raw, 0), scales), Scaled(-_f16(raw, 2), least))


def _q6_k(raw: np.ndarray) -> Blocks:
    """Superblocks of 16 groups of 16: four low bits and two high bits of a code lie apart."""
    shape = raw.shape[:2]
    low, high = raw[:, :, :128].reshape(*shape, 2, 2, 32), raw[:, :, 128:192].reshape(*shape, 2, 1, 32)
    nibbles = np.concatenate([low & 15, low >> 4], axis=3)  # [.., half, quarter, 32]
    pairs = np.concatenate([high >> shift & 3 for shift in (0, 2, 4, 6)], axis=3)
    codes = (nibbles | pairs << 4).astype(np.int8) - 32
    scales = np.ascontiguousarray(raw[:, :, 192:208]).view(np.int8)
    return Blocks(codes.reshape(*shape, 16, 16), Scaled(_f16(raw, 208), scales))


#: Formats by the number that a file has for them.
FORMATS = {
    0: Format("F32", 1, 4, _plain("<f4")),
    1: Format("F16", 1, 2, _plain("<f2")),
    2: Format("Q4_0", 32, 18, _q4_0),
    3: Format("Q4_1", 32, 20, _q4_1),
    6: Format("Q5_0", 32, 22, _q5_0),
    7: Format("Q5_1", 32, 24, _q5_1),
    8: Format("Q8_0", 32, 34, _q8_0),
    10: Format("Q2_K", 256, 84, _q2_k),
    11: Format("Q3_K", 256, 110, _q3_k),
    12: Format("Q4_K", 256, 144, _q4_k),
    13: Format("Q5_K", 256, 176, _q5_k),
    14: Format("Q6_K", 256, 210, _q6_k),
    20: Format("IQ4_NL", 32, 18, _iq4_nl),
    30: Format("BF16", 1, 2, _plain(ml_dtypes.bfloat16)),
}
#: Names of formats that are refused.
OTHERS = {
    9: "Q8_1", 15: "Q8_K", 16: "IQ2_XXS", 17: "IQ2_XS",
    18: "IQ3_XXS", 19: "IQ1_S", 21: "IQ3_S", 22: "IQ2_S", 23: "IQ4_XS", 24: "I8", 25: "I16", 26: "I32",
    27: "I64", 28: "F64", 29: "IQ1_M", 34: "TQ1_0", 35: "TQ2_0", 39: "MXFP4",
}  # fmt: skip
