"""Convolutions of small groups: lanes along the channels of several groups at once.

A group of 4 output channels leaves 12 of 16 lanes of a contraction empty. But the channels of neighboring groups lie
side by side, those of results and those of operands: a vector of operands has the same groups as a vector of results,
and one instruction spreads an element of each group to all lanes of it. So all lanes are used. Where a group reads one
channel, as in depthwise convolutions with several outputs a channel, its element is repeated. The kernel is a window:
sums over taps and over the elements of a group, unrolled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import Any

from edgec.device.device import Device
from edgec.ir import expr as X
from edgec.ir import index
from edgec.ir.expr import Expr
from edgec.ir.loads import replace_loads
from edgec.ir.nest import coefficient, is_fixed, mergeable, most, used_as_values
from edgec.ir.vector import HALF
from edgec.schedule.contract.sparse import has_zeros
from edgec.schedule.flat import Flat, Weights
from edgec.schedule.storage import memory_type
from edgec.schedule.window import Window, window

#: Floats that lanes load, widened where they are narrower.
_FLOATS = frozenset({"f32", *HALF})


def grouped(flat: Flat, device: Device, weights: Weights) -> Window | None:
    """The window of a sum of products in small groups; None where it is none, or a group fills the lanes."""
    sums = [e for e in X.walk(flat.body) if e.op == "reduce"]
    if len(sums) != 1 or device.precision != "fp32" or flat.tile is not None or has_zeros(flat):
        return None
    if any(t not in _FLOATS for t in (flat.store.dtype, *map(memory_type, X.loads(flat.body)))):
        return None
    for groups, channel in product(flat.loops, repeat=2):
        size = most(channel)
        fits = 1 < size < device.vector_lanes and device.vector_lanes % size == 0 and is_fixed(groups, channel)
        if fits and mergeable(groups, channel, [flat.address]) and coefficient(flat.address, channel) == 1:
            joined = _joined(flat, X.reduction_variables(sums[0]), groups, channel)
            return window(joined, device, weights, size) if joined is not None else None
    return None


def _joined(flat: Flat, names: Sequence[Expr], groups: Expr, channel: Expr) -> Flat | None:
    """One loop over the channels of all groups; None where a load is neither of one channel nor of its whole group."""
    if {groups, channel} & used_as_values(flat.body):
        return None
    others = [e.args[0] for e in X.loads(flat.body) if not mergeable(groups, channel, e.args)]
    if not others or not all(_is_of_group(a, names, groups, channel) for a in others):
        return None
    joined = X.fresh(most(groups) * most(channel))
    one_by_one = {groups: X.const(0), channel: joined}

    def change(slot: Any, place: tuple[Expr, ...]) -> Expr:
        to = one_by_one if mergeable(groups, channel, place) else {groups: joined // most(channel)}
        return X.load(slot, (X.substitute(place[0], to),), slot.dtype)

    loops = tuple(joined if v is channel else v for v in flat.loops if v is not groups)
    body, address = replace_loads(flat.body, change), X.substitute(flat.address, one_by_one)
    return replace(flat, loops=loops, body=body, address=address)


def _is_of_group(address: Expr, names: Sequence[Expr], groups: Expr, channel: Expr) -> bool:
    """Does one loop of the sum walk a whole group, and everything else by whole groups; or is an element a group?"""
    size = most(channel)
    if coefficient(address, groups) == 1 and coefficient(address, channel) == 0:
        return True
    along = [v for v in names if coefficient(address, v) == 1 and most(v) == size]
    if coefficient(address, groups) != size or coefficient(address, channel) != 0 or len(along) != 1:
        return False
    terms, constant = index.linear(address)
    return constant % size == 0 and all(step % size == 0 for v, step in terms.items() if v is not along[0])
