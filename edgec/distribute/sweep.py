"""The cheapest shardings of all values of a network for ranks that run one program, by a sweep over the values.

The values come one after the other, each after those it is made of. A state of the sweep says how the values that
are still to be read lie on the ranks; of all ways to a state the cheapest one stays. Where values are many and read
late, only the `MOST_STATES` cheapest states stay, else the result is the best there is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from edgec.distribute.consecutive import Chain
from edgec.distribute.pieces import Sharding
from edgec.ir.graph import Node

#: States that are kept between two values.
MOST_STATES = 256


@dataclass(frozen=True)
class Lies:
    """The place of a value on the ranks: all of it on each (``whole``), a slice of ``axis`` on each, or both."""

    whole: bool
    axis: int | None

    def has(self, needed: int | None) -> bool:
        """Is there all of it (None), or the rank's own slice of a dimension? Slices are never cut out of a whole."""
        return self.whole if needed is None else self.axis == needed


@dataclass(frozen=True)
class Exchange:
    """Seconds to exchange values between ``ranks``: ``latency_s`` for any, and the bytes by the speed of a link."""

    ranks: int
    latency_s: float
    bytes_per_s: float

    def times(self, factor: float) -> Exchange:
        """The same at another price."""
        return Exchange(self.ranks, factor * self.latency_s, self.bytes_per_s / factor)

    def summed(self, moved: int) -> float:
        """Seconds until every rank has the sum of values of so many bytes."""
        return self.latency_s + 2 * (self.ranks - 1) / self.ranks * moved / self.bytes_per_s

    def gathered(self, moved: int) -> float:
        """Seconds until every rank has the slices of all, which are so many bytes together."""
        return self.latency_s + (self.ranks - 1) / self.ranks * moved / self.bytes_per_s


@dataclass(frozen=True)
class Chosen:
    """The shardings of all values: how each input lies, and of each value its sharding and how it lies then."""

    inputs: dict[Node, Lies]
    values: dict[Node, tuple[Sharding, Lies]]
    seconds: float

    @property
    def exchanged(self) -> tuple[int, int]:
        """The number of sums and of gathers."""
        sums = sum(s.kind == "sums" for s, _ in self.values.values())
        return sums, sum(s.kind == "slices" and lies.whole for s, lies in self.values.values())


@dataclass(frozen=True)
class _Way:
    """The cheapest way to a state, as the last step of it and the way before."""

    seconds: float
    step: tuple[Node, Sharding | None, Lies] | None
    before: _Way | None


#: How the values that are still to be read lie, and whether ranks share any work yet.
_State = tuple[frozenset[tuple[Node, Lies]], bool]


def sweep(
    chain: Chain,
    offered: Sequence[Sequence[Sharding]],
    exchange: Exchange,
    bytes_of: Mapping[Node, int],
    divided_inputs: Mapping[Node, Sequence[int]],
    start_s: float = 0.0,
) -> Chosen | None:
    """The cheapest choice in which ranks share some work; None where there is none.

    ``offered`` are the shardings of each value of the chain, ``bytes_of`` the bytes of values as they lie on a device,
    and ``divided_inputs`` the dimensions of which the caller may hand each rank its slice. Outputs are handed
    out whole by every rank, or in slices of a first dimension. ``start_s`` are the seconds of a value that sharing
    does not shorten.
    """
    outputs = {n for _, n in chain.graph.outputs}
    states: dict[_State, _Way] = {(frozenset(), False): _Way(0.0, None, None)}
    for n in chain.graph.inputs:
        lies = [Lies(True, None), *(Lies(False, axis) for axis in divided_inputs.get(n, ()))]
        states = {
            (there | {(n, own)}, is_shared): _Way(way.seconds, (n, None, own), way)
            for ((there, is_shared), way), own in product(states.items(), lies)
        }
    for k, value in enumerate(chain.values):
        found: dict[_State, _Way] = {}
        for (there, is_shared), way in states.items():
            lies_of = dict(there)
            kept = frozenset((n, own) for n, own in there if chain.last.get(n, -1) > k)
            fixed = min(start_s, chain.seconds[0][k])
            for sharding, own, seconds in _steps(
                value, offered[k], lies_of, (fixed, chain.seconds[0][k] - fixed), exchange, bytes_of
            ):
                if value in outputs and not own.whole and not _is_first(value, own.axis):
                    continue
                after = kept | {(value, own)} if chain.last.get(value, -1) > k else kept
                state = after, is_shared or sharding.kind != "all"
                total = way.seconds + seconds
                if state not in found or total < found[state].seconds:
                    found[state] = _Way(total, (value, sharding, own), way)
        states = dict(sorted(found.items(), key=lambda item: item[1].seconds)[:MOST_STATES])
    ends = [way for (_, is_shared), way in states.items() if is_shared]
    return _chosen(min(ends, key=lambda way: way.seconds)) if ends else None


def _steps(
    value: Node,
    offered: Sequence[Sharding],
    lies_of: dict[Node, Lies],
    seconds: tuple[float, float],
    exchange: Exchange,
    bytes_of: Mapping[Node, int],
) -> Iterator[tuple[Sharding, Lies, float]]:
    """The shardings of a value for which all is there, how it lies then, and the seconds.

    ``seconds`` are those of the whole value: what sharing does not shorten, and what it does.
    """
    for sharding in offered:
        if not all(lies_of[n].has(needed) for n, needed in sharding.needs if n in lies_of):
            continue
        own = seconds[0] + seconds[1] * min(sharding.share, 1.0)
        if sharding.kind == "all":
            yield sharding, Lies(True, None), own
        elif sharding.kind == "sums":
            yield sharding, Lies(True, None), own + exchange.summed(bytes_of[value])
        else:
            yield sharding, Lies(False, sharding.axis), own
            yield sharding, Lies(True, sharding.axis), own + exchange.gathered(bytes_of[value])


def _is_first(value: Node, axis: int | None) -> bool:
    """Is a slice of this dimension one piece of memory?"""
    return axis is not None and all(int(e) == 1 for e in value.type.shape[:axis])


def first_axes(n: Node, ranks: int) -> list[int]:
    """The dimensions of an array whose equal slices are each one piece of memory."""
    return [d for d, e in enumerate(n.type.shape) if _is_first(n, d) and int(e) % ranks == 0 and int(e) > 0]


def _chosen(end: _Way) -> Chosen:
    inputs: dict[Node, Lies] = {}
    values: dict[Node, tuple[Sharding, Lies]] = {}
    way: _Way | None = end
    while way is not None and way.step is not None:
        n, sharding, lies = way.step
        if sharding is None:
            inputs[n] = lies
        else:
            values[n] = sharding, lies
        way = way.before
    return Chosen(dict(reversed(inputs.items())), dict(reversed(values.items())), end.seconds)
