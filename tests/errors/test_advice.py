"""Advice on refusals of the system: some errors have one, and an error without a number has none."""

from __future__ import annotations

import errno

import pytest

from edgec.files import _ADVICE, advice


@pytest.mark.parametrize("number", sorted(_ADVICE))
def test_every_number_has_its_advice(number: int) -> None:
    assert advice(OSError(number, "refused")) == _ADVICE[number]


def test_others_have_none() -> None:
    assert advice(OSError("refused")) is None and advice(OSError(errno.EINTR, "refused")) is None
