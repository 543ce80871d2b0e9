"""Parts of a batch that GPUs compute in turns, so that values of one part cross while kernels of another run."""

from __future__ import annotations

from collections.abc import Sequence

from edgec.distribute.offers import Offers
from edgec.distribute.sweep import Exchange
from edgec.errors import UsageError
from edgec.ir.graph import Graph
from edgec.options import Options

#: Parts of a batch. With two, an exchange of each hides behind the kernels of the other.
CHUNKS = 2
#: The part of an exchange's time that kernels beside it lose, which share multiprocessors and memory with it: of H200.
LOST = 0.5
#: Exchanges that no division chooses: what it finds then crosses nowhere.
_NEVER = Exchange(CHUNKS, 1e6, 1e-6)


def chunk_of(graph: Graph, options: Options, alone_s: float) -> tuple[Graph, frozenset[str]] | None:
    """The graph of one of `CHUNKS` equal parts of a batch, and the names of the inputs and outputs that it divides.

    None where samples meet, where the parts would not be of one graph, or where an output is no part of the batch.
    """
    try:
        found = Offers.of(graph, options, CHUNKS, alone_s, "rows").division(_NEVER)
    except UsageError:
        return None
    first, *others = found.graphs
    is_one = all(other.outputs == first.outputs and other.inputs == first.inputs for other in others)
    if found.sums or found.gathers or not is_one or not {name for name, _ in graph.outputs} <= found.slices:
        return None
    return first, found.slices


def overlapped(steps: Sequence[tuple[float, float]], chunks: int) -> float:
    """Seconds of a run whose steps are kernels and then an exchange, of each of so many parts of a batch.

    Kernels of one part run at a time, and one exchange; both at once, for which kernels pay with `LOST`.
    """
    lost = LOST if chunks > 1 else 0.0
    computing = exchanging = 0.0
    ready = [0.0] * chunks
    for kernels_s, exchange_s in steps:
        for chunk in range(chunks):
            computing = max(computing, ready[chunk]) + kernels_s
            if exchange_s:
                exchanging = max(exchanging, computing) + exchange_s
                computing += lost * exchange_s
            ready[chunk] = exchanging if exchange_s else computing
    return max(ready)
