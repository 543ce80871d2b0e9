"""Timing a built language model: what bounds it, peers in processes of their own, and what is refused."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

import pytest
from gguf_files import llama

import edgec
from edgec.artifact.folder import read_lock
from edgec.bench.language import bench_language_model, peers_of
from edgec.bench.language_worker import prompt_of
from edgec.cli.main import main
from edgec.errors import UsageError

CONTEXT = 48
#: An engine that always answers with the same times and tokens.
FAKE = """\
import json, sys
job = json.load(open(sys.argv[2]))
assert job["engine"] == "llama.cpp" and job["model"].endswith("lm.gguf"), job
answer = {"version": "9", "load_s": 1, "first_s": 0.5, "token_s": [0.25] * job["tokens"], "resident_bytes": 1 << 20,
          "chosen": [-1] * (job["tokens"] + 1)}
json.dump(answer, open(sys.argv[3], "w"))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("bench")
    (where / "lm.gguf").write_bytes(llama("Q4_1"))
    edgec.build(where / "lm.gguf", where / "out", context=CONTEXT, name="lm")
    return where / "out"


def interpreter(where: Path, program: str) -> str:
    """A command that runs a program of Python whatever script it is given."""
    (where / "peer.py").write_text(program)
    command = where / "python"
    command.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {shlex.quote(str(where / "peer.py"))} "$@"\n')
    command.chmod(0o755)
    return str(command)


def refusal(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit) as ended:
        main(["bench", *arguments, "--json"])
    assert ended.value.code == 2
    error = json.loads(capsys.readouterr().out)["error"]
    return f"{error['where']}: {error['message']}; {error['hint']}"


def test_a_model_and_a_peer_are_timed(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    python = interpreter(tmp_path, FAKE)
    options = ["--prompt", "20", "--tokens", "9", "--rounds", "1", "--vs", "llama.cpp", "--python", python, "--json"]
    with pytest.raises(SystemExit) as ended:
        main(["bench", str(folder), *options])
    assert ended.value.code == 0
    found = json.loads(capsys.readouterr().out)
    own, peer = found["engines"]
    assert (peer["decode_per_second"], peer["prefill_per_second"], peer["same_tokens"]) == (4.0, 40.0, 0)
    assert own["same_tokens"] == 10 and own["decode_per_second"] > 0 and own["resident_bytes"] > 1 << 20
    facts = read_lock(folder)["language_model"]
    # Products read their weights once; a sixteenth of Q4_1's 20 bytes for 32 is in scales.
    weights = 2 * (4 * 256 * 256 - 256 * 256 + 3 * 256 * 256) + 40 * 256
    assert facts["read_bytes"] == pytest.approx(weights * 20 / 32, rel=0.1)
    assert found["token_bytes"] == facts["read_bytes"] + facts["cache_bytes"] * 24 // CONTEXT
    share = found["token_bytes"] * own["decode_per_second"] / (found["read_gbps"] * 1e9)
    assert found["share"] == pytest.approx(share)


def test_the_times_are_those_of_the_tokens(folder: Path) -> None:
    found = bench_language_model(folder, tokens=3, rounds=2)
    (own,) = found.speeds
    assert found.prompt == CONTEXT - 3 and len(own.chosen) == 4
    assert own.first_token_ms == pytest.approx(found.prompt / own.prefill_per_second * 1e3)


@pytest.mark.parametrize(
    "program, said",
    [
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "its process ended by signal 9"),
        ("raise SystemExit('no weights')", "no weights"),
    ],
)
def test_a_peer_that_fails_is_told(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], program: str, said: str
) -> None:
    options = ["--prompt", "4", "--tokens", "2", "--rounds", "2", "--python", interpreter(tmp_path, program), "--json"]
    with pytest.raises(SystemExit) as ended:
        main(["bench", str(folder), "--vs", f"llama.cpp={folder.parent / 'lm.gguf'}", *options])
    assert ended.value.code == 1
    own, peer = json.loads(capsys.readouterr().out)["engines"]
    assert peer["error"] == said and own["error"] is None and own["decode_per_second"] > 0


def test_an_engine_that_is_not_installed_is_told(folder: Path) -> None:
    peers = peers_of(f"onnxruntime-genai={folder}", folder)
    _, peer = bench_language_model(folder, prompt=4, tokens=2, rounds=1, peers=peers).speeds
    assert peer.error and "onnxruntime_genai" in peer.error


def test_what_cannot_be_timed_is_refused(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lm = str(folder)
    assert "40 and 9 tokens do not fit the context of 48; give fewer, or build it with --context 49" in refusal(
        [lm, "--prompt", "40", "--tokens", "9"], capsys
    )
    assert "build it with --threads 3" in refusal([lm, "--prompt", "1", "--tokens", "1", "--threads", "3"], capsys)
    assert "--prompt, --tokens and --rounds of 1 or more" in refusal([lm, "--prompt", "0"], capsys)
    assert "'ollama' is no known peer; did you mean 'llama.cpp'? it is one of llama.cpp" in refusal(
        [lm, "--vs", "ollama"], capsys
    )
    assert "--vs onnxruntime-genai=PATH, a folder" in refusal([lm, "--vs", "onnxruntime-genai"], capsys)
    assert "no/such is not there" in refusal([lm, "--vs", "llama.cpp=no/such"], capsys)
    short = ["--prompt", "4", "--tokens", "2", "--vs", f"llama.cpp={folder.parent / 'lm.gguf'}"]
    assert "cannot be run" in refusal([lm, *short, "--python", str(tmp_path / "none")], capsys)
    model = str(folder.parent / "lm.gguf")
    assert "edgec build MODEL -o DIR, then edgec bench DIR" in refusal([model, "--tokens", "3"], capsys)


def test_another_build_is_no_language_model(tmp_path: Path) -> None:
    (tmp_path / "edgec.lock").write_text('{"name": "net"}')
    with pytest.raises(UsageError, match="no language model"):
        bench_language_model(tmp_path)


def test_prompts_differ_by_number_and_lie_in_the_vocabulary() -> None:
    first, second = (prompt_of(300, 40, k) for k in (0, 1))
    assert first != second and {min(first), max(first)} <= set(range(40)) and len(set(first)) > 30
