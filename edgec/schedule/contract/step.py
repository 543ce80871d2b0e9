"""The step of a contraction: the type of its sum, its micro-kernel, and its loops counted in steps."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from math import prod
from typing import NamedTuple

from edgec.device.device import Device
from edgec.ir.expr import Expr
from edgec.ir.nest import coefficient, is_fixed, most
from edgec.schedule.contract import micro_kernels  # noqa: F401  (they register)
from edgec.schedule.contract.bf16_dot import bf16_sum
from edgec.schedule.contract.fp16_sums import fp16_sum
from edgec.schedule.contract.int8_dot import DotGroup, dots_of, int8_sum
from edgec.schedule.contract.micro_kernel import MicroKernel, Sum, chosen, in_order_form
from edgec.schedule.storage import memory_type, narrow_dtype


class Step(NamedTuple):
    """A sum in steps of a micro-kernel: ``s`` is S at the first element of a step, ``k`` are the loops over steps."""

    micro: MicroKernel
    dots: DotGroup | None
    s: Expr
    k: tuple[Expr, ...]


def sum_of(
    device: Device, dtype: str, mode: str, k: tuple[Expr, ...], s: Expr, l: Expr, around: tuple[Expr, ...],
    others: tuple[Expr, ...], own: tuple[str, ...],
) -> tuple[Sum, int] | None:  # fmt: skip
    """(sum of products over ``k``, offset of S relative to its bytes); None where no micro-kernel can compute it.

    ``around`` are the loops of the sums that use one column of L, ``others`` those of L, ``own`` the names of the
    user's own micro-kernels.
    """
    rows = prod(map(most, around))
    if dtype == "i32":
        found = int8_sum(device, k, s, l, rows)
        return None if found is None else (replace(found[0], own=own), found[1])
    narrow = None
    if mode == "packed":
        narrow = bf16_sum(device, k, s, l, rows) or fp16_sum(device, k, s, l, rows, others)
    return replace(narrow or Sum(device, "fp32", k, s, l, rows), own=own), 0


def step_of(of: Sum, offset: int, mode: str, around: tuple[Expr, ...]) -> Step | None:
    """The micro-kernel of a sum, and its steps; None where there is none."""
    micro = chosen(of)
    if micro is None:
        return None
    dots, s, k = None, of.s, of.k
    if micro.size > 1:
        dots, s, k = dots_of(of, micro, offset)
    form = in_order_form(micro, of.device.dual_issue_load)
    if form is not None and _is_for_in_order(form, of.device, mode, k, s, dots, around):
        micro = form
    return Step(micro, dots, s, k)


def _is_for_in_order(
    form: MicroKernel, device: Device, mode: str, k: tuple[Expr, ...], s: Expr, dots: DotGroup | None,
    around: tuple[Expr, ...],
) -> bool:  # fmt: skip
    """Can loads be placed between multiply-adds: a panel of L, neighbors of S, enough of them in a loop?"""
    assert form.order is not None
    if not device.in_order or device.arch != "aarch64" or mode == "direct":
        return False
    if narrow_dtype(device) and not (dots is None and device.has_fp16_fma and memory_type(s) == "f16"):
        return False
    if not k or not is_fixed(*k) or s.op != "load" or k[-1].op != "var":
        return False
    if any(coefficient(s.args[0], v) is None for v in (*k, *around) if v.op == "var"):
        return False
    if prod(map(most, k[-walked_as_one(s, k) :])) < form.order.least_steps:
        return False
    if form.order.needs and not device.has(form.order.needs):
        return False
    if dots is None:
        is_one = coefficient(s.args[0], k[-1]) == 1
        return is_one and (memory_type(s) == "f32" or (memory_type(s) == "f16" and walked_as_one(s, k) == 1))
    return not dots.rest and not dots.column_offset and dots.step == 1


def walked_as_one(s: Expr, k: tuple[Expr, ...]) -> int:
    """Number of the innermost loops of a sum that S traverses as one; panels are always traversed so."""
    count = 1
    for outer, inner in reversed([*pairwise(k)]):
        if coefficient(s.args[0], outer) != (coefficient(s.args[0], inner) or 0) * most(inner):
            break
        count += 1
    return count
