"""Compilers and packages on this machine, and those that are missing."""

from __future__ import annotations

import platform
from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.text import Text

from edgec.device.load import load_device
from edgec.device.toolchain import find_compilers
from edgec.errors import EdgecError
from edgec.report.record import Record, head
from edgec.report.terminal import table
from edgec.report.tools import NEEDS, compilers_of_devices
from edgec.version import __version__


def doctor() -> Record:
    """Every check, with the features it serves; ``ok`` when edgec can build and run a network here."""
    checks = [_row("edgec", True, f"{__version__} on Python {platform.python_version()}, {platform.platform()}")]
    checks += _machine()
    for need in (*compilers_of_devices(), *NEEDS):
        absent = need.missing
        hint = f"{need.install} (missing: {', '.join(absent)})" if absent and absent != [need.name] else need.install
        checks.append(_row(need.name, not absent, need.found, hint, need.is_optional, need.serves))
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
        rows.append(_row("C compiler", False, "", "pip install ziglang, or apt install gcc", serves="edgec build"))
    return rows


def _row(name: str, ok: bool, detail: str, hint: str = "", optional: bool = False, serves: str = "") -> Record:
    return {"name": name, "ok": ok, "optional": optional, "serves": serves, "detail": detail, "hint": hint}


def draw(found: Record) -> RenderableType:
    """A line a check, and what each missing one is for; then the verdict."""
    drawn = table("", "", "", "")
    for c in found["checks"]:
        absent = Text("optional", style="yellow") if c["optional"] else Text("missing", style="red")
        mark = Text("ok", style="green") if c["ok"] else absent
        told = c["detail"] if c["ok"] else c["hint"]
        drawn.add_row(escape(c["name"]), mark, escape(c["serves"]), escape(told))
    return Group(drawn, Text(verdict(found["checks"]), style="green" if found["ok"] else "red"))


def verdict(checks: Sequence[Record]) -> str:
    """The rows in a sentence: tools that must be there, else how many are not that single features need."""
    needed = [c["name"] for c in checks if not c["ok"] and not c["optional"]]
    if needed:
        return f"edgec cannot build and run a network here without: {', '.join(needed)}"
    absent = sum(not c["ok"] for c in checks)
    if not absent:
        return "everything is here"
    which = "1 optional tool is" if absent == 1 else f"{absent} optional tools are"
    return f"edgec can build and run a network here; {which} not here, for the features beside them"
