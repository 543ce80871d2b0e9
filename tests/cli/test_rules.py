"""edgec rules: listing, showing and proving rules."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from edgec.cli.main import main

WRONG = (
    "from edgec.rewrite import rule\n\n"
    '@rule("mine", dtypes="float")\ndef vanish(x):\n    """x - x = 0, but not for infinities."""\n    return x - x, 0\n'
)
GOOD = (
    "from edgec.rewrite import rule, sigmoid\n\n"
    '@rule("mine", numeric="reassociates", dtypes="float")\ndef complement(x):\n'
    '    """1 - sigmoid(-x) = sigmoid(x)."""\n    return 1 - sigmoid(-x), sigmoid(x)\n'
)


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict]:  # type: ignore[type-arg]
    with pytest.raises(SystemExit) as ended:
        main(["rules", *arguments, "--json"])
    return int(ended.value.code or 0), json.loads(capsys.readouterr().out)


def test_list_names_every_law_once(capsys: pytest.CaptureFixture[str]) -> None:
    code, found = run(capsys, "list")
    names = [rule["name"] for rule in found["rules"]]
    assert code == 0
    assert len(names) == len(set(names)) >= 149
    assert {rule["numeric"] for rule in found["rules"]} == {"exact", "reassociates", "approximates"}


def test_show_says_what_a_law_says_and_how_it_is_proved(capsys: pytest.CaptureFixture[str]) -> None:
    code, found = run(capsys, "show", "factor")
    rule = found["rule"]
    assert code == 0
    assert (rule["statement"], rule["family"]) == ("((x * a) + (x * b)) = (x * (a + b))", "distributive")
    assert rule["proof"]["instances"] == 60


def test_a_law_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    for verb in ("show", "prove"):
        code, found = run(capsys, verb, "factr")
        assert code == 2
        assert "factor" in found["error"]["hint"]


def test_prove_one_of_ones_own(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(GOOD, encoding="utf-8")
    code, found = run(capsys, "prove", "complement", "--rules", str(tmp_path))
    assert code == 0
    assert [rule["name"] for rule in found["rules"]] == ["complement"]
    assert found["rules"][0]["proof"]["cheaper"] > 0


def test_a_wrong_law_is_refused_with_a_counterexample(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(WRONG, encoding="utf-8")
    code, found = run(capsys, "list", "--rules", str(tmp_path))
    assert code == 2
    assert found["error"]["kind"] == "RuleError"
    assert "'vanish' is wrong" in found["error"]["message"]
    assert "left" in found["error"]["message"]


def test_tables_are_drawn(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["list"], ["show", "factor"], ["prove", "factor"]):
        with pytest.raises(SystemExit) as ended:
            main(["rules", *arguments])
        assert not ended.value.code
        assert "factor" in capsys.readouterr().out
