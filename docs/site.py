"""Hooks of MkDocs for the site of the documentation (mkdocs.yml): more pages, and links to what is no page as text.

Notebooks become pages of their cells and stored outputs; the site has their files too.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

#: Pages beside the folder of the documentation.
BESIDE = ("ARCHITECTURE.md", "CHANGELOG.md")
ROOT = Path(__file__).resolve().parents[1]
_LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)\s:#]+)(#[^)\s]*)?\)")


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that are beside the folder, and those of the notebooks."""
    for name in BESIDE:
        files.append(File.generated(config, name, content=(ROOT / name).read_text(encoding="utf-8")))
    for path in sorted((ROOT / "docs").rglob("*.ipynb")):
        page = path.relative_to(ROOT / "docs").with_suffix(".md").as_posix()
        files.append(File.generated(config, page, content=notebook(path)))
    return files


def notebook(path: Path) -> str:
    """The Markdown of a notebook: text, code, and what the code printed or gave when the file was written."""
    parts = []
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
            continue
        shell, _, commands = source.partition("%%sh\n")
        parts.append(_block("sh", commands) if commands and not shell else _block("python", source))
        parts += [_block('{.text title="Output"}', text) for output in cell["outputs"] if (text := _text(output))]
    parts.append(f'<a href="{path.name}" download>This page as a notebook</a>')
    return "\n\n".join(parts) + "\n"


def _block(language: str, text: str) -> str:
    return f"```{language}\n{text.rstrip()}\n```"


def _text(output: dict[str, Any]) -> str:
    """The text of an output: of a stream, or of a result."""
    return "".join(output["text"] if "text" in output else output.get("data", {}).get("text/plain", ""))


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
        target = target.with_suffix(".md") if target.suffix == ".ipynb" else target
    else:
        return text
    up = "../" * where.count("/")
    return f"[{text}]({up}{target.as_posix()}{anchor})"
