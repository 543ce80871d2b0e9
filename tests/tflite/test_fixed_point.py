"""Tables of 16-bit fixed-point functions: near the real functions, and the bits that gemmlowp's arithmetic gives."""

from __future__ import annotations

import zlib

import numpy as np
import pytest

from edgec.frontend.tflite.fixed_point import logistic_table, tanh_table

RAW = np.arange(-(2**15), 2**15)
#: Units of 2^-15 that the polynomial and the steps of 16 bits are off at most.
OFF = 13


def compared(table: np.ndarray, real: np.ndarray, checksum: str) -> None:
    assert table.shape == RAW.shape and table.dtype == np.int16
    assert np.abs(table - real * 2**15).max() < OFF
    assert f"{zlib.crc32(table.tobytes()):08x}" == checksum


def test_logistic() -> None:
    compared(logistic_table(), 1 / (1 + np.exp(-RAW / 2**12)), "89b3f38e")


@pytest.mark.parametrize(
    "bits, checksum",
    list(enumerate(["a348daf8", "c979dd1d", "742f59b7", "70b28dfe", "215077b2", "3a695108", "32e074ae"])),
)
def test_tanh(bits: int, checksum: str) -> None:
    """Also of numbers beyond -32, which are 0 whatever their bits are."""
    compared(tanh_table(bits), np.tanh(RAW / 2 ** (15 - bits)), checksum)
