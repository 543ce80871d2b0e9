"""What doctor says is needed: every program that edgec starts and every device's compiler, with its install command."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import edgec
from edgec.device.load import list_devices
from edgec.emit.extras import APPS, BINDINGS
from edgec.report.doctor import doctor
from edgec.report.tools import NEEDS, Need, compilers_of_devices

SOURCES = "\n".join(p.read_text() for p in Path(edgec.__file__).parent.rglob("*.py"))


def test_every_program_that_edgec_starts_is_known() -> None:
    started = set(re.findall(r"(?:\btool|which)\(\"([\w-]+)\"", SOURCES)) | set(
        re.findall(r"\"(qemu-\w+)\"", (Path(edgec.__file__).parent / "link" / "local.py").read_text())
    )
    known = {program for need in NEEDS for program in need.programs}
    assert {"adb", "ssh", "node", "javac"} <= started
    assert started - known == {"qemu-x86_64"}  # of this machine's own kind


def test_every_app_binding_and_extra_is_served() -> None:
    told = " ".join(need.serves for need in NEEDS)
    assert [name for name in APPS if name not in told] == []
    assert [name for name in BINDINGS if name not in ("cpp", "python") and name not in told] == []
    for extra in ("farm", "prove", "serve", "tflite", "zig"):
        assert any(f"edgec[{extra}]" in need.install for need in NEEDS), extra


def test_every_device_with_a_compiler_of_its_own_is_served() -> None:
    served = {name for need in compilers_of_devices() for name in need.serves.removeprefix("devices ").split(", ")}
    assert served == {d.name for d in list_devices() if d.toolchain.gcc_target}


def test_what_is_missing_is_named_with_its_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    rows = {row["name"]: row for row in doctor()["checks"]}
    assert not rows["cmake"]["ok"] and rows["cmake"]["hint"] == "apt install cmake"
    assert not rows["Android's tools"]["ok"] and "missing: smali, aapt2, apksigner" in rows["Android's tools"]["hint"]
    assert all(row["serves"] for name, row in rows.items() if row["hint"] and row["optional"])


def test_something_that_has_to_be_there() -> None:
    gone = Need("gone", "everything", "pip install gone", packages=("no_such_package",), is_optional=False)
    assert gone.missing == ["no_such_package"] and Need("here", "all", "", programs=("sh",)).missing == []
