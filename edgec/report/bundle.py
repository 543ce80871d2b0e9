"""One script out of ES modules: the files that an entry imports, each after those that it imports itself.

The page of a report is a single file that also works from a disk, where a browser loads no module by its path. So the
modules become one, in an order in which every name is defined before it is used. Two rules keep this simple: modules
import and export declarations by their own names, and a name at the top of a module is not used at the top of another.
A browser refuses a script that breaks the second rule; this module refuses what breaks the first.
"""

from __future__ import annotations

import re
from pathlib import Path

_IMPORT = re.compile(r'^import (?:\{\s*[\w$]+(?:,\s*[\w$]+)*,?\s*\} from )?"(\.{1,2}/[^"\n]+)";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?function|const|let|class)", re.MULTILINE)
_OTHER = re.compile(r"^(?:import|export)\b.*$", re.MULTILINE)


def bundle(entry: Path) -> str:
    """The text of all modules that ``entry`` needs, itself last. Raises ValueError for a circle or another syntax."""
    return "\n".join(_plain(path) for path in modules(entry))


def modules(entry: Path) -> list[Path]:
    """The files that ``entry`` needs, in the order in which a browser would run them."""
    done: list[Path] = []
    _visit(entry.resolve(), (), done)
    return done


def _visit(path: Path, importers: tuple[Path, ...], done: list[Path]) -> None:
    if path in importers:
        circle = " -> ".join(p.name for p in (*importers[importers.index(path) :], path))
        raise ValueError(f"modules import each other in a circle: {circle}")
    if path in done:
        return
    for target in _IMPORT.findall(path.read_text(encoding="utf-8")):
        _visit((path.parent / target).resolve(), (*importers, path), done)
    done.append(path)


def _plain(path: Path) -> str:
    """The text of a module without its imports and the word ``export``."""
    text = _EXPORT.sub("", _IMPORT.sub("", path.read_text(encoding="utf-8")))
    if (other := _OTHER.search(text)) is not None:
        raise ValueError(f"{path.name}: cannot be bundled: {other[0]}")
    return text
