"""The order of blocks: what sets memory free is computed as soon as it can be.

The graph's own order follows one output after another. Where several outputs need the same values, as the gradients of
all weights do, each value would then wait for the last of them. Here a block that sets free at least as much as its
result takes comes right after the last value that it needs. The new order is taken where less is alive at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush

from edgec.frontend.states import states
from edgec.fuse.aliasing import Plan
from edgec.ir.graph import Node
from edgec.ir.index import upper
from edgec.ir.types import DTYPES

#: A result that takes this many times less than an operand is small beside it.
SMALL = 8
#: One that takes this many times less than the largest of all is nothing.
TINY = 512
#: An order is not changed for this part of the bytes.
LITTLE = 32
#: The most bytes of one number.
NUMBER = 8


def in_less_memory(plan: Plan) -> Plan:
    """The plan with its blocks in an order in which no more is alive at once than now."""
    if plan.guards or plan.sizes:  # what a condition or a size needs is no operand of the block
        return plan
    uses = _Uses(plan)
    usual = list(range(len(plan.blocks)))
    early = uses.freeing_early(usual)
    late = uses.delayed(uses.freeing_early(uses.delayed(usual)))
    order = min(usual, early, late, uses.freeing_early(late), key=uses.peak)
    further = uses.delayed(early)
    if uses.peak(further) * LITTLE < uses.peak(order) * (LITTLE - 1):
        order = further
    return plan if order is usual else replace(plan, blocks=tuple(plan.blocks[k] for k in order))


@dataclass
class _Uses:
    """The buffers that every block of a plan reads and writes, each named by the value that owns it."""

    plan: Plan
    reads: list[set[Node]] = field(default_factory=list)
    writes: list[Node] = field(default_factory=list)
    bytes: dict[Node, int] = field(default_factory=dict)
    results: list[int] = field(default_factory=list)  # bytes of what each block writes, which may be a part of a buffer
    large: list[int] = field(default_factory=list)  # bytes of the largest intermediate value that each block reads

    def __post_init__(self) -> None:
        plan = self.plan
        inputs = {str(n.attributes["name"]): n for n in plan.graph.inputs}
        outputs = {name: plan.root_of(n)[0] for name, n in plan.outputs}
        self.state = {outputs[s.output]: inputs[s.input] for s in states(plan.graph) if s.output in outputs}
        kept = {*plan.graph.inputs, *outputs.values()}
        for block in plan.blocks:
            self.writes.append(plan.root_of(block.output)[0])
            of = block.output.type
            self.results.append(DTYPES[of.dtype].itemsize * upper(of.elements))
            self.reads.append({plan.root_of(n)[0] for n in block.inputs})
        for root in {*self.writes, *(r for read in self.reads for r in read)} - kept:
            if not root.is_const:
                around = plan.halos[root].around(root.type.shape) if root in plan.halos else root.type.shape
                size = DTYPES[root.type.dtype].itemsize
                for extent in around:
                    size *= upper(extent) if not isinstance(extent, int) else extent
                self.bytes[root] = size
        self.large = [max((self.bytes.get(r, 0) for r in read), default=0) for read in self.reads]

    def peak(self, order: Iterable[int]) -> int:
        """The most bytes that are alive at once; a map may overwrite what it reads last."""
        order = list(order)
        last: dict[Node, int] = {}
        for at, k in enumerate(order):
            last.update(dict.fromkeys((self.writes[k], *self.reads[k]), at))
        alive: set[Node] = set()
        held = most = 0
        for at, k in enumerate(order):
            touched = [r for r in {self.writes[k], *self.reads[k]} if r in self.bytes]
            held += sum(self.bytes[r] for r in touched if r not in alive)
            alive.update(touched)
            dying = {self.bytes[r] for r in touched if last[r] == at and r is not self.writes[k]}
            own = self.bytes.get(self.writes[k], 0)
            in_place = self.plan.blocks[k].kind == "map" and own in dying
            most = max(most, held - own if in_place else held)
            held -= sum(self.bytes[r] for r in touched if last[r] == at)
        return most

    def delayed(self, order: Sequence[int]) -> list[int]:
        """The order with blocks just before their first readers, where what they read is there until then anyway."""
        _, then = self._dependencies()
        backwards: list[int] = []
        place: dict[int, int] = {}
        touched: dict[Node, list[int]] = {}
        for k in reversed(order):
            readers = [place[j] for j in then[k]]
            at = max(readers) + 1 if readers else len(backwards)
            ended = [r for r in self.reads[k] if min((place[j] for j in touched.get(r, ())), default=at) >= at]
            if sum(self.bytes.get(r, 0) for r in ended) >= self.bytes.get(self.writes[k], 0):
                at = len(backwards)
            backwards.insert(at, k)
            for later in range(at, len(backwards)):
                place[backwards[later]] = later
            for root in {self.writes[k], *self.reads[k]}:
                touched.setdefault(root, []).append(k)
        return backwards[::-1]

    def freeing_early(self, base: Sequence[int]) -> list[int]:
        """The order ``base``, but for blocks that set free at least as much as they take."""
        waits, then = self._dependencies()
        left: dict[Node, int] = {}  # blocks that have still to touch a buffer
        for k in range(len(self.writes)):
            for root in {self.writes[k], *self.reads[k]}:
                left[root] = left.get(root, 0) + 1
        by_root: dict[Node, list[int]] = {}
        for k, read in enumerate(self.reads):
            for root in read:
                by_root.setdefault(root, []).append(k)
        least = max(self.bytes.values(), default=0) // TINY
        alive: set[Node] = set()
        order: list[int] = []
        done = [False] * len(self.writes)

        def taken(k: int) -> int:
            """Bytes that a block takes beyond those that it sets free."""
            touched = {self.writes[k], *self.reads[k]}
            new = sum(self.bytes.get(r, 0) for r in touched if r not in alive)
            return new - sum(self.bytes.get(r, 0) for r in touched if left[r] == 1)

        def is_early(j: int) -> bool:
            """Tells whether a block may come as soon as it can: it takes next to nothing, or its only reader, which
            waits for nothing else, ends in a sum."""
            if self._is_sum(j) or self.bytes.get(self.writes[j], 0) <= least or taken(j) <= 0:
                return True
            (reader, *others) = then[j] or (None,)
            return reader is not None and not others and waits[reader] == 1 and self._is_sum(reader)

        def run(k: int) -> list[int]:
            """Puts a block next; the blocks that may come early now."""
            done[k] = True
            order.append(k)
            near = list(then[k])
            for j in then[k]:
                waits[j] -= 1
            for root in {self.writes[k], *self.reads[k]}:
                alive.add(root)
                left[root] -= 1
                if left[root] == 1:
                    near += by_root.get(root, ())
            return near

        for k in base:
            early = run(k) if not done[k] else []
            heap: list[int] = []
            for j in early:
                heappush(heap, j)
            while heap:
                j = heappop(heap)
                is_near = self.large[j] or self.results[j] <= NUMBER  # others may wait for one number
                if not done[j] and not waits[j] and is_near and is_early(j):
                    for other in run(j):
                        heappush(heap, other)
        return order

    def _is_sum(self, k: int) -> bool:
        """Tells whether the result is small beside what the block reads, which others may then set free."""
        own = min(self.bytes.get(self.writes[k], 0), self.results[k])
        return own * SMALL <= self.large[k]

    def _dependencies(self) -> tuple[list[int], list[list[int]]]:
        """Numbers of blocks that each one waits for, and the blocks that wait for it.

        Blocks that write what another touches stay in their order, a state and its new value being one; those that
        write parts of one buffer may come in any.
        """
        count = len(self.writes)
        waits, then = [0] * count, [[] for _ in range(count)]  # type: tuple[list[int], list[list[int]]]
        writers: dict[Node, list[int]] = {}
        readers: dict[Node, list[int]] = {}
        begun = {*self.state, *self.state.values()}
        for k in range(count):
            own = self.state.get(self.writes[k], self.writes[k])
            before = {j for root in self.reads[k] for j in writers.get(self.state.get(root, root), ())}
            before |= {*(writers.get(own, ()) if own in begun else ()), *readers.get(own, ())} - {k}
            for j in before:
                then[j].append(k)
            waits[k] = len(before)
            writers.setdefault(own, []).append(k)
            for root in self.reads[k]:
                readers.setdefault(self.state.get(root, root), []).append(k)
        return waits, then
