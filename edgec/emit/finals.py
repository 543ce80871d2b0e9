"""Outputs that are final while others are computed: the kernels after which a program tells that they are.

The metadata of a graph ask for it. What an output lies in may be written by several kernels; the last of them counts.
"""

from __future__ import annotations

from collections.abc import Mapping

from edgec.schedule.program import Program

#: The key of a graph's metadata that asks for it.
KEY = "tells of outputs"


def finals(program: Program) -> Mapping[int, int]:
    """The number of outputs, the first ones in order, final after a kernel, by its number; none where nobody asks.

    What is final after the last kernel is known without being told.
    """
    if KEY not in program.graph.metadata:
        return {}
    last = {kernel.writes: number for number, kernel in enumerate(program.kernels)}
    found: dict[int, int] = {}
    latest = -1
    for count, (_, buffer, _) in enumerate(program.outputs, 1):
        if buffer not in last:
            break
        latest = max(latest, last[buffer])
        found[latest] = count
    return {number: count for number, count in found.items() if number + 1 < len(program.kernels)}
