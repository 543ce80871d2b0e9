"""The commands that a build prints: they ask for this very build, and run when they are pasted."""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from edgec.cli.main import app
from edgec.emit.apps import APPS, BINDINGS
from edgec.report.next_steps import steps
from edgec.resources import data_folder

DIGITS = data_folder("apps") / "digits" / "digits.onnx"
Shell = Callable[..., str]


@pytest.fixture
def shell(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    """A command's output; it runs in a folder of its own, which holds a model with a space in its name."""
    monkeypatch.chdir(tmp_path)
    shutil.copy(DIGITS, tmp_path / "my net.onnx")

    def run(*words: str) -> str:
        with pytest.raises(SystemExit) as left:
            app(args=list(words), standalone_mode=True)
        assert left.value.code == 0, capsys.readouterr()
        return capsys.readouterr().out

    return run


@pytest.mark.parametrize(
    "options",
    [
        ["--numeric", "exact", "--no-profiles", "-t", "2", "--name", "abc"],
        ["--quantize", "int8", "--calibrate", "random", "--no-fuse"],
    ],
    ids=["flags", "int8"],
)
def test_pasted_commands_ask_for_the_same_build(shell: Shell, options: list[str]) -> None:
    built = json.loads(shell("build", "my net.onnx", "-o", "an artefact", "--no-compile", "--json", *options))
    commands = {step["for"]: step["command"] for step in built["next"]}
    words = shlex.split(commands["check"])
    assert words[:3] == ["edgec", "check", "my net.onnx"] and words[3:]
    again = json.loads(shell("build", *words[2:], "-o", "another", "--no-compile", "--json"))
    assert (again["kernels"], again["threads"], again["name"]) == (built["kernels"], built["threads"], built["name"])
    lock = [Path(folder, "edgec.lock").read_bytes() for folder in ("an artefact", "another")]
    assert lock[0] == lock[1]
    assert "in Python" not in commands, "it has no library"


def test_commands_of_a_compiled_build_are_of_its_folder(shell: Shell, tmp_path: Path) -> None:
    """Nothing is built again; code of the user's own is named once more."""
    built = json.loads(shell("build", "my net.onnx", "-o", "a b", "--json", "--threads", "2"))
    commands = {step["for"]: shlex.split(step["command"]) for step in built["next"]}
    assert commands["check"] == ["edgec", "check", "a b"]
    assert commands["time"] == ["edgec", "bench", "a b", "--vs", "onnxruntime"]
    assert json.loads(shell(*commands["check"][1:], "--json"))["threads"] == [1, 2]
    words = ("--json", "--seconds", "0.01", "--rounds", "1")
    timed = json.loads(shell(*commands["time"][1:], *words))
    assert timed["threads"] == 2 and timed["ratio"] > 0
    assert json.loads(shell("bench", "a b", *words))["threads"] == 2
    assert json.loads(shell("bench", "a b", *words, "--threads", "1"))["threads"] == 1
    (tmp_path / "rules").mkdir()
    own = json.loads(shell("build", "my net.onnx", "-o", "own", "--json", "--rules", "rules"))
    assert {"for": "check", "command": "edgec check 'my net.onnx' --rules rules"} in own["next"]
    with pytest.raises(SystemExit) as left:
        app(args=["bench", "a b", *words, "--threads", "1", "--vs", "onnxruntime"], standalone_mode=True)
    assert left.value.code == 2


def test_apps_and_bindings_are_lists_with_commas(shell: Shell) -> None:
    words = ("--no-compile", "--json", "--device", "raspberry_pi_5")
    built = json.loads(shell("build", "my net.onnx", "-o", "out", "--app", "pi, android", "--bindings", "cpp", *words))
    assert {"pi", "android"} <= {step["for"] for step in built["next"]}
    assert Path("out", "pi").is_dir() and Path("out", "android").is_dir() and Path("out", "net.hpp").is_file()


def test_no_line_is_broken(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    lines = shell("build", "my net.onnx", "-o", "a b", "--no-compile", "--numeric", "exact").splitlines()
    assert "check     edgec check 'my net.onnx' --numeric exact" in lines
    assert any(line.endswith("&& cmake --build 'a b/build'") for line in lines)


def test_settings_of_a_folder_are_asked_for_by_the_folder(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "edgec.toml").write_text('model = "my net.onnx"\nnumeric = "exact"\n')
    built = json.loads(shell("build", ".", "-o", "out", "--no-compile", "--json", "--threads", "2"))
    assert {"for": "check", "command": "edgec check . --threads 2"} in built["next"]


def test_words_are_quoted() -> None:
    found = {
        "folder": "a b",
        "runs_here": True,
        "compiler": "gcc",
        "report": None,
        "language_model": None,
        "cross": "",
        "name": "x",
    }
    options = ["my net.onnx", "--override", "KIND a b=c", "--materialize", "it's $HOME"]
    made = steps(found, options, (), "import", "onnxruntime")
    assert shlex.split(made[0]["command"]) == ["edgec", "check", *options]


def test_every_app_has_a_next_command() -> None:
    assert all(extra.steps for name, extra in {**APPS, **BINDINGS}.items() if name != "cpp")
    found = {"folder": "a b", "runs_here": False, "report": None, "language_model": None, "cross": None, "name": "x"}
    made = steps(found, ["m"], ["pi", "web"], "fuse", "onnxruntime")
    assert [step["for"] for step in made] == ["pi", "web"]
    assert shlex.split(made[1]["command"])[-1] == "a b/web/serve.py"


def test_a_folder_or_model_with_a_dash_is_no_option(shell: Shell, tmp_path: Path) -> None:
    shutil.copy(DIGITS, tmp_path / "-m.onnx")
    built = json.loads(shell("build", "-o", "-out", "--json", "--", "-m.onnx"))
    commands = {step["for"]: shlex.split(step["command"]) for step in built["next"]}
    assert commands["use in C"][:3] == ["cmake", "-S", "./-out"]
    assert json.loads(shell(*commands["check"][1:], "--json"))["ok"]
    sources = json.loads(shell("build", "-o", "sources", "--no-compile", "--json", "--", "-m.onnx"))
    (check,) = (shlex.split(step["command"]) for step in sources["next"] if step["for"] == "check")
    assert json.loads(shell(*check[1:], "--json"))["ok"]


def test_a_tflite_model_is_timed_beside_its_own_runtime(shell: Shell) -> None:
    """A peer whose fast kernels round in another way than the reference is timed all the same."""
    pytest.importorskip("tflite")
    pytest.importorskip("ai_edge_litert")
    model = Path(__file__).resolve().parents[3] / "shared" / "models" / "coral" / "mobilenet_v1_0.25_128_quant.tflite"
    if not model.is_file():
        pytest.skip("the shared models are not beside the project")
    built = json.loads(shell("build", str(model), "-o", "out", "--json"))
    (time,) = (shlex.split(step["command"]) for step in built["next"] if step["for"] == "time")
    assert time == ["edgec", "bench", "out", "--vs", "litert"]
    assert json.loads(shell(*time[1:], "--seconds", "0.02", "--rounds", "1", "--json"))["ratio"] > 0
