"""The programs of several GPUs in numpy: each in a thread of its own, which meet where values are exchanged."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import replace

import numpy as np

from edgec.ir.graph import Node
from edgec.ops.ranks import Absent, Meeting
from edgec.schedule.program import Program

Arrays = Mapping[str, np.ndarray]
#: Outputs by name from the program of a rank and its inputs by name.
Runner = Callable[[Program, Arrays], dict[str, np.ndarray]]


def run_ranks(program: Program, inputs: Arrays, run: Runner) -> dict[str, np.ndarray]:
    """The outputs of the whole network from those of its ranks, each of which ``run`` computes.

    Parts of the batch come one after the other.
    """
    ranks = program.ranks
    assert ranks is not None
    of_parts = [_exchanging(program, part, run) for part in _cut(program, inputs, ranks.chunked, ranks.chunks)]
    return _together(program, of_parts, ranks.chunked)


def _exchanging(program: Program, inputs: Arrays, run: Runner) -> dict[str, np.ndarray]:
    assert program.ranks is not None
    slices = program.ranks.slices
    programs = [replace(program, ranks=None), *program.ranks.others]
    given = _cut(program, inputs, slices, len(programs))
    meeting = Meeting(len(programs))

    def one(rank: int) -> dict[str, np.ndarray]:
        try:
            return copy_context().run(_joined, meeting, rank, run, programs[rank], given[rank])
        except BaseException:
            meeting.leave()
            raise

    with ThreadPoolExecutor(len(programs)) as pool:
        futures = [pool.submit(one, rank) for rank in range(len(programs))]
    failures = [error for f in futures if (error := f.exception()) is not None]
    if failures:
        raise next((e for e in failures if not isinstance(e, Absent)), failures[0])
    return _together(program, [f.result() for f in futures], slices)


def _joined(meeting: Meeting, rank: int, run: Runner, own: Program, given: Arrays) -> dict[str, np.ndarray]:
    meeting.join(rank)
    return run(own, given)


def _cut(program: Program, inputs: Arrays, names: Collection[str], count: int) -> list[Arrays]:
    """The inputs of each of ``count`` parts; those with these ``names`` are divided, of others each has all."""
    assert program.ranks is not None
    whole = {str(n.attributes["name"]): n for n in program.ranks.graph.inputs}
    parts = {
        name: np.split(np.asarray(inputs[name]), count, _axis(n, whole[name]))
        for name, _, n in program.inputs if name in names
    }  # fmt: skip
    return [{**inputs, **{name: found[k] for name, found in parts.items()}} for k in range(count)]


def _together(
    program: Program, parts: Sequence[dict[str, np.ndarray]], names: Collection[str]
) -> dict[str, np.ndarray]:
    """The outputs of all parts; those with these ``names`` are put together, others are the same in each."""
    assert program.ranks is not None
    whole = dict(program.ranks.graph.outputs)
    return {
        name: np.concatenate([part[name] for part in parts], _axis(n, whole[name])) if name in names else parts[0][name]
        for name, _, n in program.outputs
    }


def _axis(mine: Node, whole: Node) -> int:
    """The dimension of which a part has a slice."""
    return next(d for d, (a, b) in enumerate(zip(mine.type.shape, whole.type.shape)) if a != b)
