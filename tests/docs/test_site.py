"""The documentation as a site: every page has a place, and it builds without a warning and without a network."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BESIDE = {"ARCHITECTURE.md", "CHANGELOG.md"}


def listed() -> list[str]:
    """The pages of the navigation, in order."""
    _, _, nav = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")
    return re.findall(r": (\S+\.md)$", nav, re.MULTILINE)


def written() -> set[str]:
    docs = ROOT / "docs"
    own = {path.relative_to(docs) for path in docs.rglob("*.md")}
    return {path.as_posix() for path in own if path.parts[0] != "examples"} | BESIDE


def test_every_page_is_in_the_navigation_once() -> None:
    assert len(listed()) == len(set(listed())) and set(listed()) == written()


def test_every_page_is_in_the_list_of_pages() -> None:
    text = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    assert [page for page in listed() if page not in text and page != "README.md"] == []


def test_it_builds_and_finds_every_page(tmp_path: Path) -> None:
    """Strictly: a page, link or anchor that is not there is an error. No page loads anything from another server."""
    pytest.importorskip("material", reason="pip install 'edgec[docs]'")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-q", "-f", ROOT / "mkdocs.yml", "-d", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    index = json.loads((tmp_path / "search" / "search_index.json").read_text(encoding="utf-8"))
    found = {entry["location"].partition("#")[0].rstrip("/") for entry in index["docs"]}
    assert found == {page.removesuffix(".md").removesuffix("README") for page in written()}
    for page in tmp_path.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        assert not re.search(r"<(script|link|img|iframe)\b[^>]*\b(src|href)=\"?(https?:)?//", text), page
        assert "](" not in re.sub(r"<(pre|code)\b.*?</\1>", "", text, flags=re.DOTALL), f"a link was not made in {page}"
