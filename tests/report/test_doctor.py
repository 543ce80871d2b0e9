"""What doctor says is needed: every program that edgec starts and every device's compiler, with its install command."""

from __future__ import annotations

import ast
import io
import re
import sys
from pathlib import Path

import pytest
from rich.console import Console

import edgec
from edgec.device.load import list_devices
from edgec.emit.apps import APPS, BINDINGS
from edgec.report.doctor import doctor, draw, verdict
from edgec.report.tools import NEEDS, Need, compilers_of_devices

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

#: Packages that others bring with them, and two that type checkers alone need.
COME_WITH_OTHERS = {"_typeshed", "anyio", "dask", "flatbuffers", "google", "markupsafe", "typing_extensions"}
SOURCES = "\n".join(p.read_text() for p in Path(edgec.__file__).parent.rglob("*.py"))


def test_every_program_that_edgec_starts_is_known() -> None:
    started = set(re.findall(r"(?:\btool|which)\(\"([\w-]+)\"", SOURCES)) | set(
        re.findall(r"\"(qemu-\w+)\"", (Path(edgec.__file__).parent / "link" / "local.py").read_text())
    )
    known = {program for need in NEEDS for program in need.programs}
    assert {"adb", "ssh", "node", "javac"} <= started
    assert started - known == {"qemu-x86_64"}  # of this machine's own kind


def test_every_package_that_is_imported_is_known() -> None:
    """But those that edgec itself depends on."""
    imported = set()
    for source in Path(edgec.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.level == 0:
                imported.add((node.module or "").partition(".")[0])
            elif isinstance(node, ast.Import):
                imported |= {alias.name.partition(".")[0] for alias in node.names}
    project = tomllib.loads((Path(edgec.__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    own = {re.split(r"[^\w-]", line)[0] for line in project["dependencies"]}
    known = {package for need in NEEDS for package in need.packages}
    assert {"torch", "onnxruntime_genai"} <= imported & known
    assert imported - known - own - set(sys.stdlib_module_names) - {"edgec"} == COME_WITH_OTHERS


def test_the_verdict_agrees_with_the_rows() -> None:
    here, optional = {"name": "a", "ok": True, "optional": False}, {"name": "b", "ok": False, "optional": True}
    assert verdict([here]) == "everything is here"
    assert verdict([here, optional]).endswith("1 optional tool is not here, for the features beside them")
    assert "2 optional tools are not here" in verdict([optional, here, optional])
    assert verdict([here, optional, {**here, "ok": False}]).endswith("without: a")


def test_a_row_that_is_optional_is_not_called_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    found = doctor()
    console = Console(width=300, record=True, file=io.StringIO())
    console.print(draw(found))
    lines = {line.split("  ")[0].strip(): line for line in console.export_text().splitlines()}
    for row in found["checks"]:
        word = "ok" if row["ok"] else "optional" if row["optional"] else "missing"
        assert re.search(rf"\s{word}\s", lines[row["name"]]), row["name"]


def test_every_app_binding_and_extra_is_served() -> None:
    told = " ".join(need.serves for need in NEEDS)
    assert [name for name in APPS if name not in told] == []
    assert [name for name in BINDINGS if name not in ("cpp", "python") and name not in told] == []
    for extra in ("farm", "prove", "serve", "tflite", "torch", "zig"):
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
