"""The schedule of a block: the first of an ordered table, from the most to the least specialized, that accepts it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import inf
from typing import NamedTuple

from edgec.device.device import Device
from edgec.fuse import Block
from edgec.ir.nest import most
from edgec.rewrite.rule import Numeric
from edgec.schedule.attention.attention import attention
from edgec.schedule.attention.few_queries import few_queries
from edgec.schedule.channel_groups import channel_groups
from edgec.schedule.contract.cheapest import contract, cycles_of_contract
from edgec.schedule.contract.contract import Contract
from edgec.schedule.contract.few_bits import few_bits
from edgec.schedule.contract.operands import operands
from edgec.schedule.contract.sparse import has_zeros, sparse
from edgec.schedule.contract.winograd import Winograd, cycles_of, winograd
from edgec.schedule.flat import Flat, Weights, with_columns_as_stored
from edgec.schedule.gpu import choose as gpu
from edgec.schedule.grouped import grouped
from edgec.schedule.loops import (
    Parts,
    around_row,
    in_order_of_sum,
    in_wide_sums,
    is_contiguous,
    lanes_of_reductions,
    taken_apart,
    taken_apart_by_nests,
)
from edgec.schedule.map import map_
from edgec.schedule.offer import SparseOffer
from edgec.schedule.program import BlockSchedule
from edgec.schedule.row import row
from edgec.schedule.rows import cycles_of_rows, least_of_rows, rows
from edgec.schedule.sweep import sweep
from edgec.schedule.transpose import transpose
from edgec.schedule.variants import named
from edgec.schedule.window import window

#: Rows of a product for which lanes along the sum take less than gathering the other factor.
FEW_ROWS = 2


@dataclass(frozen=True)
class Request:
    """A block to be scheduled for a device: ``flat`` is its formula on buffers, ``variant`` a requested variant."""

    block: Block
    flat: Flat
    device: Device
    weights: Weights
    numeric: Numeric = "reassociates"
    variant: str | None = None
    threads: int = 1
    scratch: float = inf  # most bytes of a thread to transform weights of a run in


class Found(NamedTuple):
    """A schedule; where weights contain zeros, ``offer`` has the predicted costs with and without them."""

    schedule: BlockSchedule
    offer: SparseOffer | None = None


def _attention(r: Request) -> Found | None:
    found = attention(r.flat, r.device, r.weights)
    return None if found is None else Found(found)


def _few_queries(r: Request) -> Found | None:
    found = few_queries(r.flat, r.device, r.weights, r.threads)
    return None if found is None else Found(found)


def _named(r: Request) -> Found | None:
    found = named(r.flat, r.device, r.weights, r.variant) if r.variant is not None else None
    return None if found is None else Found(found)


def _product(r: Request) -> Found | None:
    if _is_walked_by_lanes(r.flat):
        return None
    found, offer = _cheapest(r)
    if found is None:
        return None
    by_rows = rows(r.flat, r.device, r.weights) if offer is None and _is_less_by_rows(found, r) else None
    return Found(by_rows or found, offer)


def _is_less_by_rows(found: BlockSchedule, r: Request) -> bool:
    """Does a product take less with lanes along its terms: are its results few, or most of its lanes empty?"""
    if r.flat.tile is not None or r.flat.decided or not isinstance(found, (Contract, Winograd)):
        return False
    lanes = r.device.vector_lanes
    is_few = most(found.n) < lanes or (
        isinstance(found, Contract) and found.l_mode == "gathered" and most(found.m) < lanes
    )
    if not is_few:
        return False
    taken = cycles_of(found, r.device) if isinstance(found, Winograd) else cycles_of_contract(found, r.device)
    if taken <= least_of_rows(r.flat):  # which is quicker to tell
        return False
    cycles = cycles_of_rows(r.flat, r.device)
    return cycles is not None and cycles < taken


def _is_walked_by_lanes(flat: Flat) -> bool:
    """Has a product few rows and lanes that lie apart in memory, while both factors are contiguous along a loop?

    Each element of a panel would be packed by itself, for one or two uses of it.
    """
    o = operands(flat)
    if o is None or o.mode != "gathered" or most(o.m) > FEW_ROWS or o.window or flat.tile is not None:
        return False
    return bool(lanes_of_reductions(flat, [o.n]))


def _dot_rows(r: Request) -> Found | None:
    """Sums of products along what is contiguous, of few rows: lanes along the sum, not along results and gathered."""
    o = operands(r.flat)
    if o is None or o.mode != "gathered" or most(o.m) > FEW_ROWS or o.window:
        return None
    if not _is_long(taken_apart(r.flat), r.device):
        nest = taken_apart_by_nests(in_order_of_sum(r.flat, Weights()))
        if nest is None or not _is_long(around_row(nest), r.device):
            return None
    return _row(replace(r, flat=in_order_of_sum(r.flat, r.weights)))


def _long_row(r: Request) -> Found | None:
    """Sums of products that share no lanes (rows by rows, each by its own), along what is contiguous."""
    return _row(r) if _is_long(taken_apart(r.flat), r.device) else None


def _window_of_one_row(r: Request) -> Found | None:
    """Short sums of products whose lanes would be gathered into a panel that a single row of a tile reads once."""
    o = operands(r.flat)
    if o is None or o.mode != "gathered" or most(o.m) > 1 or o.window:
        return None
    return _window(r)


def _is_long(parts: Parts | None, device: Device) -> bool:
    """Do the reductions fill vectors with what is contiguous?"""
    return parts is not None and is_contiguous(parts) and most(parts.row) >= device.vector_lanes


def _grouped(r: Request) -> Found | None:
    found = grouped(r.flat, r.device, r.weights)
    return None if found is None else Found(found)


def _sweep(r: Request) -> Found | None:
    found = sweep(r.flat, r.device, r.weights)
    return None if found is None else Found(found)


def _window(r: Request) -> Found | None:
    found = window(r.flat, r.device, r.weights)
    return None if found is None else Found(found)


def _channel_groups(r: Request) -> Found | None:
    found = channel_groups(r.flat, r.device, r.weights)
    return None if found is None else Found(found)


def _row(r: Request) -> Found | None:
    found = rows(r.flat, r.device, r.weights) or row(r.flat, r.device, r.weights)
    return None if found is None else Found(found)


#: The schedules in the order in which they are tried, and the kinds of blocks that they are tried for. `map_` accepts
#: all others.
SCHEDULES: tuple[tuple[frozenset[str], Callable[[Request], Found | None]], ...] = (
    (frozenset({"attention"}), _few_queries),
    (frozenset({"attention"}), _attention),
    (frozenset({"contract"}), _named),
    (frozenset({"contract"}), _grouped),
    (frozenset({"contract"}), _sweep),
    (frozenset({"contract"}), _dot_rows),
    (frozenset({"contract"}), _window_of_one_row),
    (frozenset({"contract"}), _product),
    (frozenset({"contract", "window"}), _window),
    (frozenset({"contract"}), _long_row),
    (frozenset({"row", "window"}), _channel_groups),
    (frozenset({"row", "window"}), _row),
)


def choose(r: Request) -> Found:
    """The schedule of a block; `edgec.schedule.gpu.choose` has the table for GPUs."""
    if r.device.is_gpu:
        return Found(*gpu.found(r.block, r.flat, r.device, r.weights, r.variant, r.numeric))
    wide = in_wide_sums(r.flat)
    own = {r.block.kind} if wide is None else {r.block.kind, "contract"}
    r = r if wide is None else replace(r, flat=wide)
    if "contract" in own:
        r = replace(r, flat=with_columns_as_stored(r.flat, r.weights))
    for kinds, attempt in SCHEDULES:
        found = attempt(r) if own & kinds else None
        if found is not None:
            return found
    return Found(transpose(r.flat, r.device, r.weights) or map_(r.flat, r.device, r.weights))


def packed(schedule: BlockSchedule, weights: Weights) -> BlockSchedule:
    """The chosen schedule with its constant factor packed; schedules that are only compared are not packed."""
    return schedule.packed_into(weights) if isinstance(schedule, (Contract, Winograd)) else schedule


def _cheapest(r: Request) -> tuple[Contract | Winograd | None, SparseOffer | None]:
    """The schedule of a contraction with the least predicted cost: Winograd, of few bits, direct, or sparse."""
    flat, device, weights, numeric = r.flat, r.device, r.weights, r.numeric
    if flat.tile is not None:
        return contract(flat, device, weights), None
    by_fewer = winograd(flat, device, weights) if numeric != "exact" else None
    if by_fewer is not None and by_fewer.at_run is not None and by_fewer.scratch_bytes > r.scratch:
        by_fewer = None
    direct = contract(flat, device, weights) if by_fewer is None else None
    if direct is not None and direct.magnitudes is not None:
        return direct, None
    few = few_bits(direct, device, weights, numeric) if direct is not None else None
    if few is not None:
        return few, None
    zeros = has_zeros(flat)
    if by_fewer is not None and not zeros:
        return by_fewer, None
    direct = direct or contract(flat, device, weights)
    if direct is None or not zeros:
        return direct, None
    found = sparse(
        _on_lanes(direct, flat, device, weights),
        cycles_of(by_fewer, device) if by_fewer is not None else None,
        device,
        weights,
    )
    if found is None:
        return by_fewer or direct, None
    return found[0] or by_fewer or direct, found[1]


def _on_lanes(direct: Contract, flat: Flat, device: Device, weights: Weights) -> Contract:
    """The dense contraction that `sparse` starts from: without matrix instructions, which take two rows at once."""
    if direct.micro.rows == 1:
        return direct
    plain = replace(device, instruction_sets=tuple(i for i in device.instruction_sets if i not in ("i8mm", "bf16")))
    return contract(flat, plain, weights) or direct
