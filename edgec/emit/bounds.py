"""The bounds of a network in C: the program that computes them, and the function around it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from edgec.device.device import Device
from edgec.emit.beside import FilesBeside, files_beside
from edgec.emit.interface import described
from edgec.emit.language import language_of
from edgec.errors import UsageError
from edgec.schedule.program import Program


def bounds_files(
    program: Program, device: Device, name: str, templates: Sequence[Path], values: Mapping[str, Any]
) -> FilesBeside:
    """The files of the bounds of a program. Raises UsageError for weights that are read while the network runs."""
    bounds = program.bounds
    assert bounds is not None
    language = language_of(device)
    if values["weights"].place == "stream":
        raise UsageError("weights are not streamed through bounds", hint="leave out --weights stream", where="--bounds")
    prefix = f"{name}_interval"
    own = described(bounds, prefix, templates, language)
    *given, eps = own["inputs"]
    pairs = [
        (port.name, low.name, high.name)
        for port, low, high in zip(values["outputs"], own["outputs"][::2], own["outputs"][1::2], strict=True)
    ]
    more = {
        **values, **own, "shares_weights": name, "model": None, "single": None, "decoder": None,
        "network": name, "NETWORK": name.upper(), "given": given, "eps": eps, "results": own["outputs"],
        "pairs": pairs,
    }  # fmt: skip
    pages = {path.format(name=name, step=prefix): page for path, page in language.bounds.items()}
    entry = {"arena_bytes": bounds.arena_bytes, "kernels": len(bounds.kernels)}
    return files_beside(language, prefix, pages, templates, more, entry)
