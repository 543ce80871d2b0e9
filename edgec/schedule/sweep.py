"""Sweeps: long sums of few results, which one pass over the terms adds up all at once, lanes along channels.

The gradient of a depthwise convolution's weights is a sum over all pixels for each of 3 x 3 taps. Tap by tap, pictures
are read nine times, and each addition waits for the one before it. Here each tap has an accumulator: what all of them
share, the gradient of a pixel, is loaded once, and rows of the picture are in the cache while the taps read them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import ClassVar

import numpy as np

from edgec.device.device import Device
from edgec.ir import expr as X
from edgec.ir.expr import Expr
from edgec.ir.nest import coefficient, is_fixed, most
from edgec.ir.vector import is_vectorizable
from edgec.schedule.added import Added
from edgec.schedule.contract.parts import TERMS, Parts, even_parts
from edgec.schedule.division import is_worth, most_even, parts
from edgec.schedule.flat import Flat, Weights, merge_loops
from edgec.schedule.loops import are_few_gathered, merge_reductions, repacked
from edgec.schedule.program import BlockSchedule, Buffer

#: Terms from which on a loop over them costs less than they would unrolled.
LEAST_TERMS = 32
#: Floats of a line of the cache; a task reads whole ones, or two side by side, as processors fetch them, where there
#: are several such tasks.
LINE = 16


@dataclass(frozen=True)
class Sweep(BlockSchedule):
    """A sum over ``walk``, the outermost first, for ``tile`` neighboring results at once, lanes along ``n``.

    ``tile`` has for some of ``loops`` the number of neighbors along them, which divides the extent.
    """

    template: ClassVar[str] = "sweep"
    loops: tuple[Expr, ...]
    n: Expr
    lanes: int  # of one vector
    tile: tuple[tuple[Expr, int], ...]
    walk: tuple[Expr, ...]
    term: Expr
    total: Expr  # what stands for the sum in ``body``
    body: Expr
    store: Buffer
    address: Expr
    vectors: int  # of a task

    @property
    def task_loops(self) -> tuple[Expr, ...]:
        return self.loops

    @property
    def at_once(self) -> int:
        """Results of a tile."""
        return prod(count for _, count in self.tile)

    @property
    def parts(self) -> Parts:
        """Parts of a sum, each of which registers hold."""
        return even_parts([*map(most, self.walk)], TERMS)

    @property
    def describe(self) -> str:
        terms = "x".join(str(v.value.extent) for v in self.walk)
        at_once = "x".join(str(count) for _, count in self.tile)
        return f"sweep over {terms}, {at_once} results x {self.lanes} lanes"

    @property
    def bodies(self) -> list[Expr]:
        return [self.term, self.body]

    @property
    def added(self) -> tuple[Added, ...]:
        """The order of the sum, which all results have."""
        return (Added.in_parts(self.walk, self.term, self.parts.split, self.parts.rounds),)


def sweep(flat: Flat, device: Device, weights: Weights) -> Sweep | None:
    """The schedule of a long sum of fewer results, all of which share a factor of each term; None where it is none."""
    flat = merge_reductions(merge_loops(flat))
    sums = [e for e in X.walk(flat.body) if e.op == "reduce"]
    if len(sums) != 1 or sums[0].value[0] != "add" or sums[0].dtype != "f32" or flat.tile is not None:
        return None
    n = _lanes(sums[0], flat)
    others = [v for v in flat.loops if v is not n]
    names = X.reduction_variables(sums[0])
    if n is None or not is_fixed(n, *others, *names) or are_few_gathered(sums[0], n, device.vector_lanes):
        return None
    terms, results = prod(map(most, names)), prod(map(most, others))
    if terms < LEAST_TERMS or terms <= results:
        return None
    body = repacked(flat.body, flat.loops, n, weights)
    (reduction,) = (e for e in X.walk(body) if e.op == "reduce")
    names, term = X.opened(reduction)
    tile = _tile(term, others, device)
    if tile is None or not is_vectorizable(body, n, True) or not {*flat.loops} <= X.free_variables(reduction):
        return None
    loops = tuple(sorted(others, key=lambda v: -(coefficient(flat.address, v) or 0)))
    total = X.load("accumulator", (X.const(0) + n,), "f32")
    return Sweep(
        loops, n, device.vector_lanes, tile, _as_stored(names, term), term, total,
        X.substitute(body, {reduction: total}), flat.store, flat.address,
        _vectors(n, results // prod(count for _, count in tile), terms * results, device, flat.threads),
    )  # fmt: skip


def _vectors(n: Expr, tiles: int, steps: int, device: Device, threads: int) -> int:
    """Vectors of a task of one of so many tiles: whole lines of the cache, as even shares as these give."""
    line, columns = max(1, LINE // device.vector_lanes), -(-most(n) // device.vector_lanes)
    usual = min(2 * line if most(n) >= 4 * LINE else line, columns)
    if not is_worth(steps * columns / 2, device, threads):
        return usual
    sizes = [usual, *([line] if line < usual else [])]
    return most_even(((size, np.tile(parts(columns, size), tiles)) for size in sizes), threads)


def _lanes(reduction: Expr, flat: Flat) -> Expr | None:
    """The loop along which all that a sum reads is contiguous, or constant and can be; results need not be."""
    loads = [e for e in X.loads(reduction) if e.args]
    found = (v for v in flat.loops if loads and all(_is_near(e, v) for e in loads))
    return next((v for v in found if most(v) >= 4 and coefficient(flat.address, v) is not None), None)


def _is_near(load: Expr, lane: Expr) -> bool:
    step = coefficient(load.args[0], lane)
    return step == 1 or (step not in (0, None) and load.value.space == "weights")


def _tile(term: Expr, others: Sequence[Expr], device: Device) -> tuple[tuple[Expr, int], ...] | None:
    """The tile whose results share the most of what they load, of those that registers hold; None where all of it is
    one result, or nothing is shared."""
    loads = [e for e in X.loads(term) if e.args]
    along = [v for v in others if most(v) > 1 and all(coefficient(e.args[0], v) is not None for e in loads)]
    best: tuple[tuple[float, int], tuple[tuple[Expr, int], ...]] | None = None
    for counts in product(*([c for c in range(1, most(v) + 1) if most(v) % c == 0] for v in along)):
        tile = tuple((v, c) for v, c in zip(along, counts) if c > 1)
        read = [prod(c for v, c in tile if v in X.free_variables(e)) for e in loads]
        results = prod(counts)
        if results + read.count(1) + 2 > device.vectors_in_registers or not tile or 1 not in read:
            continue
        key = sum(read) / results, -results
        if best is None or key < best[0]:
            best = key, tile
    return best[1] if best is not None else None


def _as_stored(names: Sequence[Expr], term: Expr) -> tuple[Expr, ...]:
    """The loops of a sum as what it reads lies in memory, the innermost last."""
    places = [e.args[0] for e in X.loads(term) if e.args]
    return tuple(sorted(names, key=lambda v: -max(abs(coefficient(a, v) or 0) for a in places)))
