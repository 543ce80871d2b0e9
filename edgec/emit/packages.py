"""Packages of apps: folders with sources, headers and weights of their own, to be copied or sent as they are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePosixPath

from edgec.emit.apps import Extra
from edgec.files import zipped

#: Headers of what a board's own tools have for themselves.
_NOT_PACKAGED = frozenset(["ec_board.h"])


def place_of(wanted: Iterable[Extra], place: str) -> str:
    """The place of weights: the tools of boards assemble no files of bytes, and packages have them as an array."""
    return "array" if place == "incbin" and any(extra.package for extra in wanted) else place


def packaged(
    wanted: Iterable[Extra], name: str, files: Mapping[str, bytes], compiled: Sequence[str]
) -> dict[str, bytes]:
    """The content of packages beside their own files: ``compiled`` and the headers in ``src``, and the archives."""
    headers = [path for path in files if "/" not in path and path.endswith((".h", ".hpp"))]
    shared = [path for path in headers if path not in _NOT_PACKAGED]
    found: dict[str, bytes] = {}
    for extra in wanted:
        if not extra.package:
            continue
        folder = extra.package.format(name=name)
        found |= {f"{folder}/src/{path}": files[path] for path in (*compiled, *sorted(shared))}
        if extra.archive:
            archive = extra.archive.format(name=name)
            inside = {p: c for p, c in (*files.items(), *found.items()) if p.startswith(f"{folder}/")}
            found[archive] = zipped(
                {str(PurePosixPath(p).relative_to(PurePosixPath(archive).parent)): inside[p] for p in sorted(inside)}
            )
    return found
