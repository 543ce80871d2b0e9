"""The page of derivatives is current, and every operator is on it."""

from __future__ import annotations

from derivatives import PAGE, page


def test_the_page_is_current() -> None:
    assert PAGE.read_text(encoding="utf-8") == page()


def test_every_derivative_is_described() -> None:
    rows = [line.strip("| ").split(" | ") for line in page().splitlines() if line.startswith("| `")]
    assert all(len(cells) > 1 and cells[1] for cells in rows)
    assert len(rows) > 60
