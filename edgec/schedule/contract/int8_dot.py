"""int8 GEMM: dot products of several bytes are one step of the sum.

CPUs add the dot product of four unsigned and four signed bytes, or of four signed and four signed ones, to a 32-bit
lane in one instruction. The sum is therefore taken in groups of four along k: a panel of L is ``[k/4][lanes][4]``,
prefixed by one row of initial accumulators, and S is broadcast group by group. The initial accumulators fold in zero
points and corrections of signedness: with S = s + a and L = l + b, where s and l are the bytes that the instruction
takes,

    sum(S * L) = sum(s * l) + b * sum(s) + a * sum(L)

The last term belongs to a column and is known when L is packed; the middle one is summed along with the products.

Micro-kernels that take more bytes a step (`micro_kernels`: blocks of sixteen, matrices of eight) have panels
``[k/size][lanes][size]``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from edgec.device.device import Device
from edgec.ir import expr as X
from edgec.ir import positions
from edgec.ir.expr import Expr
from edgec.ir.nest import coefficient, is_fixed
from edgec.schedule.contract.micro_kernel import MicroKernel, Sum
from edgec.schedule.contract.micro_kernels.int8_dot import is_taken_as_signed
from edgec.schedule.flat import Weights, evaluate_over, is_constant

#: Bytes of a lane.
WORD = 4
BYTES = ("i8", "u8")


@dataclass(frozen=True)
class DotGroup:
    """The steps of a contraction in int8, or in bf16 (`bf16_dot`), that take several elements of the sum.

    The innermost loop of the sum, ``inner``, becomes one over ``whole`` steps; ``rest`` elements are left over.
    ``step`` is the distance of the elements of a step in S. The other fields are of int8 alone.
    """

    inner: Expr
    whole: int
    rest: int
    step: int
    flip: bool = False  # the sign bits of S are turned first
    row_offset: int = 0  # a: what S is more than those
    column_offset: int = 0  # b: what L is more than the bytes of its panels

    @property
    def count(self) -> int:
        """Steps of the innermost loop, the last one included that is not full."""
        return self.whole + (self.rest > 0)


def int8_of(factor: Expr) -> tuple[Expr, int] | None:
    """(byte, offset) where a factor in i32 is a byte plus a constant."""
    offset = 0
    while factor.op in ("add", "sub"):
        a, b = factor.args
        if factor.op == "add" and a.op == "const":
            a, b = b, a
        if b.op != "const":
            return None
        offset += b.value if factor.op == "add" else -b.value
        factor = a
    if factor.op != "cast" or factor.args[0].dtype not in BYTES:
        return None
    return factor.args[0], int(offset)


def int8_load(factor: Expr) -> tuple[Expr, int] | None:
    """The same where the byte is read from memory as it stands."""
    found = int8_of(factor)
    return found if found is not None and found[0].op == "load" else None


def int8_sum(device: Device, k: tuple[Expr, ...], s: Expr, l: Expr, rows: int) -> tuple[Sum, int] | None:
    """(sum over ``k`` of bytes, what S is more than its bytes); None where S or L is more than a byte and a constant.

    S is a byte from memory plus a constant; L is another, or constant. One column of L is for ``rows`` sums.
    """
    found = int8_load(s)
    if found is None or not is_fixed(*k):
        return None
    load, offset = found
    if any(coefficient(load.args[0], v) is None for v in X.free_variables(load.args[0])):
        return None
    column = _column_offset(l)
    if column is None:
        return None
    return Sum(device, "int8", k, load, l, rows, load.dtype == "i8", column), offset


def dots_of(of: Sum, micro: MicroKernel, offset: int = 0) -> tuple[DotGroup, Expr, tuple[Expr, ...]]:
    """(steps, S at the first element of a step, loops of the sum in steps) of a sum as a micro-kernel takes it.

    ``offset`` is what S is more than its bytes.
    """
    inner = of.k[-1] if of.k else X.const(0)
    flip = of.factors == "int8" and of.signed != micro.signed
    offset += 0 if not flip else 128 if micro.signed else -128
    whole, rest = divmod(of.extent, micro.size)
    step = X.fresh(whole) if whole else X.const(0)
    first = X.substitute(of.s, {inner: step * micro.size}) if inner.op == "var" else of.s
    return DotGroup(inner, whole, rest, of.step, flip, offset, of.column_offset), first, (*of.k[:-1], step)


def _column_offset(l: Expr) -> int | None:
    """Offset subtracted from L so that its elements are int8; None if no offset makes them fit."""
    if not is_constant(l):
        found = int8_load(l)
        return None if found is None else found[1] + (128 if found[0].dtype == "u8" else 0)
    variables = tuple(X.free_variables(l))
    if not is_fixed(*variables):
        return None
    values = evaluate_over(l, variables)
    low, high = int(values.min(initial=0)), int(values.max(initial=0))
    if low >= -128 and high <= 127:
        return 0
    return high - 127 if high - low <= 255 else None


def packed_dots(
    l: Expr, dots: DotGroup, size: int, outer: tuple[Expr, ...], k: tuple[Expr, ...], n: Expr, width: int,
    start: Expr | None,
) -> np.ndarray:  # fmt: skip
    """[outer.., panel, 1 + rows, width] in i32: what accumulators start at, then ``size`` bytes a step, lane by lane.

    ``start`` is added to what they start at. Zeros stand where a step or the last panel reaches beyond L.
    """
    values = evaluate_over(l, (*outer, *k, n)).astype(np.int64)
    columns = n.value.extent if n.op == "var" else 1
    around = [v.value.extent for v in outer]
    extent = k[-1].value.extent if k else 1
    values = values.reshape(int(np.prod(around, dtype=int)), -1, extent, columns)
    first = dots.row_offset * values.sum((1, 2))
    if start is not None:
        first = first + evaluate_over(start, (*outer, n)).astype(np.int64).reshape(-1, columns)
    panels = -(-columns // width)
    shape = (values.shape[0], values.shape[1], dots.count * size, panels * width)
    padded = np.zeros(shape, np.int8)
    padded[:, :, :extent, :columns] = values - dots.column_offset
    split = padded.reshape(shape[0], shape[1] * dots.count, size, panels, width).transpose(0, 3, 1, 4, 2)
    taken = np.ascontiguousarray(split).view(np.int32).reshape(shape[0], panels, -1, width)
    starts = np.zeros((shape[0], panels * width), np.int64)
    starts[:, :columns] = first
    starts = starts.astype(np.int32).reshape(shape[0], panels, 1, width)
    return np.concatenate([starts, taken], axis=2)


def with_bias_inside(epilogue: Expr, accumulator: Expr, known: set[Expr]) -> tuple[Expr, Expr | None]:
    """(epilogue, bias): a constant that is added first, over ``known`` loops, can be what accumulators start at."""
    for e in X.walk(epilogue):
        if e.op == "add" and accumulator in e.args:
            other = e.args[1] if e.args[0] is accumulator else e.args[0]
            if other is accumulator or not is_constant(other) or not X.free_variables(other) <= known:
                continue
            rest = X.substitute(epilogue, {e: X.load("biased", (), "i32")})
            if accumulator not in X.walk(rest):
                return X.substitute(epilogue, {e: accumulator}), other
    return epilogue, None


def with_numbers_in_memory(epilogue: Expr, weights: Weights) -> Expr:
    """Scales and zero points of a whole tensor as loads: layers that differ in nothing else share their code.

    Bounds stay as they are, for what is known to be in range is converted in fewer steps.
    """
    found: dict[Expr, int] = {}
    for e in X.walk(epilogue):
        if e.op in ("add", "sub", "mul", "div") and e.dtype == "f32":
            for a in e.args:
                if a.op == "const":
                    found.setdefault(a, len(found))
    if not found:
        return epilogue
    numbers = weights.add(np.array([c.value for c in found], np.float32))

    def change(e: Expr) -> Expr | None:
        if e.op not in ("add", "sub", "mul", "div") or e.dtype != "f32" or not any(a in found for a in e.args):
            return None
        return X.call(
            e.op, *(X.load(numbers, (X.const(found[a]),), "f32") if a in found else inside(a) for a in e.args)
        )

    def inside(e: Expr) -> Expr:
        return X.transform(e, change)

    return inside(epilogue)


@dataclass(frozen=True)
class Taps:
    """An int8 window sum whose factors share the lanes: dot products of taps along ``along``.

    ``x`` is one byte from memory; ``word`` loads four bytes of weights a lane, by ``place``, the number of the word;
    ``start`` is what a sum starts at.
    """

    names: tuple[Expr, ...]
    along: Expr
    x: Expr
    place: Expr
    word: Expr
    start: Expr
    is_signed: bool
    flip: bool

    @property
    def dots(self) -> int:
        """DotGroup along ``along``."""
        return -(-int(self.along.value.extent) // WORD)


def taps_of(device: Device, reduction: Expr, loops: tuple[Expr, ...], n: Expr, weights: Weights) -> Taps | None:
    """The dots of a sum of products of bytes with constants over a small window; None where it has none.

    The taps that lie farthest apart are put together, so that neighboring outputs share what they load.
    """
    has_dots = any(map(device.has, ("avx512vnni", "avxvnni", "dotprod", "i8mm", "sve")))
    if not has_dots or reduction.dtype != "i32" or reduction.value[0] != "add" or reduction.args[0].op != "mul":
        return None
    names, product = X.opened(reduction)
    left, right = product.args
    x, w = (right, left) if is_constant(left) else (left, right)
    found = int8_load(x)
    if found is None or not is_constant(w) or not names or not is_fixed(*X.free_variables(w)):
        return None
    load, offset = found
    along = max(names, key=lambda v: abs(coefficient(load.args[0], v) or 0))
    rest = tuple(v for v in names if v is not along)
    outer = tuple(v for v in loops if v in X.free_variables(w) and v is not n)
    extent = along.value.extent
    values = evaluate_over(w, (*outer, *rest, along, n)).astype(np.int64)
    if extent < 2 or n not in X.free_variables(w) or values.min() < -128 or values.max() > 127:
        return None
    is_signed = is_taken_as_signed(load.dtype == "i8", device)
    flip = is_signed != (load.dtype == "i8")
    offset += 0 if not flip else 128 if is_signed else -128
    count = -(-extent // WORD)
    columns = n.value.extent
    around = tuple(v.value.extent for v in outer)
    shape = (*around, int(np.prod([v.value.extent for v in rest], dtype=int)))
    values = values.reshape(*shape, extent, columns)
    padded = np.zeros((*shape, count * WORD, columns), np.int8)
    padded[..., :extent, :] = values
    split = np.moveaxis(padded.reshape(*shape, count, WORD, columns), -2, -1)
    packed = weights.add(np.ascontiguousarray(split).view(np.int32)[..., 0])
    starts = weights.add((offset * values.sum((-3, -2))).astype(np.int32))
    place = X.var("word", shape[-1] * count)
    position = positions.linearize((*outer, place, n), (*around, shape[-1] * count, columns))
    word = X.load(packed, (position,), "i32")
    start = X.load(starts, (positions.linearize((*outer, n), (*around, columns)),), "i32")
    return Taps((*rest, along), along, load, place, word, start, is_signed, flip)
