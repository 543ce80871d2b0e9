"""An edgec.toml from elsewhere runs nothing, reaches nothing and writes nothing outside of its folder."""

from __future__ import annotations

import json
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest
import typer

from edgec.cli import config, trusted
from edgec.cli.main import app, main
from edgec.device.load import load_device
from edgec.errors import DeviceError
from edgec.files import user_folder
from edgec.options import OPTIONS

DIGITS = Path(__file__).parents[2] / "apps" / "digits" / "digits.onnx"
#: Python that leaves a trace, as a part of the user's own.
TRAP = "from pathlib import Path\nPath(__file__).with_name('ran').touch()\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder that somebody sent: a compiler of its own, and code that the file names."""
    there = tmp_path / "sent"
    there.mkdir()
    shutil.copy(DIGITS, there / "digits.onnx")
    (there / "cc").write_text(f"#!/bin/sh\ntouch {shlex.quote(str(there / 'ran'))}\n")
    (there / "cc").chmod(0o755)
    for kind in ("rules", "operators", "micro_kernels", "templates", "metrics"):
        (there / kind).mkdir()
        (there / kind / "trap.py").write_text(TRAP)
    return there


def say(folder: Path, text: str) -> None:
    (folder / "edgec.toml").write_text(f'model = "digits.onnx"\n{text}')


def run(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, dict[str, Any]]:
    capsys.readouterr()
    with pytest.raises(SystemExit) as end:
        main([*map(str, words), "--json"])
    return int(end.value.code or 0), json.loads(capsys.readouterr().out)


HOSTILE = {
    "compiler": 'compiler = "{}/cc"',
    "rules": 'rules = ["rules"]',
    "operators": 'operators = ["operators"]',
    "operators by another name": 'ops = ["operators"]',
    "micro_kernels": 'micro_kernels = ["micro_kernels"]',
    "templates": 'templates = ["templates"]',
    "decided": '[decide]\ncompiler = "{}/cc"',
    "of a command": '[build]\ncompiler = "{}/cc"',
    "written above": 'out = "../elsewhere"',
    "written by its whole path": '[build]\nsave_stages = "/tmp/elsewhere"',
    "written by retraining": 'retrain_state = "../elsewhere"',
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_nothing_runs_before_it_is_trusted(folder: Path, capsys: pytest.CaptureFixture[str], text: str) -> None:
    say(folder, text.format(folder))
    before = sorted(folder.parent.rglob("*"))
    code, found = run(capsys, "build", folder)
    error = found["error"]
    assert code == 2 and "not trusted" in error["message"] and "edgec.toml" in error["where"]
    assert sorted(folder.parent.rglob("*")) == before, "nothing ran, nothing was written"
    words = shlex.split(error["hint"].partition("then: ")[2].partition(";")[0])
    code, found = run(capsys, *words[1:])
    assert words[0] == "edgec" and code == 0 and found["trusted"] and len(found["lines"]) == 1
    _, found = run(capsys, "inspect", folder)
    assert "not trusted" not in json.dumps(found)


@pytest.mark.parametrize(
    "text, words",
    [
        ('[check]\nmetrics = ["metrics"]', ("check",)),
        ('[tune]\nlink = "ssh:pi@evil.example"', ("tune",)),
        ('[device_bench]\nlink = "adb"', ("device", "bench")),
        ('[device_farm]\non = ["host@local"]\nscheduler = "tcp://evil.example:1"', ("device", "farm", "--on", "host")),
        ('[profile]\ntrace = "../t.json"', ("profile",)),
        ('[bench]\npython = "./cc"', ("bench",)),
        ('[bench]\nvs = "llama.cpp=lm.gguf"', ("bench",)),
        ('[train]\nwrite_adapter = "../adapter"', ("train",)),
    ],
)
def test_options_of_single_commands(
    folder: Path, capsys: pytest.CaptureFixture[str], text: str, words: tuple[str, ...]
) -> None:
    say(folder, text)
    place = 2 if words[0] == "device" else 1
    code, found = run(capsys, *words[:place], folder, *words[place:])
    assert code == 2 and "not trusted" in found["error"]["message"]


def test_a_built_folder_is_code(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its library, and its module in Python, were run by `edgec check DIR` as the model that a file names."""
    (folder / "built").mkdir()
    (folder / "built" / "edgec.lock").write_text("{}")
    (folder / "edgec.toml").write_text('model = "built"\n')
    for words in (("check",), ("bench",), ("profile",)):
        code, found = run(capsys, *words, folder)
        assert code == 2 and "not trusted: model" in found["error"]["message"]
    trusted.trust(config.load(folder))
    trusted.require(config.load(folder), ())


def test_the_command_line_needs_no_trust(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    say(folder, f'compiler = "{folder}/cc"\n[build]\ncompile = false\n')
    code, _ = run(capsys, "build", folder, "--compiler", "gcc", "-o", folder.parent / "out")
    assert code == 0 and not (folder / "ran").exists()


def test_trust_is_in_what_was_said(folder: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Another command, or the same one in another place, is another matter; other lines are not."""
    say(folder, 'rules = ["rules"]')
    trusted.trust(config.load(folder))
    trusted.require(config.load(folder), {"rules"})
    say(folder, 'rules = ["rules"]\nthreads = 2')
    trusted.require(config.load(folder), {"rules"})
    copied = shutil.copytree(folder, tmp_path / "copied")
    for text, place in (('rules = ["operators"]', folder), ('rules = ["rules"]', copied)):
        say(place, text)
        with pytest.raises(trusted.UsageError):
            trusted.require(config.load(place), {"rules"})
    say(folder, 'rules = ["rules"]')
    run(capsys, "trust", folder, "--revoke")
    with pytest.raises(trusted.UsageError):
        trusted.require(config.load(folder), {"rules"})
    assert not list(folder.glob("**/trusted")), "it is kept outside of the folder"


def test_a_folder_of_settings_is_no_relative_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Relative to the working folder, the file could bring the trust along."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for named in ("", ".", "data"):
        monkeypatch.setenv("XDG_DATA_HOME", named)
        assert user_folder("XDG_DATA_HOME", ".local/share") == tmp_path / ".local" / "share" / "edgec"


def test_harmless_lines_need_none(folder: Path) -> None:
    say(
        folder,
        'compiler = "clang"\nout = "built"\ndevice = "raspberry_pi_5"\n[shape]\ncompiler = [1]\nout = [2]\n'
        '[tune]\nlink = "qemu"\n[build]\nsave_stages = "stages"\n',
    )
    assert trusted.statements(config.load(folder)) == {}


#: Options of single commands that name what is only read.
READ = {"data", "inputs", "labels", "lock", "property", "source"}


def test_every_path_of_a_command_is_judged() -> None:
    """Options that name a written file are known to `trusted`: a new one of a command is not forgotten."""
    told = {}
    for kept in typer.main.get_command(app).commands.values():  # type: ignore[attr-defined]
        for each in getattr(kept, "commands", {"": kept}).values():
            if any(p.name == "device" for p in each.params):  # it takes the shared options, and so an edgec.toml
                told.update({p.name: p for p in each.params if p.param_type_name == "option"})
    paths = {n for n, p in told.items() if p.metavar in ("DIR", "FILE", "PATH", "LINK", "PYTHON", "ADDRESS", "PEER")}
    own = {n for n in paths if n not in OPTIONS}
    assert {"python", "keep", "write_adapter"} <= own and own == (READ & own) | (set(trusted._OWN) & own)
    shared = {k for k, o in OPTIONS.items() if o.metavar in ("FILE", "PATH")}
    written = {k for k, o in OPTIONS.items() if o.writes}
    assert shared == written | {"calibrate", "chat_template", "masks", "retrain"} and "retrain_state" in written


def test_every_option_that_takes_code_says_so() -> None:
    """A folder, or a command: the table marks it, so that a new option of this kind is not forgotten."""
    folders = {k for k, o in OPTIONS.items() if o.metavar == "DIR"}
    assert {k for k, o in OPTIONS.items() if o.runs("./x")} == {*folders - {"devices"}, "compiler"}


@pytest.mark.parametrize(
    "line",
    [
        *(f'cflags = ["{flag}"]' for flag in ("-wrapper", "-fplugin=x.so", "-specs=x", "@x", "-B.", "-Wl,-T,x", "x.c")),
        'cflags = ["-mllvm"]',
        'compiler = "/tmp/evil"',
        'compiler = "evil"',
        'gcc_target = "../evil"',
        'gcc_target = "/tmp/evil"',
        'zig_target = "-x"',
        'zig_mcpu = "a/b"',
    ],
)
def test_device_files_name_no_programs(tmp_path: Path, line: str) -> None:
    """They are data: `device` and `devices` of an edgec.toml need no trust."""
    path = tmp_path / "mine.toml"
    path.write_text(f'base = "cortex_m"\n[toolchain]\n{line}\n')
    with pytest.raises(DeviceError, match="must not be"):
        load_device(path)
