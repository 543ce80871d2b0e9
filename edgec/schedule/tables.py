"""Positions that constants choose, as tables: what a gather with constant indices reads is known when it is built.

The formula of such an index wraps and clamps it, in integers of 64 bits, for every element. Its values are stored
instead, in 32 bits, so that a kernel adds one of them to the position, on lanes too (`ir.vector.chosen`). Positions
that data of 32 bits choose are wrapped and clamped in as many, on lanes too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from edgec.ir import expr as X
from edgec.ir import index, positions
from edgec.ir.expr import Expr
from edgec.ir.extent import sizes
from edgec.ir.loads import replace_loads
from edgec.ir.memory import remembered
from edgec.ir.nest import coefficient, is_fixed, most
from edgec.ir.vector import chosen, is_repeated
from edgec.ops.gathering import wrapped
from edgec.schedule.flat import Flat, Weights, evaluate_over, is_constant
from edgec.schedule.program import Buffer

#: Elements that a table may have.
LARGEST = 1 << 16
#: Lanes that vectors may have.
WIDTHS = (4, 8, 16)


def with_tables(flat: Flat, weights: Weights) -> Flat:
    """The same block with a table for the part of a position that only constants and loops choose."""
    order = sorted(flat.loops, key=lambda v: -(coefficient(flat.address, v) or 0))

    def change(slot: Any, place: tuple[Expr, ...]) -> Expr | None:
        terms, constant = index.linear(place[0])
        if any(_narrowed(e) is not e for e in terms):
            return X.load(slot, (sum((_narrowed(e) * k for e, k in terms.items()), X.const(constant)),), slot.dtype)
        chosen = {e: k for e, k in terms.items() if _is_chosen(e)}
        axes = tuple(v for v in order if any(v in X.free_variables(e) for e in chosen))
        known = set(axes)
        if not chosen or not all(X.free_variables(e) <= known for e in chosen) or not is_fixed(*axes):
            return None
        if prod(map(most, axes)) > LARGEST:
            return None
        values = evaluate_over(sum((e * k for e, k in chosen.items()), X.const(0)), axes)
        if values.size and max(abs(int(values.min())), abs(int(values.max()))) >= 2**31:
            return None
        table = weights.add(values.astype(np.int32))
        read = X.load(table, (positions.linearize(axes, tuple(v.value.extent for v in axes)),), "i32")
        rest = sum((e * k for e, k in terms.items() if e not in chosen), X.const(constant))
        return X.load(slot, (rest + X.cast(read, "i64"),), slot.dtype)

    return replace(flat, body=replace_loads(flat.body, change))


def with_places_along(body: Expr, lane: Expr, loops: Sequence[Expr], weights: Weights) -> Expr:
    """The same value with a table for each position that is not linear along ``lane``: a row repeated, then cropped.

    Lanes are loaded from where the table says (`ir.vector.chosen`). Positions that may lie outside their memory, where
    a choice guards them, stay as they are.
    """
    known = frozenset(loops)

    def change(slot: Any, place: tuple[Expr, ...]) -> Expr | None:
        address = place[0] if place else None
        if address is None or coefficient(address, lane) is not None or chosen(address, lane) is not None:
            return None
        if is_repeated(X.load(slot, place, slot.dtype), lane):
            return None
        terms, constant = index.linear(address)
        along = {e: k for e, k in terms.items() if lane in X.free_variables(e)}
        if any(not X.free_variables(e) <= known or X.loads(e) or sizes(e) for e in along):
            return None
        axes = tuple(v for v in loops if any(v in X.free_variables(e) for e in along) and v is not lane)
        low, high = index.bounds(address)
        if low < 0 or high >= slot.elements or not is_fixed(*axes, lane) or prod(map(most, (*axes, lane))) > LARGEST:
            return None
        values = evaluate_over(sum((e * k for e, k in along.items()), X.const(0)), (*axes, lane)).astype(np.int32)
        own = positions.linearize((*axes, lane), tuple(v.value.extent for v in (*axes, lane)))
        rest = sum((e * k for e, k in terms.items() if e not in along), X.const(constant))
        return X.load(slot, (rest + X.cast(X.load(weights.add(values), (own,), "i32"), "i64"),), slot.dtype)

    return replace_loads(body, change)


def _narrowed(position: Expr) -> Expr:
    """A position that an integer of 32 bits chooses, wrapped and clamped in as many (see `ops.gathering.wrapped`)."""
    found = next((e.args[0] for e in X.walk(position) if e.op == "cast" and e.args[0].dtype == "i32"), None)
    last = position.args[-1] if position.op == "min" else None
    if found is None or last is None or last.op != "const" or last.value >= 2**31 - 1:
        return position
    if position is not wrapped(found, last.value + 1):
        return position
    zero, extent = X.const(0, "i32"), X.const(last.value + 1, "i32")
    place = X.select(X.call("lt", found, zero), X.call("add", found, extent), found)
    return X.cast(X.call("min", X.call("max", place, zero), X.const(last.value, "i32")), "i64")


def in_runs(positions: Expr, row: int) -> bool:
    """Are positions those of a table in which most vectors are neighbors, as their first and last tell?

    That is so of padding by edges, and of parts joined. A ``row`` has so many positions; vectors lie within rows.
    """
    return positions.op == "load" and isinstance(positions.value, Buffer) and _in_runs(positions.value, row)


@remembered(64)
def _in_runs(table: Buffer, row: int) -> bool:
    if table.data is None or table.data.size % row:
        return False
    data = table.data.reshape(-1, row)
    steps = np.pad(np.cumsum(np.diff(data) == 1, axis=1), ((0, 0), (1, 0)))
    for width in (w for w in WIDTHS if w <= row):
        apart = data[:, width - 1 :] - data[:, : row - width + 1] == width - 1
        runs = steps[:, width - 1 :] - steps[:, : row - width + 1] == width - 1
        if not np.array_equal(apart, runs) or 2 * runs.sum() < runs.size:
            return False
    return True


def _is_chosen(e: Expr) -> bool:
    """Is a term of a position read from constants, whose own positions stay inside them, and from no run-time size?"""
    loads = X.loads(e)
    return bool(loads) and not sizes(e) and is_constant(e) and all(_is_inside(load) for load in loads)


def _is_inside(load: Expr) -> bool:
    low, high = index.bounds(load.args[0])
    return low >= 0 and high < load.value.elements
