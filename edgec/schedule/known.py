"""Schedules of equal blocks: each is made once, however often its block comes in a network and in trials of it.

Blocks are equal where their formulas differ in nothing but what is loaded, which lies alike in memory. The schedule of
the first then is that of all others, with other buffers. Constants are part of a formula.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any

import numpy as np

from edgec.device.device import Device
from edgec.fuse.block import Block
from edgec.ir import expr as X
from edgec.ir.expr import Expr
from edgec.ir.fresh import is_fresh
from edgec.ir.graph import Node
from edgec.ir.nest import split_formula
from edgec.schedule.flat import Weights
from edgec.schedule.offer import SparseOffer
from edgec.schedule.program import BlockSchedule, Buffer, View

Made = tuple[BlockSchedule, "SparseOffer | None"]


class _Noted(Weights):
    """Constants of a program that note what is added to them, in order."""

    def __init__(self, weights: Weights) -> None:
        self.weights = weights
        self.noted: list[tuple[np.ndarray, Buffer]] = []

    def add(self, value: np.ndarray) -> Buffer:
        buffer = self.weights.add(value)
        self.noted.append((value, buffer))
        return buffer


@dataclass(frozen=True)
class _Known:
    """A schedule, the buffers of its block in the order of its key, the constants that were added for it, and variables
    with fresh names in the order in which they were made: those of its block, and those that were made for it."""

    made: Made
    buffers: tuple[Buffer, ...]
    constants: tuple[tuple[np.ndarray, Buffer], ...]
    own: tuple[Expr, ...]
    variables: tuple[Expr, ...]


@dataclass(frozen=True, eq=False)
class Known:
    """The schedules that were made so far, by the keys of their blocks."""

    by_key: dict[Hashable, _Known] = field(default_factory=dict)

    def schedule(
        self,
        block: Block,
        views: Mapping[Node, View],
        device: Device,
        weights: Weights,
        further: tuple[Hashable, ...],
        make: Callable[[Weights], Made],
    ) -> Made:
        """The schedule of a block that is no procedure: that of an equal one on other buffers, or as it is made.

        ``further`` is what it depends on beside the block, where that lies, and the device.
        """
        key, buffers, own = _key(block, views)
        if key is None:
            return make(weights)
        key = (key, device, further)
        found = self.by_key.get(key)
        if found is None:
            noted = _Noted(weights)
            made = make(noted)
            further_variables = tuple(v for v in _fresh_variables(made[0]) if v not in own)
            self.by_key[key] = _Known(made, buffers, tuple(noted.noted), own, further_variables)
            return made
        others = dict(zip(found.buffers, buffers))
        for value, buffer in found.constants:
            others[buffer] = weights.add(value)
        schedule, offer = found.made
        variables = {**dict(zip(found.own, own)), **{v: X.fresh(v.value.extent) for v in found.variables}}
        return moved_to(schedule, others, variables), offer


def _key(block: Block, views: Mapping[Node, View]) -> tuple[Hashable | None, tuple[Buffer, ...], tuple[Expr, ...]]:
    """A block as a value that equal blocks share, its buffers in the order of their numbers there, and its variables
    with fresh names in the order of these; None for one that is not shared.

    The order of the terms of an index follows the names of variables, and those of buffers where it is loaded: blocks
    with such indices are not shared, and of fresh names the key has the order.
    """
    split = split_formula(block.formula)
    order = list(dict.fromkeys(e for part in (split.body, *split.position, *split.variables) for e in X.walk(part)))
    fresh = {e for e in order if e.op == "var" and is_fresh(e.value.name)}
    own = sorted(fresh, key=lambda v: str(v.value.name))
    rank: dict[Expr, Hashable] = {v: k for k, v in enumerate(own)}
    numbers: dict[Expr, int] = {}
    slots: dict[Node, int] = {}
    rows: list[Hashable] = []
    for k, e in enumerate(order):
        numbers[e] = k
        if e.dtype == "i64" and X.loads(e):
            return None, (), ()
        value: Hashable = e.value
        if e.op == "load" and not e.value.is_const:
            value = slots.setdefault(e.value, len(slots))
        elif e in rank:
            value = (rank[e], e.value.extent)
        elif e.op == "const":
            value = repr(e.value)
        rows.append((e.op, value, e.dtype, *(numbers[a] for a in e.args)))
    loops = tuple(numbers[v] for v in (split.body, *split.position, *split.variables))
    buffers: dict[Buffer, int] = {}
    places = [_place(n, views[n], buffers) for n in (*slots, block.output)]
    return (block.kind, split.type, tuple(rows), loops, tuple(places)), tuple(buffers), tuple(own)


def _place(node: Node, view: View, buffers: dict[Buffer, int]) -> Hashable:
    """The place of a value, with the number of its buffer in place of the buffer."""
    b = view.buffer
    number = buffers.setdefault(b, len(buffers))
    return node.type, number, b.space, b.dtype, b.elements, view.shape, view.strides, view.offset


def _fresh_variables(record: Any) -> tuple[Expr, ...]:
    """The variables with fresh names in a record of a schedule, in the order of their names."""
    found: set[Expr] = set()
    seen: set[Expr] = set()
    stack = [record]
    while stack:
        value = stack.pop()
        if isinstance(value, Expr):
            if value not in seen:
                seen.add(value)
                stack += value.args
                if value.op == "var" and is_fresh(value.value.name):
                    found.add(value)
        elif isinstance(value, Mapping):
            stack += (*value.keys(), *value.values())
        elif isinstance(value, (tuple, list, set, frozenset)):
            stack += value
        elif is_dataclass(value) and not isinstance(value, (type, Buffer)):
            stack += (getattr(value, f.name) for f in fields(value))
    return tuple(sorted(found, key=lambda v: str(v.value.name)))


def moved_to(record: Any, others: Mapping[Buffer, Buffer], variables: Mapping[Expr, Expr]) -> Any:
    """A copy of a record of a schedule with ``others`` in place of its buffers, and with other variables in the same
    order."""
    done: dict[Expr, Expr] = {**variables}
    copies: dict[int, Any] = {}

    def moved(value: Any) -> Any:
        if isinstance(value, Buffer):
            return others.get(value, value)
        if isinstance(value, Expr):
            return _loading(value, others, done)
        if isinstance(value, tuple):
            new = [moved(v) for v in value]
            return type(value)(*new) if hasattr(value, "_fields") else tuple(new)
        if isinstance(value, (list, set, frozenset)):
            return type(value)(map(moved, value))
        if isinstance(value, Mapping):
            return {moved(k): moved(v) for k, v in value.items()}
        if is_dataclass(value) and not isinstance(value, type):
            if id(value) not in copies:
                copies[id(value)] = replace(value, **{f.name: moved(getattr(value, f.name)) for f in fields(value)})
            return copies[id(value)]
        return value

    return moved(record)


def _loading(expr: Expr, others: Mapping[Buffer, Buffer], done: dict[Expr, Expr]) -> Expr:
    """An expression that loads from other buffers; nothing in it becomes simpler by that."""
    for e in X.walk(expr):
        if e in done:
            continue
        args = tuple([done[a] for a in e.args])
        slot = others.get(e.value, e.value) if e.op == "load" else e.value
        done[e] = e if args == e.args and slot is e.value else X.as_it_stands(e, args, slot)
    return done[expr]
