"""edgec.toml: every option by its name, paths beside it, and the command line counts more."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from edgec.cli.main import main

DIGITS = Path(__file__).parents[2] / "apps" / "digits" / "digits.onnx"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copy(DIGITS, tmp_path / "digits.onnx")
    return tmp_path


def run(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, dict[str, Any]]:
    capsys.readouterr()
    with pytest.raises(SystemExit) as end:
        main([*map(str, words), "--json"])
    return int(end.value.code or 0), json.loads(capsys.readouterr().out)


def say(folder: Path, text: str) -> None:
    (folder / "edgec.toml").write_text(f'model = "digits.onnx"\n{text}')


def test_a_folder_is_built_as_its_file_says(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    say(
        folder,
        'out = "built"\nname = "seven"\nfuse = "none"\n[shape]\nimage = [1, 1, 8, 8]\n[build]\ncompile = false\n',
    )
    code, found = run(capsys, "build", folder)
    assert code == 0 and found["name"] == "seven" and found["compiler"] is None
    assert (folder / "built" / "seven.h").is_file()
    unfused = found["kernels"]
    code, found = run(capsys, "build", folder / "edgec.toml", "--fuse", "planner", "--name", "eight")
    assert found["kernels"] < unfused and found["name"] == "eight", "the command line counts more"


def test_sections_belong_to_commands(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    say(folder, "[build]\ncompile = false\n[inspect]\ntraffic = true\n[bench]\nseconds = 0.1\n")
    code, found = run(capsys, "inspect", folder)
    assert code == 0 and found["traffic"] is not None


def test_budgets_fail_a_build(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    say(folder, 'out = "built"\n[build]\ncompile = false\n[budget]\nram_kb = 1\nflash_kb = 1000\n')
    code, found = run(capsys, "build", folder)
    assert code == 1
    assert [(b["name"], b["ok"], len(b["largest"])) for b in found["budgets"]] == [
        ("ram_kb", False, 3),
        ("flash_kb", True, 0),
    ]
    code, found = run(capsys, "build", folder, "--budget", "ram_kb=64")
    assert code == 0 and [b["name"] for b in found["budgets"]] == ["ram_kb"]


@pytest.mark.parametrize(
    "text, said",
    [
        ("thread = 2", "did you mean 'threads'"),
        ('threads = "two"', "is not a whole number"),
        ("profiles = 1", "is not true or false"),
        ("[build]\ncompil = false", "did you mean 'compile'"),
        ("[budget]\nspeed = 3", "there is no"),
        ("[buidl]\ncompile = false", "did you mean 'build'"),
        ("= 3", "is no TOML"),
    ],
)
def test_mistakes_are_named(folder: Path, capsys: pytest.CaptureFixture[str], text: str, said: str) -> None:
    say(folder, text)
    code, found = run(capsys, "build", folder)
    assert code == 2
    error = found["error"]
    assert said in f"{error['message']} {error['hint']}" and "edgec.toml" in error["where"]
    assert [p.name for p in folder.iterdir() if p.is_dir()] == [], "nothing is written"


def test_a_folder_without_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, found = run(capsys, "build", tmp_path)
    assert code == 2 and "edgec.toml" in found["error"]["message"]
