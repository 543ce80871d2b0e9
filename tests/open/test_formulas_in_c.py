"""Formulas of open sizes are written in C, in every kernel: none is printed as edgec prints them to people."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from compiled import write_graphs
from test_open_dimensions import GRAPHS

from edgec.device.load import load_device
from edgec.ir.expr import Expr

PRINTED = "@a formula@"
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)


@pytest.mark.parametrize("device", ["x86_64_avx512", "pixel_8", "raspberry_pi_4", "generic"])
def test_no_formula_is_printed_as_text(device: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Expr, "__repr__", lambda self: PRINTED)
    write_graphs(GRAPHS, tmp_path, load_device(device))
    files = sorted(tmp_path.glob("*kernels_*.c"))
    assert any(PRINTED in path.read_text() for path in files), "comments name open sizes"
    for path in files:
        code = COMMENT.sub("", path.read_text())
        lines = [line for line in code.splitlines() if PRINTED in line or re.search(r"\bNone\b", line)]
        assert not lines, (path.name, lines[:3])
