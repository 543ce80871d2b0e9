"""Windows over padding in pieces: each piece is computed with the taps that read elements there.

Near the border some taps of a convolution or pool read only padding. With wide dilations or small pictures that is
most of the multiply-adds. There are two ways to leave them out:

* **regions**: the positions are divided so that every region has its own taps, and the results are concatenated.
  Weights are stored once for each region that uses them.
* **sums**: the taps are divided, each part of them is computed at the positions where it reads elements, and the
  results are added. Weights are stored once, partial sums go through memory.

Whether one of them pays is a choice by price.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import product
from math import prod

import numpy as np

from edgec import ops
from edgec.fuse.block import Block, Composer
from edgec.fuse.choice import BlockCosts, Choice
from edgec.fuse.cost_model import CostModel
from edgec.fuse.horizontal import until_one
from edgec.fuse.kind import kind_of
from edgec.ir.graph import Graph, Node, constant, rewrite, topological
from edgec.ir.types import DTYPES, FLOATS
from edgec.rewrite.facts import is_static
from edgec.rewrite.taps import Axis, Part, Windows, combined, of_padding, refusal, restricted, windows_of

#: Pairs of a position and a tap along one dimension, beyond which windows are not looked at: each pair is.
MOST_READINGS = 1 << 20
#: More kernels than this are not made of one operator.
MOST_PIECES = 27
#: Places where pieces may begin or end along one dimension.
MOST_BOUNDS = 256
#: Fraction of the multiply-adds that pieces may have together.
MOST_WORK = 0.75
#: Fraction of the work along a dimension that one more piece has to save.
LEAST_SAVED = 0.03
#: Bytes of weights that regions may store several times: larger ones are stored once, for sums.
MOST_STORED_AGAIN = 256 << 10
#: Windows of at most this many taps, at steps of one, are for Winograd's method, which leaves out more.
_WINOGRAD = 5


@dataclass(frozen=True)
class _Head:
    """A convolution or pool over padding, and the element-wise steps after it."""

    window: Node
    steps: tuple[Node, ...]

    @property
    def end(self) -> Node:
        return self.steps[-1] if self.steps else self.window


@dataclass(frozen=True)
class _Variant:
    """The value in place of the end of a head, and the results of the kernels that compute it."""

    result: Node
    kernels: tuple[Node, ...]


def divided(graph: Graph, prices: BlockCosts) -> tuple[Graph, list[Choice]]:
    """The graph with windows in pieces where that is cheaper, and the choices about them."""
    choices: list[Choice] = []
    taken: dict[Node, tuple[_Head, str]] = {}
    for head in _heads(graph):
        variants = _variants(head, head.window)
        if len(variants) > 1:
            blocks = {name: _blocks(v, head.window) for name, v in variants.items()}
            if _waits_for_weights(prices, head.window, blocks["whole"]):
                continue
            blocks["whole"] += _padding(head.window)
            choices.append(prices.choose("taps", head.window, blocks))
            if choices[-1].taken.name != "whole":
                taken[head.end] = (head, choices[-1].taken.name)
    return (_rebuilt(graph, taken) if taken else graph), choices


def _waits_for_weights(prices: BlockCosts, window: Node, whole: Sequence[Block]) -> bool:
    """True where the processor waits for the weights, which pieces read too, and nobody asks for pieces."""
    model = prices.model
    if not isinstance(model, CostModel) or f"taps {window.key}" in prices.frozen:
        return False
    return any(map(model.waits_for_weights, whole))


def _heads(graph: Graph) -> list[_Head]:
    users, results = graph.users(), graph.results()
    found: list[_Head] = []
    for node in graph.operations():
        if node.op not in ("conv", "pool") or not node.type.is_fixed:
            continue
        found.append(_Head(node, tuple(_steps(node, users, results))))
    return found


def _steps(window: Node, users: Mapping[Node, Sequence[Node]], results: set[Node]) -> list[Node]:
    steps: list[Node] = []
    end = window
    while more := until_one(end, users, results, lambda n: n.is_const, lambda n: n.type.shape == window.type.shape):
        steps += more
        end = more[-1]
    return steps


def _rebuilt(graph: Graph, taken: Mapping[Node, tuple[_Head, str]]) -> Graph:
    names: dict[Node, tuple[str, ...]] = {}
    new: dict[Node, Node] = {}

    def change(old: Node, args: tuple[Node, ...]) -> Node:
        new[old] = old if args == old.args else ops.node(old.op, *args, **old.attributes)
        if old in taken:
            head, name = taken[old]
            window = new[head.window]
            new[old] = _variants(head, window)[name].result
            told = tuple(dict.fromkeys(n for m in (head.window, *head.steps) for n in graph.names(m)))
            names.update((n, told) for n in _made(new[old], window))
        return new[old]

    rewritten = rewrite(graph, change)
    return replace(rewritten, origin={**rewritten.origin, **names})


def _made(result: Node, window: Node) -> set[Node]:
    """The operators that compute ``result`` from the operands of ``window``."""
    known = {*topological(window.args)}
    return {n for n in topological([result], known=known) if n.args and not is_static(n)}


def _blocks(variant: _Variant, window: Node) -> list[Block]:
    """The kernels of a variant, each with what only moves or follows its results."""
    made = _made(variant.result, window)
    ends = made.intersection(variant.kernels)  # a window of one tap may be its operand
    blocks: list[Block] = []
    for end in (n for n in variant.kernels if n in ends):
        nodes, stack = {end}, [*end.args]
        while stack:
            n = stack.pop()
            if n in made and n not in nodes and n not in ends and n.op != "pad":
                nodes.add(n)
                stack += n.args
        derived = Composer().compose(end, nodes.__contains__)
        blocks.append(Block(end, tuple(n for n in topological([end]) if n in nodes), derived, kind_of(derived)))
    return blocks


def _padding(window: Node) -> list[Block]:
    """The kernel that writes padding, where there is more of it than of what it surrounds.

    That is stored inside of the padding by the kernel that computes it.
    """
    w = windows_of(window)
    if isinstance(w, str):
        return []
    inside = w.pad.args[0].type
    border = w.pad.type.elements - inside.elements
    if border <= inside.elements:
        return []
    fill = ops.node("broadcast", constant(np.zeros((), DTYPES[inside.dtype])), shape=(border,))
    derived = Composer().own(fill)
    return [Block(fill, (fill,), derived, kind_of(derived))]


def _variants(head: _Head, window: Node) -> dict[str, _Variant]:
    """The operator ``window`` in the place of the head's as it is, and in pieces, as far as they save work."""
    whole = {"whole": _Variant(head.end, (head.end,))}
    w = windows_of(window)
    if isinstance(w, str) or any(a.positions * a.taps > MOST_READINGS for a in w.axes):
        return whole
    if refusal(w) is not None or _is_for_winograd(w) or None in [a.live() for a in w.axes]:
        return whole
    if window.op == "conv" and not is_static(window.args[1]):
        return whole
    regions = [_regions(a) for a in w.axes]
    if _pays(w, regions) and _stored_again(w, regions) <= MOST_STORED_AGAIN:
        leaves: list[Node] = []
        whole["regions"] = _Variant(_concatenated(w, head, regions, (), leaves), tuple(leaves))
    sums = [_groups(a) for a in w.axes]
    if _pays(w, sums) and (window.op == "conv" or window.attributes["combine"] == "add"):
        whole["sums"] = _added(w, head, list(product(*sums)))
    return whole


def _pays(w: Windows, pieces: Sequence[Sequence[Part]]) -> bool:
    """Are there few enough pieces with few enough multiply-adds?"""
    work = prod(sum(len(p.positions) * len(p.taps) for p in parts) for parts in pieces)
    whole = prod(a.positions * a.taps for a in w.axes)
    return 1 < prod(map(len, pieces)) <= MOST_PIECES and work <= MOST_WORK * whole


def _stored_again(w: Windows, regions: Sequence[Sequence[Part]]) -> int:
    """Bytes of weights that the regions store in addition to those of the whole."""
    if w.node.op == "pool":
        return 0
    weights = w.node.args[1].type
    taps = prod(sum(len(part.taps) for part in parts) for parts in regions)
    return int(weights.bytes // prod(w.kernel) * (taps - prod(w.kernel)))


def _is_for_winograd(w: Windows) -> bool:
    """Is it a convolution that Winograd's method may compute with fewer multiply-adds than all its taps?"""
    if w.node.op != "conv" or w.node.attributes["groups"] != 1 or w.node.type.dtype != "f32":
        return False
    steps = all(a.stride == a.dilation == 1 for a in w.axes)
    return steps and max(w.kernel) <= _WINOGRAD and sum(k > 1 for k in w.kernel) > 1


def _followed(y: Node, head: _Head, parts: Sequence[Part] | None = None) -> Node:
    """The steps of a head after ``y``, which is its result at some positions."""
    made = {head.window: y}
    for step in head.steps:
        args = (made[a] if a in made else a if parts is None else _cut(a, parts) for a in step.args)
        made[step] = ops.node(step.op, *args, **step.attributes)
    return made[head.end]


def _cut(value: Node, parts: Sequence[Part]) -> Node:
    """A constant, which broadcasts to a result, at some positions of it."""
    cut = value.value
    for d, part in enumerate(reversed(parts), 1):
        if d <= cut.ndim and cut.shape[-d] != 1:
            cut = cut.take(part.positions, axis=-d)
    return value if cut.shape == value.type.shape else constant(np.ascontiguousarray(cut))


# ---- pieces


def _regions(axis: Axis) -> list[Part]:
    """Neighboring positions with the taps that read elements at one of them at least."""
    live = [[k for k in range(axis.taps) if p in axis.reading(k)] for p in range(axis.positions)]
    ends = _Ends([range(some[0], some[-1] + 1) if some else range(0) for some in live])
    cuts = [p for p in range(1, axis.positions) if live[p] != live[p - 1]]

    def part(first: int, last: int) -> Part | None:
        taps = ends.around(first, last)
        return Part(range(first, last), taps) if taps else None

    return _cheapest([0, *cuts, axis.positions], part, axis)


def _groups(axis: Axis) -> list[Part]:
    """Neighboring taps with the positions at which one of them at least reads an element."""
    ends = _Ends([axis.reading(k) for k in range(axis.taps)])

    def part(first: int, last: int) -> Part | None:
        positions = ends.around(first, last)
        return Part(positions, range(first, last)) if positions else None

    return _cheapest(list(range(axis.taps + 1)), part, axis)


class _Ends:
    """Ranges of which later ones neither start nor end behind earlier ones, but for those that are empty."""

    def __init__(self, ranges: Sequence[range]) -> None:
        self._ranges = ranges
        full = [k for k, r in enumerate(ranges) if r]
        self._next = [full[j] if j < len(full) else len(ranges) for j in _counts(full, len(ranges), bisect_left)]
        self._last = [full[j - 1] if j else -1 for j in _counts(full, len(ranges), bisect_right)]

    def around(self, first: int, last: int) -> range:
        """The least range with all of those from ``first`` to before ``last``; empty where they all are."""
        begin, end = self._next[first], self._last[last - 1]
        return range(self._ranges[end].start, self._ranges[begin].stop) if begin <= end else range(0)


def _counts(full: Sequence[int], count: int, search: Callable[[Sequence[int], int], int]) -> list[int]:
    return [search(full, k) for k in range(count)]


def _cheapest(bounds: Sequence[int], part: Callable[[int, int], Part | None], axis: Axis) -> list[Part]:
    """The pieces between some of ``bounds`` with the least work, where a piece has to save some to be made."""
    each = LEAST_SAVED * axis.positions * axis.taps
    step = -(-len(bounds) // MOST_BOUNDS)
    bounds = [*bounds[:-1:step], bounds[-1]]  # each piece saves more than lies between neighbors of so many
    best: list[tuple[float, list[Part]] | None] = [(0.0, [])]
    for last in range(1, len(bounds)):
        found: tuple[float, list[Part]] | None = None
        for first in range(last):
            before, piece = best[first], part(bounds[first], bounds[last])
            if before is None or piece is None:
                continue
            cost = before[0] + len(piece.positions) * len(piece.taps) + each
            if found is None or cost < found[0]:
                found = (cost, [*before[1], piece])
        best.append(found)
    return best[-1][1] if best[-1] is not None else []


def _concatenated(
    w: Windows, head: _Head, regions: Sequence[Sequence[Part]], chosen: tuple[Part, ...], leaves: list[Node]
) -> Node:
    """The results of all regions side by side; those of the first dimensions are ``chosen``. Adds to ``leaves``."""
    if len(chosen) == len(regions):
        y = restricted(w, chosen)
        if tuple(len(p.taps) for p in chosen) != w.kernel:
            y = combined(w, y, chosen)
        leaves.append(_followed(y, head, chosen))
        return leaves[-1]
    made = [_concatenated(w, head, regions, (*chosen, part), leaves) for part in regions[len(chosen)]]
    axis = w.node.type.rank - len(regions) + len(chosen)
    return ops.node("concat", *made, axis=axis) if len(made) > 1 else made[0]


def _added(w: Windows, head: _Head, sums: Sequence[tuple[Part, ...]]) -> _Variant:
    """The sum of what each part of the taps adds to what all of them make of padding."""
    lead = w.node.type.rank - len(w.axes)
    terms: list[Node] = []
    kernels: list[Node] = []
    for parts in sorted(sums, key=lambda parts: -prod(len(p.positions) for p in parts)):
        y = restricted(w, parts)
        own = of_padding(w, parts)
        if own is not None:
            y = ops.node("sub", y, own)
        before = (*(0,) * lead, *(p.positions.start for p in parts))
        after = (*(0,) * lead, *(a.positions - p.positions.stop for a, p in zip(w.axes, parts)))
        if any(before) or any(after):
            kernels.append(y)
            y = ops.node("pad", y, before=before, after=after, value=0.0 if w.node.type.dtype in FLOATS else 0)
        elif terms:
            kernels.append(y)
        terms.append(y)
    total = reduce(lambda a, b: ops.node("add", a, b), terms)
    every = of_padding(w, tuple(a.whole for a in w.axes))
    result = _followed(total if every is None else ops.node("add", total, every), head)
    return _Variant(result, (*kernels, result))
