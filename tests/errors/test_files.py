"""Files of the user's are replaced whole or not at all."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
import pytest

from edgec import files
from edgec.cli import toml_text
from edgec.errors import UsageError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


def test_a_file_is_replaced_and_keeps_its_permissions(tmp_path: Path) -> None:
    path = tmp_path / "edgec.toml"
    files.replace(path, "one")
    assert path.stat().st_mode & 0o777 == 0o666 & ~files.umask()
    path.chmod(0o640)
    files.replace(path, "two")
    assert path.read_text() == "two" and path.stat().st_mode & 0o777 == 0o640
    assert [p.name for p in tmp_path.iterdir()] == ["edgec.toml"]


def test_a_link_stays_one(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "mine.toml").write_text("one")
    (tmp_path / "edgec.toml").symlink_to(Path("real") / "mine.toml")
    files.replace(tmp_path / "edgec.toml", "two")
    assert (tmp_path / "edgec.toml").is_symlink() and (tmp_path / "real" / "mine.toml").read_text() == "two"


@pytest.mark.parametrize("step", ["write", "fsync", "rename", "encode"])
def test_a_failure_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    path = tmp_path / "edgec.toml"
    path.write_text("mine")

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    if step == "fsync":
        monkeypatch.setattr(os, "fsync", full)
    if step == "rename":
        monkeypatch.setattr(Path, "replace", full)
    if step == "write":
        monkeypatch.setattr("tempfile.mkstemp", full)
    with pytest.raises(UsageError) as refused:
        files.replace(path, "\ud800" if step == "encode" else "new")
    assert refused.value.where == str(path) and path.read_text() == "mine"
    assert [p.name for p in tmp_path.iterdir()] == ["edgec.toml"], "nothing is left beside it"


def test_arrays_of_any_name(tmp_path: Path) -> None:
    files.replace(tmp_path / "found.npz", files.npz({"file": np.ones(2), "a/b": np.zeros(3)}))
    with np.load(tmp_path / "found.npz") as found:
        assert sorted(found.files) == ["a/b", "file"]


@pytest.mark.parametrize(
    "text",
    [
        '# mine\nmodel = "a.onnx"  # the model\n\n[decide]  # by serve\nmaterialize = ["x"]\n'
        '# about tiles\n[decide.tile]\n"a/b" = "1x2"\n',
        'decide = { materialize = ["x"] }  # inline\nmodel = "a.onnx"\n',
        'decide.materialize = ["x"]\nmodel = """\n[decide]\n"""\n',
        "model = \"a.onnx\"\nnote = '''\n[decide]\nmaterialize = 1\n'''\n[shape]\nx = [1,\n2]\n",
        'model = "a.onnx"\r\n[shape]\r\nx = [1]\r\n',
        '[decide.tile]  # before its own table\na = "1x1"\n[decide]\nmaterialize = ["x"]\n[z]\ny = 1  # mine\n',
    ],
)
def test_a_table_is_changed_and_nothing_else(text: str) -> None:
    """Of each form that a table has in TOML; the hand-written edit of before broke three of them."""
    before = tomllib.loads(text)
    wanted = {"materialize": ['say "hi"\n', "\u2028"], "tile": {"k.k": "4x1", "": "1x1"}}
    found = toml_text.replaced(text, "decide", wanted)
    assert tomllib.loads(found) == {**before, "decide": wanted}
    assert all(comment in found for comment in ("# mine", "# the model", "# by serve", "# inline") if comment in text)
    without = toml_text.replaced(found, "decide", {})
    assert tomllib.loads(without) == {key: value for key, value in before.items() if key != "decide"}


@pytest.mark.parametrize("text", ["= 3", "[[decide]]\nx = 1\n", "decide = 3\n"])
def test_what_is_no_table_is_replaced_or_refused(text: str) -> None:
    try:
        found = toml_text.replaced(text, "decide", {"fuse": "none"})
    except UsageError:
        return
    assert tomllib.loads(found) == {"decide": {"fuse": "none"}}
