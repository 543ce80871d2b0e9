"""The GPU schedule of a block: the first of an ordered table, most specialized first, that accepts it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

from edgec.device.device import Device
from edgec.fuse import Block
from edgec.rewrite.rule import Numeric
from edgec.schedule.flat import Flat, Weights
from edgec.schedule.gpu.attention import attention
from edgec.schedule.gpu.contract import contract
from edgec.schedule.gpu.dots import dots
from edgec.schedule.gpu.few_queries import few_queries
from edgec.schedule.gpu.integer import exact_in_floats, of_floats
from edgec.schedule.gpu.kernel import FEW_ROWS, GpuKernel
from edgec.schedule.gpu.loops import many, map_, reduce
from edgec.schedule.gpu.product import product_of
from edgec.schedule.gpu.registers import registers
from edgec.schedule.gpu.vector import vector
from edgec.schedule.gpu.window import window
from edgec.schedule.offer import SparseOffer


@dataclass(frozen=True)
class _Request:
    flat: Flat
    device: Device
    weights: Weights
    variant: str | None
    numeric: Numeric

    @cached_property
    def exact(self) -> Flat:
        """The formula with sums of integers in floats, where floats hold them exactly."""
        return replace(self.flat, body=exact_in_floats(self.flat.body, self.weights))


_Found = tuple[GpuKernel, SparseOffer | None]


def _few_queries(r: _Request) -> _Found | None:
    found = few_queries(r.flat, r.device)
    return None if found is None else (found, None)


def _attention(r: _Request) -> _Found | None:
    found = attention(r.flat, r.device, r.weights) if r.device.gpu.has_local_memory else None
    return None if found is None else (found, None)


def _registers(r: _Request) -> _Found | None:
    product = None if r.device.gpu.has_local_memory else product_of(r.flat)
    found = registers(product, r.device, r.weights, r.variant) if product is not None else None
    return None if found is None else (found, None)


def _dots(r: _Request) -> _Found | None:
    found = dots(r.flat, r.device, r.weights, r.variant) if r.device.language == "opencl" else None
    return None if found is None else (found, None)


def _contract(r: _Request) -> _Found | None:
    """Tiles; for a vector times a matrix, of which a tile would be mostly empty, a team of threads a result."""
    found = contract(r.flat, r.device, r.weights, r.variant)
    if found is None or found.rows * found.batches > FEW_ROWS or found.signs == "halved":
        return None if found is None else (found, found.offer)
    team = reduce(r.flat, r.device, r.weights)
    return (team, None) if team is not None and team.lanes else (found, found.offer)


def _vector(r: _Request) -> _Found | None:
    found = vector(r.flat, r.device, r.weights, r.numeric)
    return None if found is None else (found, None)


def _window(r: _Request) -> _Found | None:
    found = None if r.device.gpu.has_local_memory else window(r.exact, r.device, r.weights)
    return None if found is None else (found, None)


def _many(r: _Request) -> _Found | None:
    found = many(r.exact, r.weights, r.device)
    return None if found is None else (found, None)


def _reduce(r: _Request) -> _Found | None:
    found = reduce(r.exact, r.device, r.weights)
    return None if found is None else (found, None)


#: Kinds of blocks, and what is tried for them in this order. `map_` takes whatever is left.
SCHEDULES: tuple[tuple[frozenset[str], Callable[[_Request], _Found | None]], ...] = (
    (frozenset({"attention"}), _few_queries),
    (frozenset({"attention"}), _attention),
    (frozenset({"contract", "row"}), _vector),
    (frozenset({"contract"}), _registers),
    (frozenset({"contract"}), _dots),
    (frozenset({"contract"}), _contract),
    (frozenset({"contract", "window"}), _window),
    (frozenset({"contract", "window"}), _many),
    (frozenset({"contract", "row", "window"}), _reduce),
)


def found(
    block: Block, flat: Flat, device: Device, weights: Weights,
    variant: str | None = None, numeric: Numeric = "reassociates",
) -> _Found:  # fmt: skip
    """The schedule of a block, with the offer of leaving out zeros where weights have any.

    A product takes the ``variant`` of that name where there is one.
    """
    request = _Request(replace(flat, body=of_floats(flat.body)), device, weights, variant, numeric)
    for kinds, attempt in SCHEDULES:
        chosen = attempt(request) if block.kind in kinds else None
        if chosen is not None:
            return chosen
    return map_(request.exact, weights, device), None


def choose(block: Block, flat: Flat, device: Device, weights: Weights, variant: str | None = None) -> GpuKernel:
    """The schedule of a block."""
    return found(block, flat, device, weights, variant)[0]
