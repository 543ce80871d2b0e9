"""Hooks of MkDocs for the site of the documentation (mkdocs.yml): more pages, and links to what is no page as text."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

#: Pages beside the folder of the documentation.
BESIDE = ("ARCHITECTURE.md", "CHANGELOG.md")
ROOT = Path(__file__).resolve().parents[1]
_LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)\s:#]+)(#[^)\s]*)?\)")


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that are beside the folder."""
    for name in BESIDE:
        files.append(File.generated(config, name, content=(ROOT / name).read_text(encoding="utf-8")))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Links as the site has its pages, and blocks of code without the names of their files."""
    where = page.file.src_uri
    folder = ROOT if where in BESIDE else (ROOT / "docs" / where).parent
    plain = re.sub(r"^(```\w+) .*$", r"\1", markdown, flags=re.MULTILINE)
    parts = re.split(r"(^```.*?^```|`[^`\n]*`)", plain, flags=re.DOTALL | re.MULTILINE)
    parts[::2] = [_LINK.sub(lambda found: _link(found, folder, where), part) for part in parts[::2]]
    return "".join(parts)


def _link(found: re.Match[str], folder: Path, where: str) -> str:
    """A link to a page or to a picture, by its place on the site; the text alone where the site has no such file."""
    text, path, anchor = found[1], (folder / found[2]).resolve(), found[3] or ""
    if path.name in BESIDE and path.parent == ROOT:
        target = Path(path.name)
    elif path.is_relative_to(ROOT / "docs") and path.is_file() and "examples" not in path.parts:
        target = path.relative_to(ROOT / "docs")
    else:
        return text
    up = "../" * where.count("/")
    return f"[{text}]({up}{target.as_posix()}{anchor})"
