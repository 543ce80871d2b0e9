"""`edgec chat`: one prompt, a conversation, and what is refused."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

import edgec
from edgec.artifact.language_model import Generation
from edgec.cli.chat import harmless
from edgec.cli.main import main

DOCUMENTED = (Path(__file__).parents[2] / "docs" / "guide" / "json.md").read_text(encoding="utf-8")
FIXED = ("--temperature", "1.5", "--seed", "4", "--max-tokens", "6")


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Any:
    def call(*words: object, text: str = "") -> tuple[int, str, str]:
        monkeypatch.setattr("sys.stdin", io.StringIO(text))
        capsys.readouterr()
        with pytest.raises(SystemExit) as end:
            main([str(w) for w in words])
        return (int(end.value.code or 0), *capsys.readouterr())

    return call


def test_one_prompt(folder: Path, run: Any) -> None:
    with edgec.load(folder) as model:
        text = model.chat([{"role": "user", "content": "hi"}], max_tokens=6, temperature=1.5, seed=4).text()
        raw = model.generate("hi", max_tokens=6, temperature=1.5, seed=4).text()
    code, out, err = run("chat", folder, "--prompt", "hi", *FIXED)
    assert (code, out) == (0, harmless(text) + "\n") and "a second]" in err
    assert run("chat", folder, "--prompt", "-", *FIXED, text="hi")[1] == harmless(text) + "\n"
    assert run("chat", folder, "--prompt", "hi", "--raw", *FIXED)[1] == harmless(raw) + "\n"
    code, out, err = run("chat", folder, "--prompt", "hi", *FIXED, "--json")
    record = json.loads(out)
    assert code == 0 and record["text"] == text and record["seed"] == 4 and record["usage"]["completion_tokens"] <= 6
    assert [key for key in (*record, *record["usage"]) if f"`{key}`" not in DOCUMENTED] == []


def test_a_conversation(folder: Path, run: Any) -> None:
    """Lines of standard input; a line that no longer fits is told and leaves the conversation as it was."""
    said = [{"role": "system", "content": "s"}]
    wanted = ""
    with edgec.load(folder) as model:
        for line in ("a", "b"):
            said.append({"role": "user", "content": line})
            said.append({"role": "assistant", "content": model.chat(said, max_tokens=2, temperature=0).text()})
            wanted += harmless(said[-1]["content"]) + "\n"
    words = ("chat", folder, "--system", "s", "--temperature", 0, "--max-tokens", 2)
    code, out, err = run(*words, text=f"a\n\n{'x' * 99}\nb\n")
    assert (code, out) == (0, wanted)
    assert "the context 90" in err and "tokens of prompts" in err


def test_an_answer_is_stopped(folder: Path, run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C ends the answer of a conversation, which goes on; without a conversation it ends the command."""
    calls: list[int] = []

    def interrupted(self: Generation) -> str:
        calls.append(1)
        if len(calls) == 1:
            return "so"
        if len(calls) == 2:
            raise KeyboardInterrupt
        return next(self._pieces)

    monkeypatch.setattr(Generation, "__next__", interrupted)
    code, out, err = run("chat", folder, "--max-tokens", 2, text="a\nb\n")
    assert code == 0 and out.startswith("so ...\n") and len(calls) > 2
    calls.clear()
    code, out, err = run("chat", folder, "--prompt", "a", "--max-tokens", 2)
    assert code == 130 and out == "so" and "Traceback" not in err


def test_harmless() -> None:
    assert harmless("a\x1b[31m\tb\n\x9b\r\u202eé\U0001f600") == "a\ufffd[31m\tb\n\ufffd\ufffd\ufffdé\U0001f600"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--json"], "no JSON object"),
        (["--raw"], "--prompt alone"),
        (["--raw", "--prompt", "x", "--system", "y"], "--prompt alone"),
        (["--prompt", "x", "--top-p", "2"], "top_p is 2"),
        (["--prompt", "x", "--max-tokens", "0"], "max_tokens is 0"),
        (["--prompt", "x" * 99], "the context 90"),
        (["--prompt", "x", "-t", "9"], "9 threads asked for"),
    ],
)
def test_refused(folder: Path, run: Any, words: list[str], message: str) -> None:
    code, _, err = run("chat", folder, *words)
    assert code == 2 and message in err and "Traceback" not in err


def test_other_folders(tmp_path: Path, run: Any) -> None:
    assert run("chat", tmp_path)[0] == 2 == run("serve-lm", tmp_path / "nothing")[0]
    digits = Path(__file__).parents[2] / "apps" / "digits" / "digits.onnx"
    edgec.build(digits, tmp_path / "out", name="digits")
    with edgec.load(tmp_path / "out") as network:
        assert isinstance(network, edgec.Network)
    code, _, err = run("chat", tmp_path / "out", "--prompt", "x")
    assert code == 2 and "no language model" in err
