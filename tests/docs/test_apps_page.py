"""Commands of the page of apps: builds run, and what comes after them names the folders that they wrote."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import onnx
import pytest
from convnet import convnet

from edgec.cli.demo import digits
from edgec.cli.main import main

PAGE = Path(__file__).resolve().parents[2] / "docs" / "guide" / "apps.md"
MODELS = Path(__file__).resolve().parents[3] / "shared" / "models"
#: Models of the page that are beside the project, where they are.
SHARED = ("mlperf_tiny/kws_ref_model.tflite", "face_ultralight/version-RFB-320.onnx",
          "lm_stories260k/stories260k_decode.onnx", "lm_stories260k/tokenizer.bin")  # fmt: skip


def blocks() -> list[list[list[str]]]:
    """The blocks of the page that build something: commands, as words without what only a compiler makes."""
    found = re.findall(r"```text\n(edgec build .*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    texts = [block.replace("\\\n", " ").replace("&&", "\n") for block in found]
    return [[w for w in (shlex.split(line, comments=True) for line in text.splitlines()) if w] for text in texts]


def folder_of(command: list[str]) -> str:
    """The folder that a build writes to."""
    return command[command.index("-o") + 1] if "-o" in command else f"{Path(command[2]).stem}-edgec"


def used(command: list[str]) -> list[str]:
    """The folders of sources that a command reads."""
    return [command[k + 1] for k, word in enumerate(command) if (command[0], word) in _READS]


_READS = {("make", "-C"), ("cmake", "-S"), ("python", "-d")}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with stand-ins of the page's models."""
    shutil.copy(digits()[0], tmp_path / "digits.onnx")
    picture = convnet()
    del picture.graph.output[1]
    onnx.save(picture, tmp_path / "efficientnet.onnx")
    for path in SHARED:
        if (MODELS / path).is_file():
            shutil.copy(MODELS / path, tmp_path)
    (tmp_path / "labels.txt").write_text("\n".join("abcde"))
    (tmp_path / "words.txt").write_text("\n".join("abcdefghijkl"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_commands_name_the_folders_that_builds_write() -> None:
    every = blocks()
    assert len(every) >= 8
    for block in every:
        written = {folder_of(words) for words in block if words[0] == "edgec"}
        for words in block:
            for path in used(words):
                assert path.split("/")[0] in written, shlex.join(words)


def test_builds_run_and_write_what_is_used_after_them(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    built = 0
    for block in blocks():
        there = [words for words in block if words[0] == "edgec" and Path(words[2]).is_file()]
        for words in there:
            with pytest.raises(SystemExit) as ended:
                main([*words[1:], "--no-compile"])
            assert not ended.value.code, f"{shlex.join(words)}: {capsys.readouterr().err}"
        built += len(there)
        for path in [path for words in block for path in used(words) if there]:
            assert Path(path).is_dir(), path
    assert built >= 3
