"""Rows of a build's page that depend on where its time went."""

from __future__ import annotations

import pytest

from edgec.report.build import _compiler_row


@pytest.mark.parametrize(
    ("compiled", "total", "is_said"), [(6.0, 10.0, True), (4.0, 10.0, False), (3.0, 4.0, False), (0.0, 0.0, False)]
)
def test_a_note_where_the_c_compiler_takes_the_time(compiled: float, total: float, is_said: bool) -> None:
    rows = _compiler_row({"compile": compiled, "total": total})
    assert [name for name, _ in rows] == (["note"] if is_said else [])
