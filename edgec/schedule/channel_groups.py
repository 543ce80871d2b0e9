"""Groups of few neighboring channels, each reduced over its channels and all of their pixels: a group normalization.

Where channels are contiguous, a group by itself would fill a part of a vector. Here lanes run along the channels of all
groups: each is reduced over the pixels by itself, and the lanes of a group are combined after that.
"""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from typing import Any

from edgec.device.device import Device
from edgec.ir import expr as X
from edgec.ir.expr import Expr
from edgec.ir.lane_groups import in_group, without_groups
from edgec.ir.loads import replace_loads
from edgec.ir.nest import coefficient, is_fixed, mergeable, most, used_as_values
from edgec.ir.types import FLOATS
from edgec.ir.vector import is_vectorizable
from edgec.schedule.flat import Flat, Weights, evaluate_over
from edgec.schedule.loops import repacked
from edgec.schedule.map import Map, around_lane

#: Channels of a group: so many divide the lanes of every device that has more.
SIZES = (2, 4, 8)


def channel_groups(flat: Flat, device: Device, weights: Weights) -> Map | None:
    """The map along channels; None where nothing is reduced over groups of channels that fill less than a vector."""
    sums = [e for e in X.walk(flat.body) if e.op == "reduce"]
    for channel in flat.loops:
        size = most(channel)
        if coefficient(flat.address, channel) != 1 or size not in SIZES or size >= device.vector_lanes:
            continue
        for group in flat.loops:
            if coefficient(flat.address, group) == size and sums and is_fixed(group, channel):
                found = _along_channels(flat, group, channel)
                if found is not None:
                    return _map(*found, device, weights)
    return None


def _along_channels(flat: Flat, group: Expr, channel: Expr) -> tuple[Flat, Expr] | None:
    """(formula, loop of all channels) in place of the loops over groups and over the channels of a group."""
    size, known = most(channel), set[bool]()
    if {group, channel} & used_as_values(flat.body):
        return None

    def change(e: Expr) -> Expr | None:
        if e.op != "reduce":
            return None
        names, body = X.opened(e)
        body = X.transform(body, change)
        places = [load.args[0] for load in X.loads(body) if load.args]
        inner = [v for v in names if most(v) == size and any(mergeable(group, v, [a]) for a in places)]
        known.add(len(inner) == 1 and inner[0] not in used_as_values(body) and e.dtype in FLOATS)
        if known != {True}:
            return None
        rest = [v for v in names if v is not inner[0]]
        elements = [X.reduce(e.value[0], rest, X.substitute(body, {inner[0]: X.const(k)})) for k in range(size)]
        return reduce(lambda a, b: X.call(e.value[0], a, b), elements)

    body = X.transform(flat.body, change)
    if known != {True}:
        return None
    lane = X.fresh(most(group) * size)
    place = {group: lane // size, channel: lane - lane // size * size}
    loops = (*(v for v in flat.loops if v not in (group, channel)), lane)
    address = X.substitute(flat.address, place)
    found = replace(flat, loops=loops, body=X.substitute(body, place), address=address)
    is_apart = all(in_group(e, lane) is not None for e in X.walk(found.body) if e.op == "reduce")
    return (found, lane) if is_apart and coefficient(address, lane) == 1 else None


def _by_channel(body: Expr, lane: Expr, weights: Weights) -> Expr:
    """The formula with a constant of every group laid out anew, one for each of its channels."""

    def change(slot: Any, place: tuple[Expr, ...]) -> Expr | None:
        load = X.load(slot, place, slot.dtype)
        if slot.space != "weights" or X.free_variables(load) != {lane} or coefficient(place[0], lane) is not None:
            return None
        return X.load(weights.add(evaluate_over(load, (lane,))), (lane,), slot.dtype)

    return replace_loads(body, change)


def _map(flat: Flat, lane: Expr, device: Device, weights: Weights) -> Map | None:
    """The map along the loop of all channels; None where a function in it has no vector form."""
    loops = sorted(flat.loops, key=lambda v: -(coefficient(flat.address, v) or 0))
    body = _by_channel(repacked(flat.body, flat.loops, lane, weights), lane, weights)
    if not is_vectorizable(without_groups(body, lane), lane, True):
        return None
    outer, inside = around_lane(body, loops, lane)
    return Map(outer, lane, device.vector_lanes, body, flat.store, flat.address, inside)
