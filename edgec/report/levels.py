"""The levels of a library: what each needs of a processor, and what of the whole it takes."""

from __future__ import annotations

from typing import Any

from rich.console import RenderableType

from edgec.artifact.folder import library_name
from edgec.build import Built
from edgec.emit.levels import read_bytes
from edgec.options.dispatch import level_name
from edgec.report.record import Record
from edgec.report.terminal import size, table


def record(built: Built) -> Record | None:
    """The levels of a build, that which asks least first; None where it has one kind of kernels."""
    levels = built.program.levels
    if not levels:
        return None
    library = built.folder / library_name(built.options.name)
    return {
        "library_bytes": library.stat().st_size if library.is_file() else None,
        "levels": [
            {
                "name": level_name(level.device),
                "needs": level.device.needs,
                "kernels": len(level.program.kernels),
                "arena_bytes": level.program.arena_bytes,
                "weights_bytes": read_bytes(level.program),
            }
            for level in levels
        ],
    }


def draw(found: dict[str, Any]) -> RenderableType:
    """The levels as a table, and the size of the library."""
    library = found["library_bytes"]
    told = f", {size(library)} compiled" if library is not None else ""
    drawn = table("level", "needs", ">kernels", ">arena", ">weights", title=f"Levels of one library{told}")
    for entry in found["levels"]:
        figures = (str(entry["kernels"]), size(entry["arena_bytes"]), size(entry["weights_bytes"]))
        drawn.add_row(entry["name"], entry["needs"], *figures)
    return drawn
