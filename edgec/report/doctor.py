"""Compilers and packages on this machine, and those that are missing."""

from __future__ import annotations

import importlib.util
import platform
from importlib import metadata

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.text import Text

from edgec.device.load import load_device
from edgec.device.toolchain import find_compilers
from edgec.errors import EdgecError
from edgec.report.record import Record, head
from edgec.report.terminal import table
from edgec.version import __version__

#: Packages that edgec uses: name, purpose, and whether it is optional.
_PACKAGES = (
    ("numpy", "arrays", False),
    ("onnx", "reading models", False),
    ("onnxruntime", "check and bench", True),
    ("tflite", "reading TensorFlow Lite models", True),
    ("ai_edge_litert", "check of TensorFlow Lite models", True),
    ("ziglang", "a C compiler from PyPI, for this machine and for others", True),
)


def doctor() -> Record:
    """Every check; ``ok`` when edgec can build and run a network here."""
    checks = [_row("edgec", True, f"{__version__} on Python {platform.python_version()}, {platform.platform()}")]
    for name, purpose, optional in _PACKAGES:
        found = importlib.util.find_spec(name) is not None
        detail = f"{_version(name)}, for {purpose}" if found else ""
        checks.append(_row(name, found, detail, f"pip install {name}: {purpose}", optional))
    checks += _machine()
    return {**head("doctor"), "ok": all(c["ok"] or c["optional"] for c in checks), "checks": checks}


def _machine() -> list[Record]:
    try:
        host = load_device("host")
    except EdgecError as error:
        return [_row("this machine", False, "", error.message)]
    sets = " ".join(host.instruction_sets) or "no vector instructions known"
    detail = f"{host.description}; {host.cores} cores, {host.vector_bytes}-byte vectors, {sets}"
    rows = [_row("this machine", True, detail)]
    compilers = find_compilers(host)
    for compiler in compilers:
        rows.append(_row(f"C compiler: {compiler.kind}", True, str(compiler)))
    if not compilers:
        rows.append(_row("C compiler", False, "", "pip install ziglang, or install gcc or clang"))
    return rows


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "version unknown"


def _row(name: str, ok: bool, detail: str, hint: str = "", optional: bool = False) -> Record:
    return {"name": name, "ok": ok, "optional": optional, "detail": detail, "hint": hint}


def draw(found: Record) -> RenderableType:
    """A line a check, and the verdict."""
    drawn = table("", "", "")
    for c in found["checks"]:
        mark = Text("ok", style="green") if c["ok"] else Text("missing", style="yellow" if c["optional"] else "red")
        drawn.add_row(c["name"], mark, escape(c["detail"] if c["ok"] else c["hint"]))
    last = "everything that is needed is here" if found["ok"] else "something that is needed is missing"
    return Group(drawn, Text(last, style="green" if found["ok"] else "red"))
