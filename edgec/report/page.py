"""The page of a build: its document and all that draws it, in one HTML file that asks no network for anything."""

from __future__ import annotations

import base64
import gzip
import json
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from edgec.report import diff
from edgec.report.bundle import bundle
from edgec.report.record import Record, finite
from edgec.report.terminal import duration, size
from edgec.text import counted

_FOLDER = Path(__file__).parent / "html"
#: The parts of the page in order, by their id.
VIEWS = (
    ("overview", "Overview"), ("graph", "Graph"), ("kernels", "Kernels"), ("memory", "Memory"),
    ("roofline", "Roofline"), ("errors", "Error"), ("rules", "Rules"), ("refusals", "Refusals"), ("build", "Build"),
)  # fmt: skip


def page(document: Record, token: str | None = None) -> str:
    """The HTML of a document. With a ``token`` it is the live page, which may talk to the server that it came from."""
    found = finite(document)
    packed = gzip.compress(json.dumps(found, ensure_ascii=False, separators=(",", ":")).encode(), 6, mtime=0)
    return _environment().get_template("page.html.jinja").render(
        doc=found, views=VIEWS, data=Markup(base64.b64encode(packed).decode()), live=token is not None, token=token,
        style=Markup(_text("style.css")), vendor=_vendor(), script=Markup(_script()),
    )  # fmt: skip


def diff_page(found: Record) -> str:
    """The HTML of a comparison of two builds."""
    return _environment().get_template("diff.html.jinja").render(diff=found, style=Markup(_text("style.css")))


def advice_page(found: Record, chart: Record) -> str:
    """The HTML of advice, with a chart of its trials."""
    template = _environment().get_template("advise.html.jinja")
    return template.render(advice=found, chart=chart, style=Markup(_text("style.css")))


def sustained_page(found: Record, charts: Sequence[Record]) -> str:
    """The HTML of a network at work for minutes, with a chart of each figure."""
    template = _environment().get_template("sustained.html.jinja")
    return template.render(found=found, charts=charts, style=Markup(_text("style.css")))


def numbers(document: Record) -> str:
    """The types of a network's arithmetic, that of the most of it first: "int8, fp32"."""
    flops: dict[str, float] = {}
    for kernel in document["kernels"]:
        flops[kernel["computes"]] = flops.get(kernel["computes"], 0.0) + kernel["flops"]
    return ", ".join(sorted(flops, key=lambda kind: -flops[kind])) or "no arithmetic"


@cache
def _environment() -> Environment:
    made = Environment(loader=FileSystemLoader(_FOLDER), autoescape=True, undefined=StrictUndefined, trim_blocks=False)
    filters: dict[str, Any] = {
        "size": size,
        "duration": duration,
        "error": lambda value: "differs" if value in (None, float("inf")) else f"{value:.1e}",
        "percent": diff.percent,
        "numbers": numbers,
        "name_of": diff.name_of,
        "counted": counted,
        "none_as_inf": lambda value: float("inf") if value is None else value,
    }
    made.filters.update(filters)
    return made


def _text(name: str) -> str:
    return (_FOLDER / name).read_text(encoding="utf-8")


@cache
def _script() -> str:
    """The page's own code as one script; ``main.mjs`` imports the rest."""
    return bundle(_FOLDER / "modules" / "main.mjs")


@cache
def _vendor() -> dict[str, Any]:
    """The libraries by file name, without the names of maps that are not there."""
    found = {}
    for path in (_FOLDER / "vendor").glob("*.js"):
        text = re.sub(r"^//# sourceMappingURL=.*$", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
        assert "</script" not in text.lower(), path.name
        found[path.name] = Markup(text)
    return found
