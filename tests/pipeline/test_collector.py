"""Rare collections end with the last block of all threads."""

from __future__ import annotations

import gc
from contextlib import ExitStack

import pytest

from edgec.pipeline.collector import rare_collections


def test_thresholds_come_back() -> None:
    before = gc.get_threshold()
    first, second = ExitStack(), ExitStack()
    first.enter_context(rare_collections())
    second.enter_context(rare_collections())
    assert gc.get_threshold()[0] > before[0]
    first.close()
    assert gc.get_threshold()[0] > before[0]
    with pytest.raises(ZeroDivisionError), second:
        raise ZeroDivisionError
    assert gc.get_threshold() == before


def test_a_collector_that_is_off_stays_off() -> None:
    before = gc.get_threshold()
    gc.set_threshold(0)
    try:
        with rare_collections():
            assert gc.get_threshold()[0] == 0
        assert gc.get_threshold()[0] == 0
    finally:
        gc.set_threshold(*before)
