"""From a block to loops over memory: every load and the store become a flat position in a buffer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any
from zlib import crc32

import numpy as np

from edgec.errors import DeviceError
from edgec.fuse import Block
from edgec.ir import expr as X
from edgec.ir import positions
from edgec.ir.evaluate import Grid
from edgec.ir.expr import Expr
from edgec.ir.graph import Node
from edgec.ir.loads import replace_loads
from edgec.ir.nest import coefficient, is_fixed, mergeable, split_formula, used_as_values
from edgec.ir.types import DTYPES, dtype_name
from edgec.schedule.program import Buffer, View

#: Bytes of an array that are summed up, at most, and those in one place.
_LONG, _PIECE = 1 << 18, 1 << 10


class Weights:
    """The constants of a program: equal content is stored once, in the type that is ``stored`` for that of values."""

    def __init__(self, stored: Callable[[str], str] = str) -> None:
        self._stored = stored
        self._count = 0
        self._by_content: dict[tuple[Any, ...], list[tuple[np.ndarray, Buffer]]] = {}

    def add(self, value: np.ndarray) -> Buffer:
        value = np.ascontiguousarray(value)
        kind = self._stored(dtype_name(value.dtype))
        if kind != dtype_name(value.dtype):
            value = in_range(value, kind)
        value.flags.writeable = False
        flat = value.reshape(-1)
        content = flat.view(np.uint8) if flat.size else np.zeros(0, np.uint8)
        # A sum that is quick, and then the content itself: arrays of the same sum are rare.
        alike = self._by_content.setdefault((value.dtype, value.shape, _sum_of(content)), [])
        for known, buffer in alike:
            if np.array_equal(known, content):
                return buffer
        buffer = Buffer(f"w{self._count}", "weights", dtype_name(flat.dtype), flat.size, flat)
        self._count += 1
        alike.append((content, buffer))
        return buffer


def _sum_of(content: np.ndarray) -> int:
    """A checksum of bytes: of a long array, that of pieces all over it."""
    if content.size <= _LONG:
        return crc32(content.data)
    pieces = content[: content.size // _PIECE * _PIECE].reshape(-1, _PIECE)
    chosen = pieces[:: max(1, len(pieces) * _PIECE // _LONG)]
    return crc32(content[-_PIECE:].data, crc32(np.ascontiguousarray(chosen).data))


def in_range(value: np.ndarray, kind: str) -> np.ndarray:
    """The values as another type; raises DeviceError where that does not hold them."""
    found = value.astype(DTYPES[kind])
    if not np.array_equal(found, value):
        outside = value[found != value].flat[0]
        hint = "build it for WebAssembly: --device wasm32"
        raise DeviceError(f"a constant of {outside} does not fit the {kind} that memory has for it", hint=hint)
    return found


@dataclass(frozen=True)
class Flat:
    """Loops, the value computed in them, and where it is stored; loads name buffers and have one flat position."""

    loops: tuple[Expr, ...]
    body: Expr
    store: Buffer
    address: Expr
    tile: tuple[int, int] | None = None  # rows and vectors of a product, where somebody decided them
    micro_kernels: tuple[str, ...] = ()  # of a user's own, that a product may take
    decided: tuple[str, ...] = ()  # further decisions about a product, as words (`contract.decisions`)
    threads: int = 1  # that tasks are divided among

    @property
    def addresses(self) -> list[Expr]:
        return [self.address, *(e.args[0] for e in X.loads(self.body))]


def flatten(
    block: Block,
    views: Mapping[Node, View],
    weights: Weights,
    as_read: Callable[[np.ndarray], np.ndarray] | None = None,
    decoded: Callable[[Node, tuple[Expr, ...]], Expr | None] = lambda node, place: None,
) -> Flat:
    """Split the block's loops until indices are linear, then resolve every index to a position in memory.

    ``as_read`` gives constants the type they have there; those that are ``decoded`` lie in other memory.
    """
    split = split_formula(block.formula)

    def resolve(slot: Any, place: tuple[Expr, ...]) -> Expr:
        node: Node = slot
        if node.is_const:
            found = decoded(node, place)
            if found is not None:
                return found
            buffer = weights.add(as_read(node.value) if as_read is not None else node.value)
            return X.load(buffer, (positions.linearize(place, node.type.shape),), node.type.dtype)
        view = views[node]
        return X.load(view.buffer, (view.address(place),), node.type.dtype)

    body = replace_loads(split.body, resolve, keeps_loops=True)
    target = views[block.output]
    return Flat(split.variables, body, target.buffer, target.address(split.position))


def merge_loops(flat: Flat, keep: frozenset[Expr] = frozenset()) -> Flat:
    """Merge neighboring loops that every buffer steps through as through one; ``keep`` is left alone."""
    again = True
    while again:
        again = False
        loops = sorted(flat.loops, key=lambda v: -(coefficient(flat.address, v) or 0))
        for outer in loops:
            for inner in loops:
                if outer is inner or outer in keep or inner in keep or not _merge_is_sound(flat, outer, inner):
                    continue
                flat = _merged(flat, outer, inner)
                again = True
                break
            if again:
                break
    return flat


def _merge_is_sound(flat: Flat, outer: Expr, inner: Expr) -> bool:
    if not mergeable(outer, inner, flat.addresses):
        return False
    # Used elsewhere than in positions (a condition, a value), a loop variable keeps its own identity.
    elsewhere = used_as_values(flat.body)
    return outer not in elsewhere and inner not in elsewhere


def _merged(flat: Flat, outer: Expr, inner: Expr) -> Flat:
    """One loop t = outer * extent(inner) + inner: every address has coefficient(inner) along it."""
    joined = X.fresh(outer.value.extent * inner.value.extent)
    # outer -> 0 and inner -> t gives exactly the merged address, because outer's steps are inner's, extent times.
    change = {outer: X.const(0), inner: joined}
    loops = tuple(joined if v is inner else v for v in flat.loops if v is not outer)
    return replace(flat, loops=loops, body=X.substitute(flat.body, change), address=X.substitute(flat.address, change))


def evaluate_over(e: Expr, axes: tuple[Expr, ...]) -> np.ndarray:
    """Values of an expression of constants on the grid of ``axes`` (one dimension each, extent 1 included)."""
    real = tuple(v for v in axes if v.op == "var")
    value = Grid(real, lambda buffer: buffer.data).value(e)
    full = np.broadcast_to(value, tuple(v.value.extent for v in real))
    return full.reshape([v.value.extent if v.op == "var" else 1 for v in axes])


def is_constant(e: Expr) -> bool:
    """Does an expression load from weights alone?"""
    return all(load.value.space == "weights" for load in X.loads(e))


def with_contiguous_weights(body: Expr, loops: tuple[Expr, ...], lane: Expr, weights: Weights) -> Expr:
    """Lay out anew every constant that is read along ``lane`` with a stride, so that lanes are contiguous."""
    known = set(loops)

    def change(slot: Any, place: tuple[Expr, ...]) -> Expr | None:
        if not isinstance(slot, Buffer):
            return None
        (address,) = place
        free = X.free_variables(address)
        if slot.space != "weights" or not free <= known or lane not in free or not is_constant(address):
            return None
        if coefficient(address, lane) in (None, 0, 1) or any(isinstance(v.value.extent, Expr) for v in free):
            return None
        order = (*(v for v in loops if v in free and v is not lane), lane)
        values = evaluate_over(X.load(slot, place, slot.dtype), order)
        moved = weights.add(values)
        return X.load(moved, (positions.linearize(order, tuple(v.value.extent for v in order)),), slot.dtype)

    return replace_loads(body, change)


def with_columns_as_stored(flat: Flat, weights: Weights) -> Flat:
    """Loops whose iterations are neighbors in the result, as one: constants are laid out in the order of results.

    The channels of a convolution in front of a channel shuffle are one loop so, and fill the lanes.
    """
    fixed = used_as_values(flat.body)
    loops = [v for v in flat.loops if v not in fixed and is_fixed(v)]
    for inner in (v for v in loops if coefficient(flat.address, v) == 1):
        for outer in (v for v in loops if v is not inner and mergeable(v, inner, [flat.address])):
            apart = [e for e in X.loads(flat.body) if e.args and not mergeable(outer, inner, e.args)]
            if apart and all({outer, inner} <= X.free_variables(e) and _is_laid_out(e) for e in apart):
                return with_columns_as_stored(_in_order_of_store(flat, outer, inner, weights), weights)
    return flat


def _is_laid_out(load: Expr) -> bool:
    return load.value.space == "weights" and is_constant(load) and is_fixed(*X.free_variables(load))


def _in_order_of_store(flat: Flat, outer: Expr, inner: Expr, weights: Weights) -> Flat:
    joined = X.fresh(outer.value.extent * inner.value.extent)

    def change(slot: Any, place: tuple[Expr, ...]) -> Expr | None:
        if not place or mergeable(outer, inner, place):
            return None
        others = [v for v in X.walk(place[0]) if v.op == "var" and v is not outer and v is not inner]
        buffer = weights.add(evaluate_over(X.load(slot, place, slot.dtype), (*others, outer, inner)))
        extents = (*(v.value.extent for v in others), joined.value.extent)
        return X.load(buffer, (positions.linearize((*others, joined), extents),), slot.dtype)

    body = X.substitute(replace_loads(flat.body, change), {outer: X.const(0), inner: joined})
    address = X.substitute(flat.address, {outer: X.const(0), inner: joined})
    loops = tuple(joined if v is inner else v for v in flat.loops if v is not outer)
    return replace(flat, loops=loops, body=body, address=address)
