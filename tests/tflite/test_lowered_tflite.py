"""Graphs that operators of TensorFlow Lite become, as lines of ``lowered.txt``: a lowering that changes shows here."""

from __future__ import annotations

from pathlib import Path

import pytest
from kept_graphs import hold, line, same_draws
from tflite_cases import CASES

from edgec.frontend.tflite import import_tflite, parse


@pytest.mark.parametrize("operator", sorted({name.partition("-")[0] for name in CASES}))
def test_lowered(operator: str, update_golden: bool) -> None:
    same_draws()
    own = [name for name in CASES if name.partition("-")[0] == operator]
    lines = [line(name, (import_tflite(parse(CASES[n])) for n in (name,))) for name in own]
    hold(Path(__file__).with_name("lowered.txt"), lines, update_golden)
