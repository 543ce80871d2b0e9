"""Sums of products of fp16, in fp16: on 64-bit Arm with arithmetic in fp16, eight columns of L an instruction.

A few terms of a sum (`TERMS`) are added up in fp16, then widened and added to floats: what is rounded off in fp16
stays that of a few terms, whatever the length of the sum. A lane of 32 bits holds two columns of L.

The weights of a column are divided by a power of two, by which its sums are multiplied again: the least one with which
the weights that are added up in fp16 have absolute values of at most `LARGEST` together. So what is in fp16 is no
larger than the largest number of S among its factors: where S fits fp16, no sum leaves their range, and numbers that
are small beside the others of a column lose no more than they do in S. Weights themselves may have any size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod

import numpy as np

from edgec.device.device import Device
from edgec.ir import expr as X
from edgec.ir import positions
from edgec.ir.expr import Expr
from edgec.ir.nest import coefficient, is_fixed, most
from edgec.schedule.contract.fp16_epilogue import Fp16Epilogue, fp16_epilogue
from edgec.schedule.contract.micro_kernel import Sum
from edgec.schedule.contract.parts import Parts, even_parts
from edgec.schedule.flat import Weights, evaluate_over, is_constant
from edgec.schedule.program import Buffer
from edgec.schedule.storage import memory_type

#: Terms of a sum that are added up in fp16, at most.
TERMS = 64
#: Steps of a turn where instructions stand in order.
TURN = 8
#: Columns of L that a lane of 32 bits holds.
COLUMNS = 2
#: What weights of such a part are together, at most: rounding makes sums of them larger, by less than 2^-11 a term.
LARGEST = 15 / 16


@dataclass(frozen=True)
class Fp16Accumulation:
    """Accumulation in fp16, of one of ``parts`` at a time.

    Results are multiplied by ``scale``. A sum that is one part needs no floats before it is complete, and none at all
    where it has an ``end``.
    """

    parts: Parts
    is_whole: bool
    scale: Expr
    powers: np.ndarray = field(compare=False, repr=False)  # [outer, n], what ``scale`` loads
    end: Fp16Epilogue | None = None


def fp16_sum(device: Device, k: tuple[Expr, ...], s: Expr, l: Expr, rows: int, others: tuple[Expr, ...]) -> Sum | None:
    """The sum over ``k`` by fp16 from memory, and by constants over ``k`` and ``others``; else None."""
    if s.op != "load" or memory_type(s) != "f16" or not is_fixed(*k, *others):
        return None
    if any(coefficient(s.args[0], v) is None for v in X.free_variables(s.args[0])):
        return None
    return Sum(device, "fp16", k, s, l, rows)


def in_fp16(of: Sum, outer: tuple[Expr, ...], n: Expr, in_order: bool, weights: Weights) -> Fp16Accumulation:
    """The accumulation of a sum in fp16, by L divided by the scale.

    For cores that run ``in_order`` the innermost loop is cut between turns of eight steps.
    """
    k, l = of.k, of.l
    extents = [most(v) for v in k]
    parts = even_parts(extents, TERMS)
    if in_order and parts.split == len(k) - 1 and parts.rounds < extents[-1]:
        turns = range(TERMS, 0, -TURN)
        parts = Parts(parts.split, next(p for p in turns if extents[-1] % p == 0 or extents[-1] % p >= TURN))
    values = evaluate_over(l, (*outer, *k, n)).astype(np.float64).reshape(-1, prod(extents), most(n))
    powers = _scales(values, extents, parts)
    is_whole = parts.split == 0 and parts.rounds >= prod(extents[:1])
    return Fp16Accumulation(parts, is_whole, _scale(powers, outer, n, weights), powers)


def taps_in_fp16(
    device: Device, reduction: Expr, body: Expr, loops: tuple[Expr, ...], n: Expr, store: Buffer, address: Expr,
    weights: Weights,
) -> tuple[Expr, Expr, Fp16Epilogue | None] | None:  # fmt: skip
    """(the same sum by weights of fp16, ``body`` over that, its end) of few products that lie along ``n``.

    None where it is of floats: both factors have the lanes, so that eight of either are read at once.
    """
    if not device.has_fp16_fma or reduction.dtype != "f32" or reduction.value[0] != "add":
        return None
    names, product = X.opened(reduction)
    if product.op != "mul" or not is_fixed(*names) or not 1 < prod(map(most, names)) <= TERMS:
        return None
    w, x = sorted(product.args, key=is_constant, reverse=True)
    if not is_constant(w) or x.op != "load" or memory_type(x) != "f16" or coefficient(x.args[0], n) != 1:
        return None
    outer = tuple(v for v in loops if v in X.free_variables(w) and v is not n)
    if not is_fixed(*outer, n) or not X.free_variables(w) <= {*outer, *names, n}:
        return None
    sizes = [*map(most, (*outer, *names)), most(n)]
    values = evaluate_over(w, (*outer, *names, n)).astype(np.float64).reshape(-1, prod(map(most, names)), most(n))
    powers = _scales(values, [values.shape[1]], Parts(0, values.shape[1]))
    packed = weights.add((values / powers[:, None]).astype(np.float16))
    factor = X.load(packed, (positions.linearize((*outer, *names, n), sizes),), "f32")
    total = X.reduce("add", names, x * factor)
    end = fp16_epilogue(body, reduction, powers, outer, n, store, address, weights)
    whole = X.substitute(body, {reduction: total * _scale(powers, outer, n, weights)}) if end is None else end.of(total)
    return total, whole, end


def _scale(powers: np.ndarray, outer: tuple[Expr, ...], n: Expr, weights: Weights) -> Expr:
    place = positions.linearize((*outer, n), (*map(most, outer), most(n)))
    return X.load(weights.add(powers.astype(np.float32)), (place,), "f32")


def _scales(values: np.ndarray, extents: Sequence[int], parts: Parts) -> np.ndarray:
    """[outer, n] powers of two for weights [outer, k, n]."""
    around, columns, split = values.shape[0], values.shape[-1], parts.split
    inside = prod(extents[split + 1 :])
    shape = (around, prod(extents[:split]), extents[split] if extents else 1, inside * columns)
    terms = np.abs(values).reshape(shape).reshape(*shape[:3], inside, columns).sum(3)
    starts = np.arange(0, terms.shape[2], parts.rounds)
    together = np.add.reduceat(terms, starts, axis=2).max((1, 2))
    fits = np.isfinite(together) & (together > 0)
    _, powers = np.frexp(np.where(fits, together, 1) / LARGEST)
    return np.where(fits, np.ldexp(1.0, np.clip(powers, -100, 100)), 1.0)
