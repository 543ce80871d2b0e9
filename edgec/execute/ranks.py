"""The programs of several GPUs in numpy: each in a thread of its own, which meet where values are exchanged."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import replace

import numpy as np

from edgec.ir.graph import Node
from edgec.ops.ranks import Absent, Meeting
from edgec.schedule.program import Program

Arrays = Mapping[str, np.ndarray]


def run_ranks(
    program: Program, inputs: Arrays, run: Callable[[Program, Arrays], dict[str, np.ndarray]]
) -> dict[str, np.ndarray]:
    """The outputs of the whole network from those of its ranks, each of which ``run`` computes."""
    assert program.ranks is not None
    programs = [replace(program, ranks=None), *program.ranks.others]
    meeting = Meeting(len(programs))
    whole_inputs = {str(n.attributes["name"]): n for n in program.ranks.graph.inputs}

    def one(rank: int) -> dict[str, np.ndarray]:
        own = programs[rank]
        given = dict(inputs)
        for name, _, n in own.inputs:
            axis = _axis(n, whole_inputs[name])
            if axis is not None:
                given[name] = np.split(np.asarray(inputs[name]), len(programs), axis)[rank]
        try:
            return copy_context().run(_joined, meeting, rank, run, own, given)
        except BaseException:
            meeting.leave()
            raise

    with ThreadPoolExecutor(len(programs)) as pool:
        futures = [pool.submit(one, rank) for rank in range(len(programs))]
    failures = [error for f in futures if (error := f.exception()) is not None]
    if failures:
        raise next((e for e in failures if not isinstance(e, Absent)), failures[0])
    found = [f.result() for f in futures]
    wholes = dict(program.ranks.graph.outputs)
    return {name: _put_together(n, wholes[name], [f[name] for f in found]) for name, _, n in program.outputs}


def _joined(
    meeting: Meeting, rank: int, run: Callable[[Program, Arrays], dict[str, np.ndarray]], own: Program, given: Arrays
) -> dict[str, np.ndarray]:
    meeting.join(rank)
    return run(own, given)


def _axis(mine: Node, whole: Node) -> int | None:
    """The dimension of which a rank has a slice; None where it has all."""
    return next((d for d, (a, b) in enumerate(zip(mine.type.shape, whole.type.shape)) if a != b), None)


def _put_together(mine: Node, whole: Node, parts: Sequence[np.ndarray]) -> np.ndarray:
    axis = _axis(mine, whole)
    return parts[0] if axis is None else np.concatenate(parts, axis)
