"""Turns of language models: the best figure of each kind, the first error, and requests that cannot be timed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from edgec.artifact.compile import library_name
from edgec.bench.language import _refuse, _speed
from edgec.errors import UsageError


def turn(first: float, tokens: list[float], resident: int, load: float, version: str = "1") -> dict[str, Any]:
    return {"version": version, "first_s": first, "token_s": tokens, "resident_bytes": resident, "load_s": load,
            "chosen": [3, version]}  # fmt: skip


def test_the_best_of_all_turns() -> None:
    turns = [
        turn(0.5, [0.1, 0.1, 0.4], 900, 2.0), turn(0.25, [0.2, 0.2, 0.2], 700, 3.0, "2"),
        turn(1.0, [0.3, 0.05, 0.3], 800, 1.0),
    ]  # fmt: skip
    found = _speed("one", turns, 10)
    assert (found.engine, found.version, found.chosen, found.error) == ("one", "1", (3, "1"), None)
    figures = [v for v in vars(found).values() if isinstance(v, (int, float)) and not isinstance(v, bool)]
    want = [10 / 0.25, 250.0, 3 / 0.6, 100.0, 700, 1000.0]
    assert figures == pytest.approx(want)


def test_the_first_error_is_told() -> None:
    turns = [turn(0.5, [0.1], 900, 2.0), {"error": "no file"}, {"error": "later"}]
    found = _speed("one", turns, 10)
    assert found.error == "no file" and found.engine == "one"


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({}, None), ({"prompt": 5}, None), ({"threads": 2}, None), ({"prompt": 0}, "nothing to time"),
        ({"tokens": 0}, "nothing to time"), ({"rounds": 0}, "nothing to time"),
        ({"prompt": 6}, "6 and 3 tokens do not fit"),
        ({"threads": 0}, "0 threads asked for"), ({"threads": 3}, "3 threads asked for"),
    ],
    ids=str,
)  # fmt: skip
def test_requests(changed: dict[str, int], said: str | None, tmp_path: Path) -> None:
    lock = {"language_model": {"context": 8}, "threads": 2, "name": "lm"}
    asked = {"prompt": 4, "tokens": 3, "threads": 1, "rounds": 1, **changed}
    (tmp_path / library_name("lm")).touch()
    if said is None:
        _refuse(tmp_path, lock, **asked)
        (tmp_path / library_name("lm")).unlink()
        with pytest.raises(UsageError, match="it is not compiled"):
            _refuse(tmp_path, lock, **asked)
        return
    with pytest.raises(UsageError, match=said) as caught:
        _refuse(tmp_path, lock, **asked)
    if "fit" in said:
        assert "--context 9" in str(caught.value.hint)
