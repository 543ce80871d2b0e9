"""Graphs kept as lines of a file: how many nodes, and a checksum of what they are.

``pytest --update-golden`` writes the lines; look at those that changed before they are committed.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from chance import RANDOM

from edgec.errors import EdgecError
from edgec.ir.graph import Graph, Node, topological


def same_draws() -> None:
    """Draws of tests from here on are those that lines were kept of, whatever seed is asked for."""
    RANDOM.bit_generator.state = np.random.default_rng(1).bit_generator.state


def shown(root: Node) -> str:
    """Operators, types, attributes, and the first values of constants to three digits."""
    return _shown(topological([root]))


def _shown(nodes: Iterable[Node]) -> str:
    names: dict[Node, int] = {}
    parts = []
    for n in nodes:
        of = n.value.reshape(-1)[:6].tolist() if n.op == "const" else dict(n.attrs)
        values = [f"{v:.3g}" for v in of] if isinstance(of, list) else of
        parts.append(f"{n.op} {n.type} {values} {[names[a] for a in n.args]}")
        names[n] = len(names)
    return "\n".join(parts)


def line(name: str, graphs: Iterable[Graph]) -> str:
    """The line of some graphs, or of the message of what refuses one."""
    counts, checksum = [], 0
    try:
        for graph in graphs:
            nodes = graph.nodes()
            ends = [*graph.outputs, *graph.demands, *((str(size), node) for size, node in graph.sizes)]
            counts.append(str(len(nodes)))
            text = f"{_shown(nodes)} {[(name, nodes.index(node)) for name, node in ends]}"
            checksum = zlib.crc32(text.encode(), checksum)
    except EdgecError as error:
        return f"{name} | {error.message}".replace("\n", " ")
    return f"{name} | {' '.join(counts)} | {checksum:08x}"


def hold(kept: Path, lines: list[str], update: bool) -> None:
    """Compare lines with those of a file of the same names; with ``update``, put them into their places there."""
    before = kept.read_text(encoding="utf-8").splitlines() if kept.is_file() else []
    known = {text.partition(" | ")[0]: text for text in before}
    if update:
        known |= {text.partition(" | ")[0]: text for text in lines}
        kept.write_text("".join(f"{known[name]}\n" for name in sorted(known)), encoding="utf-8")
    assert [known.get(text.partition(" | ")[0]) for text in lines] == lines, "pytest --update-golden"
