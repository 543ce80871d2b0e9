"""The parts of a division as the prediction sees them: seconds, bytes, and what each waits for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby

from edgec.distribute.parts import Division, Part
from edgec.distribute.timeline import Input, Job, Output, Seconds

#: The outputs that a tensor is made of: parts, and the numbers of their outputs.
_Sources = frozenset[tuple[int, int]]


def jobs_of(division: Division, seconds: Sequence[Seconds] | None = None) -> list[Job]:
    """The parts of a division as its timeline needs them; ``seconds`` that were measured replace the predicted ones."""
    makers = {name: [k] for k, part in enumerate(division.parts) for name in part.writes}
    added = {name for terms in division.sums.values() for name in terms[1:]}
    for name, terms in division.sums.items():
        makers[name] = [k for term in terms for k in makers[term]]
    types = division.tensors
    sources = _sources(division)
    found = []
    for k, part in enumerate(division.parts):
        bytes_in = sum(r.bytes(types[r.tensor].dtype, types[r.tensor].shape) for r in part.reads)
        bytes_out = sum(n.type.bytes for n in part.writes.values())
        bytes_added = sum(n.type.bytes for name, n in part.writes.items() if name in added)
        after = tuple(sorted({m for r in part.reads for m in makers.get(r.tensor, ())}))
        own = Seconds(part.seconds, part.seconds) if seconds is None else seconds[k]
        outputs = _outputs(part, added) if part.finals else ()
        inputs = _inputs(part, division, sources) if sources else ()
        found.append(Job(part.worker, own.alone, bytes_in, bytes_out, after, bytes_added, own.busy, outputs, inputs))
    return found


def _outputs(part: Part, added: set[str]) -> tuple[Output, ...]:
    """The outputs of a part, piece by piece."""
    sizes = [(name, n.type.bytes) for name, n in part.writes.items()]
    return tuple(Output(n, share, n if name in added else 0) for (name, n), share in zip(sizes, part.finals))


def _sources(division: Division) -> Mapping[str, _Sources]:
    """The outputs that every tensor is made of, where parts give theirs piece by piece; else nothing."""
    if not any(p.finals for p in division.parts):
        return {}
    found: dict[str, _Sources] = dict.fromkeys(division.inputs, frozenset())
    for k, part in enumerate(division.parts):
        found |= {name: frozenset({(k, p if part.finals else 0)}) for p, name in enumerate(part.writes)}
    return found | {name: frozenset().union(*(found[t] for t in terms)) for name, terms in division.sums.items()}


def _inputs(part: Part, division: Division, sources: Mapping[str, _Sources]) -> tuple[Input, ...]:
    """The inputs of a part, piece by piece: those that are there at one time go at once."""
    types = division.tensors
    sizes = [(r.bytes(types[r.tensor].dtype, types[r.tensor].shape), sources[r.tensor]) for r in part.reads]
    at_once = [(after, sum(n for n, _ in own)) for after, own in groupby(sizes, key=lambda s: s[1])]
    return tuple(Input(n, after) for after, n in at_once)
