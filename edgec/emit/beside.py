"""Files beside those of a network, made of a program over the same weights: a training, or bounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgec.emit.language import Language
from edgec.emit.render import render
from edgec.emit.source import grouped


@dataclass(frozen=True)
class FilesBeside:
    """The files by path, those that are compiled, those that callers include, and their entry in the lock."""

    files: Mapping[str, bytes]
    sources: list[str]
    headers: list[str]
    described: Mapping[str, Any]


def files_beside(
    language: Language,
    prefix: str,
    pages: Mapping[str, str],
    templates: Sequence[Path],
    values: Mapping[str, Any],
    described: Mapping[str, Any],
    more: Mapping[str, bytes] = {},
) -> FilesBeside:
    """The ``pages``, templates by path, and the kernels of ``values["sources"]``, whose files begin with ``prefix``.

    ``more`` are other files, ``described`` is the entry in the lock.
    """
    template, pattern = language.kernels
    files = {path: render(page, templates, **values).encode() for path, page in pages.items()}
    groups = grouped(values["sources"].functions)
    kernels = [pattern.format(name=prefix, k=k) for k in range(len(groups))]
    for path, group in zip(kernels, groups):
        files[path] = render(template, templates, **values, group=group).encode()
    sources = [*(path for path in pages if not path.endswith(".h")), *kernels]
    headers = [path for path in pages if path.endswith(".h") and not path.endswith("_kernels.h")]
    return FilesBeside({**files, **more}, sources, headers, described)
