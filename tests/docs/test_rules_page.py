"""The page of rewrite rules is current: `python benchmarks/laws.py` writes it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def generator(monkeypatch: pytest.MonkeyPatch):  # type: ignore[no-untyped-def]
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import laws

    yield laws
    sys.modules.pop("laws")


def test_the_page_is_current(generator) -> None:  # type: ignore[no-untyped-def]
    from edgec.report.rules import statement
    from edgec.rewrite import load_rules

    rules = load_rules()
    data = json.loads((ROOT / "benchmarks" / "laws.json").read_text(encoding="utf-8"))
    assert {r.name: statement(r) for r in rules} == {name: entry["statement"] for name, entry in data["laws"].items()}
    assert generator.page(rules, data) == (ROOT / "docs" / "results" / "rules.md").read_text(encoding="utf-8")
