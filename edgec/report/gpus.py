"""Networks for several GPUs: what crosses between them, and the predicted times."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.markup import escape

from edgec.distribute.gpus import BuiltGpus
from edgec.report.record import Record, head
from edgec.report.terminal import size
from edgec.text import counted


def record(built: BuiltGpus) -> Record:
    """A network as it was built for several GPUs, or for one where these do not pay."""
    return {
        **head("build"), "folder": str(built.folder), "gpus": built.gpus, "verdict": built.verdict,
        "ms": built.seconds * 1e3, "alone_ms": built.alone_s * 1e3, "sums": built.sums, "gathers": built.gathers,
        "chunks": built.chunks,
        "kernels": built.kernels, "arena_bytes": built.program.arena_bytes,
        "weights_bytes": built.program.weights_bytes,
    }  # fmt: skip


def draw(found: Record) -> RenderableType:
    """The verdict, and what each GPU holds."""
    each = "each has " if found["gpus"] > 1 else ""
    arenas = "of arena" if found["chunks"] == 1 else f"in each of {found['chunks']} arenas"
    return Group(
        f"{escape(found['folder'])}: for {counted(found['gpus'], 'GPU')}",
        escape(found["verdict"]),
        f"{each}{counted(found['kernels'], 'kernel')}, {size(found['weights_bytes'])} of weights, "
        f"{size(found['arena_bytes'])} {arenas}",
    )
