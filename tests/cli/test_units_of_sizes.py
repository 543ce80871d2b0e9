"""Sizes and folders of options: every unit, and a digest that each file of a folder is part of."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgec.artifact.lock import _folder_digest
from edgec.errors import UsageError
from edgec.options.resolved import bytes_of
from edgec.serve.requests import BadRequestError, _number

UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30}


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("form", ["{}{}", "{}{}B", "{}{}b"])
def test_units_of_bytes(unit: str, form: str) -> None:
    for number in (1, 3, 64):
        assert bytes_of(form.format(number, unit.lower()), "--ram") == number * UNITS[unit]
    assert bytes_of(form.format("1.5", unit), "--ram") == int(1.5 * UNITS[unit])


@pytest.mark.parametrize("given", ["", "K", "-1", "1T", "1 K", "1e3", "0", "0K", "0.4", True])
def test_what_is_no_size(given: str) -> None:
    with pytest.raises(UsageError, match=r"is no size|hold nothing"):
        bytes_of(given, "--ram")


def test_every_file_of_a_folder_is_in_its_digest(tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    first, second = tmp_path / "a.py", tmp_path / "below" / "b.py"
    found = [_folder_digest(tmp_path)]
    for path, text in ((first, "1"), (second, "1"), (second, "2"), (first, "")):
        path.write_text(text)
        found.append(_folder_digest(tmp_path))
    second.rename(tmp_path / "below" / "c.py")
    found.append(_folder_digest(tmp_path))
    assert len(set(found)) == len(found)
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__" / "a.pyc").write_text("3")
    assert _folder_digest(tmp_path) == found[-1]


def test_numbers_of_requests() -> None:
    assert _number({}, "x") is None and _number({"x": None}, "x") is None
    assert [_number({"x": given}, "x") for given in (0, 2, 0.5)] == [0.0, 2.0, 0.5]
    for wrong in (True, "1", [1], 10**400):
        with pytest.raises(BadRequestError, match="no number"):
            _number({"x": wrong}, "x")
