"""Products of one vector on a GPU, which read their weights once, at the speed of memory.

``out[v] = f(sum over k of S[k] * L0[v, k], sum over k of S[k] * L1[v, k], ...)``. A thread block first computes S, by
any formula (a norm, say), and keeps it in shared memory; then its warps walk over results. Weights are [v, k] in the
order in which lanes load 16 bytes each: fp32, fp16, bf16, or codes of 4 or 8 bits with a scale and an offset for each
group. The first weights are requested before the kernels before this one end.

Where S is cheap, every warp computes the elements that its lanes multiply, in registers; of codes, a lane then loads as
many at once as of fp16. A factor of S that is the same for all of its elements (that of a norm) then multiplies the
sums, so that its own sum is computed beside them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil, prod
from typing import ClassVar, Literal

import numpy as np

from edgec.device.device import Device
from edgec.fuse.cost_model import gpu_launch_s
from edgec.ir import expr as X
from edgec.ir.expr import Expr
from edgec.ir.loads import outermost
from edgec.ir.nest import coefficient, is_fixed, most
from edgec.ir.types import DTYPES
from edgec.rewrite.rule import Numeric
from edgec.schedule.contract.codes import Codes, codes_of
from edgec.schedule.flat import Flat, Weights, evaluate_over, is_constant, with_contiguous_weights
from edgec.schedule.gpu.kernel import LANES, GpuKernel, Prefetch, on_lanes, packed_as
from edgec.schedule.gpu.loops import GpuReduce
from edgec.schedule.loops import merge_reductions, reduced
from edgec.schedule.program import Buffer

Kind = Literal["f32", "f16", "bf16", "c8", "c4"]
#: Elements of 16 bytes of weights.
PIECE: dict[Kind, int] = {"f32": 4, "f16": 8, "bf16": 8, "c8": 16, "c4": 32}
#: Warps of a thread block, and blocks that a multiprocessor runs at once.
WARPS, BLOCKS = 8, 3
#: Most pieces of a thread that are on their way at once, and most bytes of S: parts of sums need shared memory too.
FLYING, ROOM = 12, 44 << 10
#: Products whose weights take fewer bytes last about as long as a launch.
LIGHT = 4 << 20
#: Most elements of S that a thread keeps in registers, and most operations and loads of one that every warp computes.
KEPT, CHEAP = 24, 8
#: Most elements of a piece where S is in registers: more would leave lanes of short rows without a piece.
SHORT = 8
#: The part of the speed of memory at which weights are read.
REACHED = 0.8
#: The part of the device that the warps of such a product should fill: sums of several warps meet behind a barrier.
FEWER = 0.1


@dataclass(frozen=True)
class Factor:
    """The weights of one sum: [v, k] in ``words``; of codes, ``numbers`` are [v, group] pairs of scale and offset."""

    kind: Kind
    words: Buffer
    numbers: Buffer | None = None
    group: int = 0


@dataclass(frozen=True)
class VectorTile:
    """A warp takes ``columns`` results at once; ``ways`` warps share them, each with ``steps`` pieces of every 32."""

    columns: int
    ways: int
    steps: int
    groups: int  # thread blocks
    in_registers: bool = False  # S: a thread computes the elements of its own pieces
    words: int = 4  # of 4 bytes, of a piece

    @property
    def rows(self) -> int:
        """Sets of results of a thread block."""
        return WARPS // self.ways


@dataclass(frozen=True)
class GpuVector(GpuKernel):
    """``stage`` computes S along its row; the result is ``body`` over ``loops``, and ``inside``, which share sums."""

    template: ClassVar[str] = "vector"
    loops: tuple[Expr, ...]
    inside: tuple[Expr, ...]
    stage: GpuReduce
    factors: tuple[Factor, ...]
    body: Expr  # over ``total(j)``
    scale: Expr | None  # of the sums, over ``reduced(k)``
    tile: VectorTile
    starts_next: bool = False  # the next kernel may start before the one before this one ends
    prefetch: Prefetch = ()

    @property
    def depth(self) -> int:
        return most(self.stage.row)

    @property
    def results(self) -> int:
        return prod(map(most, self.loops))

    @property
    def prefetched(self) -> tuple[Buffer, ...]:
        return tuple(buffer for buffer, _ in self.prefetch)

    @property
    def kind(self) -> Kind:
        return self.factors[0].kind

    @property
    def piece(self) -> int:
        """Elements of the weights that a lane loads at once."""
        return PIECE[self.kind] * self.tile.words // 4

    @property
    def bodies(self) -> list[Expr]:
        return [*self.stage.bodies, *([] if self.scale is None else [self.scale]), self.body]

    @property
    def at_store(self) -> list[Expr]:
        return [self.body]

    @property
    def tables(self) -> list[Buffer]:
        return [b for f in self.factors for b in (f.words, f.numbers) if b is not None]

    def predicted_seconds(self, device: Device) -> float | None:
        """Seconds of a launch, and of reading the weights; None where the speed of memory is not known."""
        if device.language != "cuda" or not device.gpu.memory_gbps:
            return None
        return gpu_launch_s(device) + sum(b.bytes for b in self.tables) / (REACHED * device.gpu.memory_gbps * 1e9)

    @property
    def describe(self) -> str:
        t, many = self.tile, f"{len(self.factors)} x " * (len(self.factors) > 1)
        where = ", in registers" * t.in_registers
        product = f"vector of {self.depth} times {many}{self.results} in {self.kind}"
        return f"{product}, {t.columns} at once, {t.ways} warps{where}"


def total(j: int) -> Expr:
    """The value of the j-th sum."""
    return X.load(("sum", j), (), "f32")


def vector(flat: Flat, device: Device, weights: Weights, numeric: Numeric = "reassociates") -> GpuVector | None:
    """Schedule ``flat`` as products of one vector with constants; None where it is something else."""
    flat = merge_reductions(flat)
    sums = outermost(flat.body)
    if device.language != "cuda" or not sums or any(s.value[0] != "add" or s.dtype != "f32" for s in sums):
        return None
    needed = frozenset().union(*map(X.free_variables, sums))
    by_step = sorted(flat.loops, key=lambda v: -(coefficient(flat.address, v) or 0))
    loops = tuple(v for v in by_step if v in needed)
    inside = tuple(v for v in by_step if v not in needed)
    names = X.reduction_variables(sums[0])
    if not is_fixed(*by_step, *names) or any(X.reduction_variables(s) != names for s in sums):
        return None
    found = [_factors(s.args[0], frozenset(names)) for s in sums]
    parts = [p for p in found if p is not None]
    if len(parts) < len(sums) or any(p[0] is not parts[0][0] for p in parts):
        return None
    stage = _stage(flat, parts[0][0], names, weights)
    if stage is None or most(stage.row) * 4 > ROOM:
        return None
    factors = tuple(_weights(l, loops, names, weights, device) for _, l in parts)
    if len({(f.kind, f.group, f.numbers.dtype if f.numbers is not None else "") for f in factors}) > 1:
        return None
    body = X.substitute(flat.body, {s: total(j) for j, s in enumerate(sums)})
    apart = _scale_apart(stage) if numeric != "exact" or not stage.reductions else None
    can_keep = (
        apart is not None
        and sum(f.words.bytes for f in factors) <= LIGHT
        and most(stage.row) % min(SHORT, PIECE[factors[0].kind]) == 0
    )
    tile = _tile(prod(map(most, loops)), most(stage.row), factors, device, can_keep)
    scale = None
    if tile.in_registers and apart is not None:
        stage, scale = apart
    return GpuVector(flat.store, flat.address, loops, inside, stage, factors, body, scale, tile)


def _factors(product: Expr, k: frozenset[Expr]) -> tuple[Expr, Expr] | None:
    """(S, L): the factor that depends on nothing but the loops of the sum, and the constant one."""
    if product.op != "mul":
        return None
    for s, l in (product.args, product.args[::-1]):
        if X.loads(l) and is_constant(l) and not any(x.op == "reduce" for x in X.walk(l)) and X.free_variables(s) <= k:
            return s, l
    return None


def _digits(variables: Sequence[Expr], number: Expr) -> dict[Expr, Expr]:
    """The loops, outermost first, that one number counts."""
    found, below = dict[Expr, Expr](), 1
    for v in reversed(variables):
        above = number // below if below > 1 else number
        found[v] = above % most(v) if v is not variables[0] else above
        below *= most(v)
    return found


def _stage(flat: Flat, s: Expr, names: tuple[Expr, ...], weights: Weights) -> GpuReduce | None:
    """S along one row, with the reductions that it needs, by all threads of a block."""
    row = X.var("row", prod(map(most, names)))
    done: dict[Expr, Expr] = {}
    reductions = []
    for k, r in enumerate(sorted((e for e in X.walk(s) if e.op == "reduce"), key=lambda e: e.height)):
        own = X.reduction_variables(r)
        if prod(map(most, own)) != most(row) or r.dtype != "f32" or X.free_variables(r) - set(own):
            return None
        inner = X.substitute(X.transform(r.args[0], done.get), _digits(own, row))
        reductions.append((r.value[0], with_contiguous_weights(inner, (row,), row, weights)))
        done[r] = reduced(k, "f32")
    result = with_contiguous_weights(X.substitute(X.transform(s, done.get), _digits(names, row)), (row,), row, weights)
    lanes = most(row) % LANES == 0 and all(on_lanes(b, row) for b in (result, *(b for _, b in reductions)))
    return GpuReduce(
        flat.store, row, (), row, tuple(reductions), result, True, lanes, 32 * WARPS, 1,
    )  # fmt: skip


def _scale_apart(stage: GpuReduce) -> tuple[GpuReduce, Expr | None] | None:
    """(S without a factor that is the same for all elements, that factor); None where S is not cheap without it."""
    factor, rest = _common_factor(stage.result, stage.row)
    is_one_pass = not any(_needs_reductions(e) for e in (rest, *(body for _, body in stage.reductions)))
    is_cheap = sum(_operations(e) for e in (rest, *(body for _, body in stage.reductions))) <= CHEAP
    if not (stage.lanes and is_one_pass and is_cheap):
        return None
    return replace(stage, result=rest), factor


def _common_factor(e: Expr, row: Expr) -> tuple[Expr | None, Expr]:
    """(the product of the factors that do not depend on the row, that of the others)."""
    if row not in X.free_variables(e):
        return e, X.const(1.0, "f32")
    if e.op == "div" and row not in X.free_variables(e.args[1]):
        factor, rest = _common_factor(e.args[0], row)
        return X.call("div", X.const(1.0, "f32") if factor is None else factor, e.args[1]), rest
    if e.op != "mul":
        return None, e
    (one, left), (other, right) = (_common_factor(a, row) for a in e.args)
    factors, rests = (
        [f for f in (one, other) if f is not None],
        [r for r in (left, right) if row in X.free_variables(r)],
    )
    rest = rests[0] if len(rests) == 1 else X.call("mul", *rests)
    return (X.call("mul", *factors) if len(factors) == 2 else factors[0] if factors else None), rest


def _needs_reductions(e: Expr) -> bool:
    return any(load.value[0] == "reduction" for load in X.loads(e) if isinstance(load.value, tuple))


def _operations(e: Expr) -> int:
    """Operations and loads of an element; more than any number of cheap ones where there is an expensive one."""
    places = {x for load in X.loads(e) for place in load.args for x in X.walk(place)}
    inside = [x for x in X.walk(e) if x not in places]
    return (
        len(inside)
        if all(x.op in ("load", "const", "var", "add", "sub", "mul", "neg", "max", "min") for x in inside)
        else CHEAP + 1
    )


def _weights(l: Expr, loops: tuple[Expr, ...], names: tuple[Expr, ...], weights: Weights, device: Device) -> Factor:
    """The constant factor as [v, k], packed."""
    found = _codes(l, loops, names)
    if found is not None:
        return _coded(found, weights)
    values = evaluate_over(l, (*loops, *names)).reshape(prod(map(most, loops)), -1)
    kind = packed_as(device)
    width = -(-values.shape[1] // PIECE[kind]) * PIECE[kind]
    padded = np.zeros((len(values), width), DTYPES[kind])
    padded[:, : values.shape[1]] = values
    return Factor(kind, weights.add(padded))


def _codes(l: Expr, loops: tuple[Expr, ...], names: tuple[Expr, ...]) -> Codes | None:
    """The codes that a factor is made of, where a piece of 16 bytes is in one group."""
    n = loops[0] if len(loops) == 1 else X.fresh(prod(map(most, loops)))
    k = names[0] if len(names) == 1 else X.fresh(prod(map(most, names)))
    change = _digits(loops, n) if len(loops) != 1 else {}
    change |= _digits(names, k) if len(names) > 1 else {}
    found = codes_of(X.substitute(l, change), (), k, n)
    if found is None or most(found.k[1]) % PIECE["c4" if found.bits == 4 else "c8"]:
        return None
    return found


def _coded(found: Codes, weights: Weights) -> Factor:
    _, groups, group, columns = found.codes.shape
    codes = np.ascontiguousarray(found.codes[0].reshape(groups * group, columns).T)
    if found.bits == 4:
        words = codes.reshape(columns, -1, 8).astype(np.uint32) << np.arange(0, 32, 4, dtype=np.uint32)
        packed = np.bitwise_or.reduce(words, axis=2)
    else:
        packed = codes.view(np.uint32)
    scale = found.scale.values[0].T
    base = found.base.values[0].T if found.base is not None else np.zeros(1, np.float32)
    offset = -scale * base if found.has_points else base - scale * np.float32(found.zero)
    pairs = np.stack(np.broadcast_arrays(scale, offset), axis=2).astype(np.float32)
    with np.errstate(over="ignore"):
        half = pairs.astype(np.float16)
    numbers = half if np.array_equal(half.astype(np.float32), pairs) else pairs
    kind: Kind = "c4" if found.bits == 4 else "c8"
    return Factor(kind, weights.add(packed.view(np.int32)), weights.add(numbers), group)


def _tile(results: int, depth: int, factors: tuple[Factor, ...], device: Device, can_keep: bool) -> VectorTile:
    """Enough warps to fill the device, each with a few pieces on their way; S in registers where it fits there."""
    whole, wanted = PIECE[factors[0].kind], device.gpu.multiprocessors * WARPS
    columns = 1
    while columns < (4 if factors[0].numbers is not None else 2) and results >= 4 * columns * wanted:
        columns *= 2
    flying = max(1, FLYING // (columns * len(factors)))

    def tile(piece: int, most_steps: int, warps: float, in_registers: bool) -> VectorTile:
        pieces, ways = ceil(ceil(depth / piece) / 32), 1
        while ways < min(WARPS, pieces) and (ceil(pieces / ways) > most_steps or results * ways < columns * warps):
            ways *= 2
        groups = ceil(results / (columns * (WARPS // ways)))
        rounds = ceil(groups / (BLOCKS * device.gpu.multiprocessors))
        return VectorTile(columns, ways, ceil(pieces / ways), ceil(groups / rounds), in_registers, 4 * piece // whole)

    if can_keep:
        short = min(SHORT, whole)
        kept = tile(short, min(flying, KEPT // short), wanted * FEWER, True)
        if kept.steps * short <= KEPT:
            return kept
    return tile(whole, flying, wanted, False)
