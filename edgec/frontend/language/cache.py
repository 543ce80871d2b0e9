"""The cache of a decoder: keys and values of earlier tokens, as states that a run extends, and as what attention reads.

A layer that sees all earlier tokens has a row for every position. One that sees a window has a ring of rows: the row of
position p is p modulo their number, so that a new token takes the place of one that no window reaches any more. Rows
are stored as floats of 32 or 16 bits, or as bytes with a scale for each head and position. Attention multiplies the
bytes themselves: the scale of a key is a factor of its score, that of a value a factor of its share.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from edgec.frontend.states import describe
from edgec.frontend.values import Value, clip, emit, iota, maximum, select, size
from edgec.ir import expr as X
from edgec.ir.expr import Expr, Extent
from edgec.ir.graph import Node, placeholder
from edgec.ir.types import Type, ends

Kind = Literal["fp32", "fp16", "int8"]
#: What rows are stored as, by the name of the option.
KINDS: dict[Kind, str] = {"fp32": "f32", "fp16": "f16", "int8": "i8"}
#: The largest byte that a scale stands for; a head all of whose features are smaller than LEAST is zero.
BYTE, LEAST = 127.0, 1e-30
#: The state that counts the positions which were ever written since the start of a text: older rows of a ring are lost.
REACHED = "reached"


@dataclass(frozen=True)
class Positions:
    """The run-time sizes: ``past`` tokens are in the cache, ``count`` come, at most ``chunk``; ``context`` in all."""

    past: Expr
    count: Extent
    context: int
    chunk: int

    @property
    def capacity(self) -> int:
        """Positions that a run may write to: the context, and a chunk that may begin at its end."""
        return self.context + self.chunk - 1

    @property
    def seen(self) -> Extent:
        return X.plain(self.past + self.count)


@dataclass(frozen=True)
class Rows:
    """The rows of a layer: one for each position, or a ring for the last ``window`` tokens and a chunk."""

    at: Positions
    window: int = 0

    @property
    def is_ring(self) -> bool:
        return 0 < self.window < self.at.context

    @property
    def capacity(self) -> int:
        return self.window + self.at.chunk - 1 if self.is_ring else self.at.capacity

    @property
    def seen(self) -> Extent:
        """Rows that hold something after a run."""
        seen = X.lift(self.at.seen, "i64")
        return X.plain(X.call("min", seen, X.const(self.capacity)) if self.is_ring else seen)

    def written(self, state: Value, new: Value, axis: int) -> Value:
        """``state`` with ``new`` in the rows of this run, which are in two pieces where a ring begins anew."""

        def update(whole: Value, part: Value, start: Extent) -> Value:
            return emit("update", whole, part, starts=tuple(start if d == axis else 0 for d in range(3)))

        if not self.is_ring:
            return update(state, new, self.at.past)
        count = X.lift(self.at.count, "i64")
        start = X.call("floormod", self.at.past, X.const(self.capacity))
        first = X.plain(X.call("min", count, self.capacity - start))
        begun = update(state, new.part(axis, 0, first), X.plain(start))
        return update(begun, new.part(axis, first, self.at.count), 0)

    def positions(self) -> Value:
        """The position of every row, [1, 1, 1, rows]."""
        row = iota(self.seen, 3, 4)
        if not self.is_ring:
            return row
        last = size(X.plain(self.at.seen - 1))
        return last - emit("floormod", last - row, self.capacity)

    def hidden(self) -> Value:
        """Is a row hidden from a query, [1, 1, tokens, rows]: is it later, or before the window?"""
        key, query = self.positions(), size(self.at.past) + iota(self.at.count, 2, 4)
        later = key > query
        return later | (key <= query - self.window) if self.window else later


@dataclass(frozen=True)
class Stored:
    """Keys or values as attention multiplies them, [heads, .., ..], and a factor for each row, [heads, 1, rows]."""

    numbers: Value
    scale: Value | None


@dataclass
class Cache:
    """The states of a decoder, collected while its layers are built."""

    at: Positions
    kind: Kind = "fp32"
    states: list[tuple[Node, Node]] = field(default_factory=list)  # before a run and after it
    rings: list[int] = field(default_factory=list)  # windows of layers that keep no other rows

    def rows(self, window: int) -> Rows:
        """The rows of a layer that sees a window, or everything (0)."""
        rows = Rows(self.at, window)
        self.rings += [window] if rows.is_ring else []
        return rows

    def extended(self, name: str, new: Value, axis: int, rows: Rows) -> Stored:
        """The state ``name`` [heads, .., ..] with the rows ``new`` of this run along ``axis``; features are along the
        other of the last two dimensions."""
        if self.kind != "int8":
            return Stored(self._state(name, new.cast(KINDS[self.kind]), axis, rows).cast("f32"), None)
        across = new if axis == 2 else new.swap(1, 2)  # [heads, features, rows], and [heads, rows, features]
        along = new if axis == 1 else new.swap(1, 2)
        codes = clip(emit("round", along / _scale(along, 2)), *ends("i8")).cast("i8")
        scales = self._state(f"{name}_scale", _scale(across, 1), 2, rows)
        codes = codes if axis == 1 else codes.swap(1, 2)
        return Stored(self._state(name, codes, axis, rows).cast("f32"), scales)

    def _state(self, name: str, new: Value, axis: int, rows: Rows) -> Value:
        """The rows that hold something, of the state after this run."""
        shape = list(new.shape)
        shape[axis] = rows.capacity
        state = placeholder(name, Type(new.dtype, tuple(shape)))
        after = rows.written(Value(state), new, axis)
        self.states.append((state, after.node))
        return after.part(axis, 0, rows.seen)

    @property
    def ring(self) -> int:
        """Rows of the smallest ring; 0: there is none."""
        return min(self.rings) + self.at.chunk - 1 if self.rings else 0

    def finish(self) -> None:
        """Add what the rings need to tell which rows they still hold."""
        if self.rings:
            before = placeholder(REACHED, Type("i64", (1,)))
            known = select(emit("eq", size(self.at.past), 0), 0, Value(before))
            self.states.append((before, maximum(known, size(self.at.seen)).node))

    @property
    def inputs(self) -> tuple[Node, ...]:
        return tuple(before for before, _ in self.states)

    @property
    def outputs(self) -> tuple[tuple[str, Node], ...]:
        return tuple((f"{_name(before)}_new", after) for before, after in self.states)

    @property
    def described(self) -> dict[str, str]:
        """The states in the metadata of the graph."""
        return describe({_name(n): (f"{_name(n)}_new", np.zeros(1, np.float32)) for n in self.inputs})


def _scale(new: Value, features: int) -> Value:
    """The value that a byte of each row counts in; features are along one dimension."""
    return maximum(emit("abs", new).reduce("max", [features]), LEAST) * (1.0 / BYTE)


def _name(state: Node) -> str:
    return str(state.attributes["name"])


def shares_of(scores: Value, values: Stored) -> Value:
    """Softmax of ``scores`` [heads, group, tokens, rows], each share times the factor of its value."""
    e = emit("exp", scores - scores.reduce("max", [3]))
    shares = e / e.sum([3])
    return shares if values.scale is None else shares * values.scale.unsqueeze(1)


def products_of(query: Value, keys: Stored) -> Value:
    """Products of ``query`` [heads, group, tokens, features] with each key, times its factor."""
    products = query @ keys.numbers.unsqueeze(1)
    return products if keys.scale is None else products * keys.scale.unsqueeze(1)
