"""Convolutions by Winograd's method: fewer products, for sums of small transforms.

A sum ``out[.., y, x, n] = f(sum over ky, kx, k of S[.., y + ky, x + kx, k] * L[ky, kx, k, n])`` with few taps and unit
steps is cut into tiles of neighboring outputs. Tile, weights and products are transformed (`Toom`); what is left of
the sum, over k, is a matrix product of its own at every point: tiles x k by k x n. Constant weights are transformed at
build time, all others while the network runs (`winograd_weights`). A block of tiles is transformed, multiplied and
transformed back while it lies in cache, in one kernel; what follows the sum is done on its results in registers.
Lavin and Gray, "Fast algorithms for convolutional neural networks", 2016.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import permutations, product
from math import ceil, prod
from typing import ClassVar

from edgec.device.device import Device
from edgec.fuse.pooled import partners
from edgec.ir import expr as X
from edgec.ir.expr import Expr
from edgec.ir.nest import coefficient, is_fixed, most
from edgec.ir.vector import is_vectorizable
from edgec.schedule.contract.cook_toom import PAIRS, Toom
from edgec.schedule.contract.epilogue import Around, around_sum, over_lanes
from edgec.schedule.contract.winograd_forms import Form, Side, Tiling, Window, cycles_of_form, streaming
from edgec.schedule.contract.winograd_weights import PACKED, RunTimeWeights, pack_cycles, run_time_weights, transformed
from edgec.schedule.division import is_worth
from edgec.schedule.flat import Flat, Weights, is_constant, merge_loops, with_contiguous_weights
from edgec.schedule.program import BlockSchedule, Buffer
from edgec.schedule.storage import memory_type

#: Ways to tile whose blocks and panels are compared, where threads share them.
REFINED = 3


@dataclass(frozen=True)
class Winograd(BlockSchedule):
    """One or two sides, the slowest first; tiles are numbered through ``outer`` and the sides."""

    template: ClassVar[str] = "winograd"
    outer: tuple[Expr, ...]
    sides: tuple[Side, ...]
    n: Expr  # the lanes of the result
    k: tuple[Expr, ...]  # what else is summed; the last is contiguous in S
    s: Expr
    l: Expr  # the taps of the sides are its other loops
    packed: Buffer | None  # a constant L transformed, [panel, point, k, width]; None before `packed_into`
    epilogue: Expr  # over ``accumulator``
    accumulator: Expr
    store: Buffer
    address: Expr
    block: int  # tiles transformed at once
    rows: int  # of the register tile of the products
    vectors: int
    lanes: int
    at_run: RunTimeWeights | None = None  # L as a run transforms it; None for a constant one

    @property
    def variant(self) -> str:
        return "winograd " + "x".join(str(side.toom.outputs) for side in self.sides)

    @property
    def describe(self) -> str:
        forms = " x ".join(f"F({side.toom.outputs}, {side.toom.taps})" for side in self.sides)
        sizes = f"{self.tiles} tiles, N={self.n_extent} K={self.k_extent}, {self.block} tiles a block"
        of = ", weights transformed as it runs" if self.at_run is not None else ""
        return f"winograd {forms}, {sizes}, tile {self.rows} rows x {self.vectors} vectors of {self.lanes}{of}"

    def packed_into(self, weights: Weights) -> Winograd:
        """The same sum with a constant L transformed and among ``weights``."""
        if self.at_run is not None:
            return self
        tooms, taps = [side.toom for side in self.sides], [side.tap for side in self.sides]
        panels = transformed(self.l, tooms, taps, self.k, self.n, self.width)
        return replace(self, packed=weights.add(panels))

    @property
    def bodies(self) -> list[Expr]:
        return [self.s, self.epilogue, *([self.at_run.blocks.load] if self.at_run is not None else [])]

    @property
    def at_store(self) -> list[Expr]:
        return [self.epilogue]

    @property
    def tables(self) -> list[Buffer]:
        return [self.packed] if self.packed is not None else []

    @property
    def points(self) -> int:
        return prod(side.toom.inputs for side in self.sides)

    @property
    def tiles(self) -> int:
        return prod(most(v) for v in self.outer) * prod(side.tiles for side in self.sides)

    @property
    def blocks(self) -> int:
        return ceil(self.tiles / self.block)

    @property
    def k_extent(self) -> int:
        return prod(most(v) for v in self.k)

    @property
    def k_stride(self) -> int:
        """From tile to tile of the transformed input: no multiple of a page, where rows would share cache sets."""
        return ceil(self.k_extent / self.lanes) * self.lanes + (self.lanes if self.k_extent % 256 == 0 else 0)

    @property
    def n_extent(self) -> int:
        return int(self.n.value.extent)

    @property
    def width(self) -> int:
        return self.vectors * self.lanes

    @property
    def panels(self) -> int:
        return ceil(self.n_extent / self.width)

    @property
    def input_stride(self) -> int:
        """From point to point of the transformed input, which lies in scratch as [point, tile, k]."""
        return _odd(self.block * self.k_stride, self.lanes)

    @property
    def product_stride(self) -> int:
        """From point to point of the products, [point, tile, width]."""
        return _odd(self.block * self.width, self.lanes)

    @property
    def panel_stride(self) -> int:
        """From point to point of a part of L that a run has transformed, [point, k, width]."""
        return _odd(self.at_run.part * self.width, self.lanes) if self.at_run is not None else 0

    @property
    def packed_floats(self) -> int:
        """Floats of L that are packed before they are transformed."""
        return PACKED * self.at_run.count * self.width if self.at_run is not None else 0

    @property
    def scratch_bytes(self) -> int:
        of_points = self.points * (self.input_stride + self.product_stride + self.panel_stride)
        return 4 * (of_points + self.packed_floats)


def _odd(size: int, lanes: int) -> int:
    """At least ``size``, an odd number of vectors: what lies so far apart never meets in one set of a cache."""
    return (ceil(size / lanes) | 1) * lanes


@dataclass(frozen=True)
class _Parts:
    """A sum that the method may apply to; ``loops`` are over all outputs, ``results`` over what is left of them."""

    flat: Flat
    results: tuple[Expr, ...]
    windows: Mapping[Expr, Window]
    taps: tuple[Expr, ...]
    l: Expr
    s: Expr
    n: Expr
    epilogue: Expr
    accumulator: Expr


def winograd(flat: Flat, device: Device, weights: Weights, outputs: tuple[int, ...] | None = None) -> Winograd | None:
    """Schedule ``flat`` by Winograd's method; None where it does not apply, or the direct sum is cheaper.

    With ``outputs`` a tile has so many along each side, whatever is cheaper.
    """
    p = _parts(flat, device)
    if p is None:
        return None
    ranked = _ranked(p, device)
    if outputs is not None:
        ranked = [f for f in ranked if f.outputs == outputs]
    else:
        lies = memory_type(p.s)
        is_twice = (lies == "bf16" and device.has_bf16_dot) or (lies == "f16" and device.has_fp16_fma)
        direct = _direct_cycles(p.flat, p.taps, p.n, device, is_twice)
        if ranked and (at_run := ranked[0].at_run) is not None and at_run.blocks.stride != 1:  # it packs weights too
            direct += pack_cycles(at_run) / at_run.count * prod(map(most, p.taps)) * most(p.n)
        ranked = [f for f in ranked if f.cycles < direct / p.flat.threads]
    if not ranked:
        return None
    best = ranked[0]
    k = _remaining(p.s, p.taps, best.sides)
    outer = tuple(v for v in p.flat.loops if v is not p.n and all(v is not side.loop for side in best.sides))
    lanes = device.vector_lanes
    epilogue = with_contiguous_weights(p.epilogue, p.results, p.n, weights)
    return Winograd(
        outer, best.sides, p.n, k, p.s, p.l, None, epilogue, p.accumulator, flat.store, p.flat.address,
        best.block, best.rows, best.vectors, lanes, best.at_run,
    )  # fmt: skip


def outputs_for(flat: Flat, device: Device) -> list[tuple[int, ...]]:
    """Outputs along each side of a tile, for every form of the method that applies, the cheapest first."""
    p = _parts(flat, device)
    return [f.outputs for f in _ranked(p, device)] if p is not None else []


def _parts(flat: Flat, device: Device) -> _Parts | None:
    """Operands of Winograd's method in ``flat``; None if it does not apply."""
    flat = _with_joined_columns(flat)
    taken = around_sum(flat.body)
    if taken is None or taken.sum.dtype != "f32":
        return None
    epilogue, accumulator = taken.epilogue, taken.accumulator
    results = flat.loops
    windows, total = _widened(flat, taken)
    if len(windows) != len(taken.window):
        return None
    flat = replace(flat, loops=tuple(next((w for w, p in windows.items() if p.loop is v), v) for v in flat.loops))
    taps, term = X.opened(total)
    if device.vector_bytes < 16 or not device.l2_bytes or not is_fixed(*flat.loops, *taps):
        return None
    for l, s in sorted(permutations(term.args), key=lambda pair: not is_constant(pair[0])):
        n = _lane_loop(flat, l, s)
        if n is not None and is_vectorizable(over_lanes(epilogue, n), n):
            return _Parts(flat, results, windows, taps, l, s, n, epilogue, accumulator)
    return None


def _with_joined_columns(flat: Flat) -> Flat:
    """The same with loops as one that weights of a run alone depend on, and that step through every buffer as one."""
    taken = around_sum(flat.body)
    if taken is None or taken.window:
        return flat
    taps, term = X.opened(taken.sum)
    for l, s in permutations(term.args):
        across = {v for v in flat.loops if v in X.free_variables(l)} - X.free_variables(s)
        if len(across) > 1 and not is_constant(l) and s.op == "load" and _pairs(flat, s, taps):
            return merge_loops(flat, frozenset(v for v in flat.loops if v not in across))
    return flat


def _lane_loop(flat: Flat, l: Expr, s: Expr) -> Expr | None:
    """The one loop of the result that ``l`` depends on, and ``s``, a load, does not."""
    if is_constant(s) or s.op != "load" or s.dtype != "f32":
        return None
    across = [v for v in flat.loops if v in X.free_variables(l)]
    if len(across) != 1 or across[0] in X.free_variables(s) or coefficient(flat.address, across[0]) is None:
        return None
    return across[0]


def cycles_of(w: Winograd, device: Device) -> float:
    """The predicted time of a schedule, by the model it was chosen by."""
    form = Form(0.0, w.sides, w.block, w.rows, w.vectors, w.at_run)
    return cycles_of_form(form, w.tiles, w.k_extent, w.n_extent, device)


def _widened(flat: Flat, taken: Around) -> tuple[dict[Expr, Window], Expr]:
    """Loops over all outputs where those over results and their windows were, and the sum over them."""
    pairs = partners(taken.window, flat.loops, (i for load in X.loads(taken.sum) for i in load.args)) or {}
    windows: dict[Expr, Window] = {}
    change: dict[Expr, Expr] = {}
    for place, w in enumerate(taken.window):
        if w in pairs and is_fixed(pairs[w]):
            wide = X.fresh(pairs[w].value.extent * w.value.extent)
            windows[wide] = Window(pairs[w], w.value.extent, place)
            change |= {pairs[w]: X.const(0), w: wide}
    return windows, X.substitute(taken.sum, change)


def _remaining(s: Expr, taps: tuple[Expr, ...], sides: tuple[Side, ...]) -> tuple[Expr, ...]:
    """The loops of the sum that tiles do not take, the one with the shortest step last."""
    rest = [v for v in taps if all(v is not side.tap for side in sides)]
    return tuple(sorted(rest, key=lambda v: -abs(coefficient(s.args[0], v) or 0)))


def _candidates(
    flat: Flat, s: Expr, taps: tuple[Expr, ...], n: Expr, windows: Mapping[Expr, Window]
) -> Iterator[tuple[Side, ...]]:
    """Ways to tile: loops over outputs that step through S as a loop over taps does; tiles hold whole windows."""
    pairs = [pair for pair in _pairs(flat, s, taps) if pair[0] is not n]

    def forms(loop: Expr, tap: Expr) -> list[Side]:
        r, window = int(tap.value.extent), windows.get(loop)
        known = [Toom(inputs - r + 1, r) for inputs in PAIRS if inputs - r + 1 >= 2]
        fitting = [t for t in known if r >= 2 and t.outputs <= loop.value.extent]
        sides = [Side(loop, tap, t, window) for t in fitting]
        return [side for side in sides if side.toom.outputs % side.step == 0]

    for pair in pairs:
        if {*windows} <= {pair[0]}:
            yield from ((side,) for side in forms(*pair))
    for one, two in product(pairs, pairs):
        apart = pairs.index(one) < pairs.index(two) and one[0] is not two[0] and one[1] is not two[1]
        if apart and {*windows} <= {one[0], two[0]}:
            yield from product(forms(*one), forms(*two))


def _pairs(flat: Flat, s: Expr, taps: tuple[Expr, ...]) -> list[tuple[Expr, Expr]]:
    """Loops over outputs and over taps that step through S alike, the longest steps first."""
    address, pairs = s.args[0], []
    for tap in taps:
        step = coefficient(address, tap)
        pairs += [(loop, tap) for loop in flat.loops if step and step == coefficient(address, loop)]
    return sorted(pairs, key=lambda pair: -abs(coefficient(address, pair[1]) or 0))


def _ranked(p: _Parts, device: Device) -> list[Form]:
    """Every way to tile, the cheapest first; the first few as threads share them best."""
    found, threads = [], p.flat.threads
    for sides in _candidates(p.flat, p.s, p.taps, p.n, p.windows):
        k = _remaining(p.s, p.taps, sides)
        if not k or coefficient(p.s.args[0], k[-1]) != 1 or most(k[-1]) < 4 or not prod(map(most, k)):
            continue
        at_run = None
        if not is_constant(p.l):
            at_run = run_time_weights(p.l, tuple(side.tap for side in sides), k, p.n)
            if at_run is None:
                continue
        outer = prod(most(v) for v in p.flat.loops if v is not p.n and all(v is not t.loop for t in sides))
        tiles = outer * prod(side.tiles for side in sides)
        tiling = Tiling(sides, tiles, prod(most(v) for v in k), most(p.n), at_run)
        found.append((tiling.usual(device, threads), tiling))
    found.sort(key=lambda pair: pair[0].cycles)
    is_shared = bool(found) and is_worth(found[0][0].cycles * threads, device, threads)
    shared = [tiling.shared(form, device, threads) for form, tiling in found[:REFINED]] if is_shared else []
    return sorted([*shared, *(form for form, _ in found[len(shared) :])], key=lambda form: form.cycles)


def _direct_cycles(flat: Flat, taps: tuple[Expr, ...], n: Expr, device: Device, is_twice: bool) -> float:
    """Of the sum as it stands, of which numbers of 16 bits are taken twice as fast where the machine has them so; here
    it is all fp32."""
    vectors = ceil(most(n) / device.vector_lanes)
    outputs = prod(most(v) for v in flat.loops if v is not n)
    depth = prod(most(v) for v in taps) / (2 if is_twice else 1)
    return outputs * depth * vectors / 2 / device.costs.register_tile.peak_share + streaming(depth * vectors, 1, device)
