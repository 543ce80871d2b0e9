"""Every relative link of every page of the repository leads to a file, and to a heading of it where it names one."""

from __future__ import annotations

import json
import os
import re
import subprocess
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]
CODE = ("edgec", "tests", "benchmarks", "codegen_templates", "rewrite_rules", "apps", "devices")
SKIPPED = {".git", ".venv", "build", "dist", "out", "node_modules"}


class Link(NamedTuple):
    """A relative link: the path (empty for the page itself) and the heading's anchor (empty for none)."""

    path: str
    anchor: str


def pages() -> list[Path]:
    """All Markdown files and notebooks of the repository."""
    found = []
    for folder, inside, names in os.walk(ROOT):
        inside[:] = [name for name in inside if name not in SKIPPED]
        found += [Path(folder, name) for name in names if name.endswith((".md", ".ipynb"))]
    return sorted(found)


def written(page: Path) -> str:
    """The Markdown of a page; of a notebook, that of its cells of text."""
    text = page.read_text(encoding="utf-8")
    if page.suffix != ".ipynb":
        return text
    return "\n\n".join("".join(c["source"]) for c in json.loads(text)["cells"] if c["cell_type"] == "markdown")


def prose(page: Path) -> str:
    """The text of a page without code, fenced or in a line."""
    text = re.sub(r"^(```|~~~).*?^\1", "", written(page), flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"`[^`\n]*`", "", text)


def links(page: Path) -> list[Link]:
    targets = re.findall(r"\]\(\s*([^)\s]+)(?:\s+\"[^\"]*\")?\s*\)", prose(page))
    inside = [target for target in targets if not re.match(r"[a-z]+:", target)]
    return [Link(*target.partition("#")[::2]) for target in inside]


@cache
def anchors(page: Path) -> frozenset[str]:
    """The anchors that GitHub makes of a page's headings."""
    text = re.sub(r"^(```|~~~).*?^\1", "", written(page), flags=re.DOTALL | re.MULTILINE)
    headings = re.findall(r"^#{1,6} +(.+?) *#*$", text, re.MULTILINE)
    found: set[str] = set()
    for heading in headings:
        shown = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        anchor = re.sub(r"[^\w\- ]", "", shown.lower()).replace(" ", "-")
        count = 1
        unique = anchor
        while unique in found:
            unique, count = f"{anchor}-{count}", count + 1
        found.add(unique)
    return frozenset(found)


def broken(page: Path) -> list[str]:
    """The links of a page that lead nowhere."""
    wrong = []
    for path, anchor in links(page):
        target = page.parent / path if path else page
        if not target.exists() or (
            anchor and (target.suffix not in (".md", ".ipynb") or anchor not in anchors(target.resolve()))
        ):
            wrong.append(f"{path}#{anchor}" if anchor else path)
    return wrong


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page: Path) -> None:
    assert broken(page) == []


def test_every_page_is_in_the_index() -> None:
    index = ROOT / "docs" / "README.md"
    listed = {(index.parent / path).resolve() for path, _ in links(index) if path}
    known = [page for page in pages() if page.is_relative_to(ROOT / "docs") and page != index]
    unlisted = [page for page in known if page.resolve() not in listed]
    assert unlisted == []


def test_paths_of_pages_in_sources_exist() -> None:
    """Docstrings, messages and commands name pages by their path from the root."""
    grep = [
        "git",
        "grep",
        "-hoE",
        r"\bdocs/[A-Za-z0-9_/-]+\.(md|png|svg)",
        "--",
        "*.py",
        "*.jinja",
        "*.h",
        "*.c",
        "*.json",
    ]
    named = subprocess.run(grep, cwd=ROOT, capture_output=True, text=True).stdout.split()
    foreign = {"docs/developer-guide/arm-a53-a55-dual-issue.md"}  # of ncnn
    assert sorted(path for path in set(named) - foreign if not (ROOT / path).exists()) == []


def missing_code(page: Path) -> list[str]:
    """The files and modules of the repository that a page names although they do not exist."""
    text = written(page)
    paths = re.findall(rf"(?<![\w/.-])((?:{'|'.join(CODE)})(?:/[\w.-]*\w)+)(?![\w*/])", text)
    modules = re.findall(r"python -m (benchmarks(?:\.[a-z_0-9]+)+)", text)
    files = {module.replace(".", "/") for module in modules}
    runs = {name if (ROOT / name / "__main__.py").exists() else name + ".py" for name in files}
    return sorted(name for name in {*paths, *runs} if not (ROOT / name).exists())


@pytest.mark.parametrize(
    "page",
    [page for page in pages() if page.name != "CHANGELOG.md"],
    ids=lambda page: page.relative_to(ROOT).as_posix(),
)
def test_code_that_pages_name_exists(page: Path) -> None:
    assert missing_code(page) == []


def test_missing_code_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "`edgec/gone.py`, `edgec/api.py`, `tests/random/onnx_recipes_*.py`, `python -m benchmarks.gone.far --x`"
    )
    assert missing_code(page) == ["benchmarks/gone/far.py", "edgec/gone.py"]


def test_a_broken_link_is_found(tmp_path: Path) -> None:
    (tmp_path / "other.md").write_text("# Title\n\n## A `b` c\n\n```sh\n# no heading\n```\n")
    page = tmp_path / "page.md"
    page.write_text(
        "[a](other.md) [b](other.md#a-b-c) [c](#here) `[d](code.md)` [e](https://example.org)\n\n# Here\n"
        "[f](gone.md) [g](other.md#no-heading) [h](#there)\n"
    )
    assert broken(page) == ["gone.md", "other.md#no-heading", "#there"]


def test_a_broken_link_of_a_notebook_is_found(tmp_path: Path) -> None:
    text = {"cell_type": "markdown", "source": ["# Here\n", "[a](gone.md) [b](#here) [c](#there)"]}
    cells = [text, {"cell_type": "code", "source": ["[d](code.md)"]}]
    page = tmp_path / "page.ipynb"
    page.write_text(json.dumps({"cells": cells}), encoding="utf-8")
    assert broken(page) == ["gone.md", "#there"]
