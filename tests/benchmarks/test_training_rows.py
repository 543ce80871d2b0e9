"""Rows of the page on training steps, kept as they come: a run goes on where another of the same compiler ended."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from benchmarks.training.rows import Held, Row, Rows, code_of
from edgec.check.training import TrainingChecked

ROOT = Path(__file__).resolve().parents[2]


def test_rows_of_a_killed_run(tmp_path: Path) -> None:
    path = tmp_path / "new" / "rows.jsonl"
    rows, found = Rows(path, "one"), TrainingChecked("PyTorch", 5, 1e-6, "w", 1e-7, 1e-5, 2.0, 1.0)
    row = Row("digits", 1, found, 5)
    rows.put(row)
    rows.put(row := replace(row, held=(Held("edgec", 100, ms={1: 0.5, 2: 0.25}),)))
    rows.put(Row("unet", 8, refused="no memory"))
    with path.open("a") as file:
        file.write('{"code": "one", "name": "un')
    again = Rows(path, "one")
    assert again.found == {("digits", 1): row, ("unet", 8): Row("unet", 8, refused="no memory")}
    again.put(Row("unet", 8, found))
    assert Rows(path, "one").found["unet", 8].is_right and Rows(path, "two").found == {}


def test_the_code_is_that_of_the_compiler(tmp_path: Path) -> None:
    (tmp_path / "edgec").mkdir()
    file = tmp_path / "edgec" / "a.py"
    file.write_text("a = 1\n")
    first = code_of(tmp_path)
    file.write_text("a = 2\n")
    assert first != code_of(tmp_path) and len(code_of(ROOT)) == len(first)
