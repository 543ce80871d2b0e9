"""The choice of a division: by predicted time, and refused in words where one device is as fast."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import ceil, inf

from edgec.distribute import ilp
from edgec.distribute.consecutive import Chain, chain_of, in_sequence
from edgec.distribute.cuts import annotations_of
from edgec.distribute.held import Held
from edgec.distribute.jobs import jobs_of
from edgec.distribute.links import Links
from edgec.distribute.memory import Memory
from edgec.distribute.panels import panelled
from edgec.distribute.parts import Division, whole
from edgec.distribute.prices import Prices, speeds_beside
from edgec.distribute.row_split import Indivisible, RowSplit, by_rows, candidates, head_seconds
from edgec.distribute.same_bits import SameBits, as_before
from edgec.distribute.sharded import sharded
from edgec.distribute.shards import work
from edgec.distribute.tensor import along, offered, told_why_not
from edgec.distribute.timeline import Predicted, Seconds, predict
from edgec.errors import UsageError
from edgec.fuse import Plan
from edgec.ir.graph import Graph
from edgec.partition.assign import undivided
from edgec.text import listed, one_of

SPLITS = ("auto", "pipeline", "rows", "tensor")
GOALS = ("throughput", "latency")
#: Times that a division must be faster than one device: predictions are no better than that.
WORTH = 1.05
#: Divisions by rows that are tried for the bits of one device: in all, and at one place.
TRIED, TRIED_AT = 6, 2
#: The most frames in flight, for every worker.
FLYING = 4
#: Divisions that are tried with panels, and how many times shorter a frame has to be with them.
PANELLED, PAYS = 3, 1.02
#: Ways of tensors whose memory is held against a limit, before none is said to fit.
TENSORS = 8
#: Times that a program is solved under a limit on memory, each with the arenas of the solution before it taken off.
ARENAS = 3
#: What is said without a solver.
MISSING = "blocks have no shardings of their own without scipy: pip install 'edgec[ilp]'"


@dataclass(frozen=True)
class Wanted:
    """A request: how to divide, what for, and whether divisions that do not pay are built.

    ``shard`` are texts NODE=DIM of what tensor parallelism is to divide, ``memory`` the most bytes of a worker. With
    ``overlap``, values may cross in panels.
    """

    split: str = "auto"
    goal: str = "throughput"
    force: bool = False
    shard: tuple[str, ...] = ()
    memory: int | None = None
    overlap: bool = True

    def __post_init__(self) -> None:
        for what, given, known in (("split", self.split, SPLITS), ("goal", self.goal, GOALS)):
            if given not in known:
                raise UsageError(f"there is no {what} '{given}'", hint=one_of(given, known), where=f"--{what}")
        if self.shard and not self.is_tensor:
            raise UsageError(f"is not for --split {self.split}", hint="give --split tensor", where="--shard")

    @property
    def is_tensor(self) -> bool:
        """May tensors be divided?"""
        return self.split in ("auto", "tensor")

    @property
    def is_asked(self) -> bool:
        """Are divisions of tensors held against others that one device is estimated to beat?"""
        return self.split == "tensor" or bool(self.shard) or self.memory is not None


@dataclass(frozen=True)
class Tried:
    """A division and its predicted times, with so many frames in flight."""

    division: Division
    predicted: Predicted
    in_flight: int

    def seconds(self, goal: str) -> float:
        """The seconds that the goal counts: between frames, or of one alone."""
        return self.predicted.period_s if goal == "throughput" else self.predicted.latency_s


@dataclass(frozen=True)
class Choice:
    """The chosen division, the seconds of the fastest device alone, what was tried, and the verdict in words.

    ``one`` is the undivided network, where it may be taken instead, and ``plain`` the division without panels, where
    it has some.
    """

    tried: Tried
    alone_s: float
    others: tuple[Tried, ...]
    verdict: str
    one: Tried | None = None
    plain: Tried | None = None

    @property
    def division(self) -> Division:
        return self.tried.division

    @property
    def without_panels(self) -> Choice:
        """The same division without panels."""
        assert self.plain is not None
        return replace(self, tried=self.plain, plain=None)

    @property
    def told(self) -> str:
        """The verdict, with what is said of panels."""
        panels = {name: len(own) for name, own in self.division.panels.items()}
        counts = " or ".join(map(str, sorted({*panels.values()})))
        return f"{self.verdict}; values cross in {counts} panels" if panels else self.verdict

    def beside(self, measured: Tried, goal: str) -> Choice:
        """The choice after the kernels of its parts were timed: one device, where it does not pay after all."""
        if self.one is None or self.tried is self.one or self.alone_s >= WORTH * measured.seconds(goal):
            return self
        return replace(self, tried=self.one, verdict=f"{told(measured, self.alone_s, goal)}, by measured kernels")


def priced(division: Division, links: Links, seconds: Sequence[Seconds] | None) -> Tried:
    """A division with its predicted times.

    So many frames are in flight that the slowest worker or link never waits for one: those that are on their way while
    it is at work on one, and one more for what the prediction does not see.
    """
    jobs = jobs_of(division, seconds)
    most = FLYING * division.workers
    full = predict(jobs, links, most)
    flying = min(ceil(full.latency_s / max(full.period_s, 1e-9)) + 1, most)
    return Tried(division, full if flying == most else predict(jobs, links, flying), flying)


def choose(graph: Graph, plan: Plan, prices: Prices, links: Links, wanted: Wanted) -> Choice:
    """The division that is predicted to serve the goal best. Without ``force`` it is one device where none pays."""
    blocks = prices.of_blocks(plan)
    alone = [sum(p.values()) for p in blocks]
    fastest = min(range(len(alone)), key=alone.__getitem__)
    places = len(links.wires)
    one = priced(whole(graph, fastest, alone[fastest]), links, None)
    why = undivided(plan, holds_states=True) or Held(graph).refusal()
    memory = Memory(prices, wanted.memory)
    fits = memory.fits(one.division)
    if why or places < 2:
        if not fits:
            raise memory.refusal()
        return Choice(one, alone[fastest], (), f"one device: {why}" if why else "one device: there is no other")
    chain = chain_of(plan, blocks)
    bits = SameBits(prices, graph)
    divisions = [
        *_divisions(chain, plan, bits, links, wanted, places),
        *_tensor(graph, alone, prices, links, wanted, memory, places),
        *_sharded(chain, alone, prices, links, wanted, memory, places),
    ]
    tried = [priced(d, links, None) for d in divisions]
    found = [t for t in tried if memory.fits(t.division)]
    if not found:
        if not fits:
            raise memory.refusal()
        if wanted.split == "tensor" and not tried:
            hint = told_why_not(graph) if ilp.is_there() else f"{told_why_not(graph)}; {MISSING}"
            raise UsageError("nothing can be divided", hint=hint, where="--split tensor")
        return Choice(one, alone[fastest], tuple(tried), "one device: no value in the network can be divided so")
    cut = list(_in_panels(found, prices, links, wanted, memory))
    best = min([*found, *(t for t, _ in cut)], key=lambda t: t.seconds(wanted.goal))
    verdict = told(best, alone[fastest], wanted.goal)
    if best.division.other:
        verdict += f"; the last bits of {listed(best.division.other)} may differ from those of one device"
    if best.division.found:
        verdict += f"; {best.division.found}"
    if wanted.is_tensor and not wanted.shard and not ilp.is_there():
        verdict += f"; {MISSING}"
    if not fits:
        verdict += "; one device has not enough memory"
    pays = alone[fastest] >= WORTH * best.seconds(wanted.goal)
    is_free = fits and not wanted.force
    taken = best if pays or not is_free else one
    plain = next((p for t, p in cut if t is taken), None)
    return Choice(taken, alone[fastest], tuple(tried), verdict, one if is_free else None, plain)


def _in_panels(
    found: Sequence[Tried], prices: Prices, links: Links, wanted: Wanted, memory: Memory
) -> Iterator[tuple[Tried, Tried]]:
    """The best of some divisions with panels, where these make a frame shorter; each with that without them."""
    if not wanted.overlap or wanted.goal != "latency":
        return
    for plain in sorted(found, key=lambda t: t.seconds(wanted.goal))[:PANELLED]:
        cut = panelled(plain.division, prices, links) if plain.division.workers > 1 else None
        own = priced(cut, links, None) if cut is not None else None
        if cut is None or own is None or own.predicted.latency_s * PAYS > plain.predicted.latency_s:
            continue
        same = as_before(cut, plain.division, prices)
        if same is not None and memory.fits(same):
            yield replace(own, division=same), plain


def _tensor(
    graph: Graph, alone: Sequence[float], prices: Prices, links: Links, wanted: Wanted, memory: Memory,
    places: int,
) -> Iterator[Division]:  # fmt: skip
    """The fastest divisions of tensors that fit: for every number of workers, or, where it is forced, for all alone.

    Of those that nobody asked for, and no memory needs, the ones that one device is estimated to beat are left out: to
    price them exactly, every part would be planned.
    """
    if not wanted.is_tensor:
        return
    operations = sum(work(n, frozenset(graph.inputs))[0] for _, n in graph.outputs)
    for workers in [places] if wanted.force or wanted.shard else range(2, places + 1):
        asked = annotations_of(graph, wanted.shard, workers)
        rates = [max(operations, 1) / max(s, 1e-9) for s in alone[:workers]]
        ways = offered(graph, rates, links.first(workers), asked, wanted.memory)[:TENSORS]
        if not wanted.is_asked:
            ways = [w for w in ways if w.seconds < min(alone)]
        for way in ways:
            found = along(graph, way, prices.of_graph)
            yield found
            if memory.fits(found):
                break


def _sharded(
    chain: Chain, alone: Sequence[float], prices: Prices, links: Links, wanted: Wanted, memory: Memory, places: int
) -> Iterator[Division]:
    """The divisions that integer programs find, for the same numbers of workers and under the same conditions."""
    if not wanted.is_tensor or wanted.shard or not ilp.is_there():
        return
    counts = [places] if wanted.force else range(2, places + 1)
    patience = ilp.PATIENCE / len(counts)
    for workers in counts:
        own = sharded(replace(chain, seconds=chain.seconds[:workers]), links.first(workers), wanted.memory is not None)
        limit = wanted.memory
        for _ in range(ARENAS):
            problem = own.problem(limit) if own is not None else None
            found = (
                ilp.solve(problem, patience, inf if wanted.is_asked else min(alone)) if problem is not None else None
            )
            if own is None or problem is None or found is None:
                break
            division = replace(own.divided(problem, found, prices.of_graph), found=found.told(patience))
            yield division
            if memory.fits(division) or limit is None or wanted.memory is None:
                break
            limit -= max(memory.needed(division)) - wanted.memory


def told(best: Tried, alone_s: float, goal: str) -> str:
    """The prediction in words, beside that of the fastest device alone."""
    own = best.seconds(goal)
    what = "between frames" if goal == "throughput" else "a frame"
    beside = f"{own * 1e3:.3g} ms {what} by {best.division.split} on {best.division.workers} devices"
    ratio = alone_s / own
    if ratio < WORTH:
        return f"{beside}, {alone_s * 1e3:.3g} ms on one: {ratio:.2f}x does not pay"
    return f"{beside}, {alone_s * 1e3:.3g} ms on one: {ratio:.2f}x faster"


def _divisions(
    chain: Chain, plan: Plan, bits: SameBits, links: Links, wanted: Wanted, places: int
) -> Iterator[Division]:
    """The best division of every kind for every number of workers; where it is forced, for all of them alone."""
    if wanted.shard:
        return
    for workers in [places] if wanted.force else range(2, places + 1):
        if wanted.split in ("auto", "pipeline"):
            found = in_sequence(chain, links, workers, wanted.memory, bits.of)
            if found is not None:
                yield found
        if wanted.split in ("auto", "rows") and not chain.held.loops:
            found = best_rows(chain, plan, bits, links, wanted, workers)
            if found is not None:
                yield found


def best_rows(chain: Chain, plan: Plan, bits: SameBits, links: Links, wanted: Wanted, workers: int) -> Division | None:
    """The best division by rows: places and shares are priced by the parts of rows, the best ones as graphs.

    Of the first few, one that gives the bits of one device is taken, where there is one.
    """
    estimated: list[tuple[float, int, int, RowSplit]] = []
    workers_of = range(workers)
    for k, split in candidates(chain, workers, speeds_beside(bits.prices, plan), bits.tiles):
        head = head_seconds(chain, split, workers_of, bits.tiles)
        rest = sum(chain.seconds[0][k:])
        moved = split.value.type.bytes
        carried = links.wire(0, moved) + links.handled(0, moved) + links.passed(moved)
        together = max(head) + rest + 2 * carried
        apart = max(head[0] + rest, *head[1:], carried)
        estimated.append((apart if wanted.goal == "throughput" else together, len(estimated), k, split))
    first: Division | None = None
    tried: Counter[int] = Counter()
    for _, _, k, split in sorted(estimated, key=lambda e: e[:2]):
        if tried[k] == TRIED_AT or tried.total() == TRIED:
            continue
        try:
            found = bits.of(by_rows(chain, k, split, bits.prices.of_graph, bits.tiles))
        except Indivisible:
            continue
        if not found.other:
            return found
        first = first or found
        tried[k] += 1
    return first
