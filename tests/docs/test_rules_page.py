"""The page of rewrite rules is current: `python -m benchmarks.rules.catalog` writes it."""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks.rules import catalog

ROOT = Path(__file__).resolve().parents[2]


def test_the_page_is_current() -> None:
    from edgec.report.rules import statement
    from edgec.rewrite import load_rules

    rules = load_rules()
    data = json.loads((ROOT / "benchmarks" / "rules" / "rules.json").read_text(encoding="utf-8"))
    assert {r.name: statement(r) for r in rules} == {name: entry["statement"] for name, entry in data["rules"].items()}
    assert catalog.page(rules, data) == (ROOT / "docs" / "results" / "rules.md").read_text(encoding="utf-8")
