"""The way in which a schedule runs through a sum: what its template does, in one record."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from edgec.ir.expr import Expr
from edgec.ir.nest import most
from edgec.schedule.contract.parts import Parts


@dataclass(frozen=True, eq=False)
class Added:
    """A sum over ``loops`` (innermost last) of ``body``, or of what ``body`` is a factor of.

    ``chains`` are arrays of numbers of iterations, one row an accumulator that starts at zero: the terms of a row are
    added one after another; -1 stands for none. The sums of rows are added to one another ``in_turn``, or in an order
    that the instruction set has.
    """

    loops: tuple[Expr, ...]
    body: Expr
    chains: np.ndarray
    in_turn: bool = True

    @property
    def terms(self) -> int:
        return prod(map(most, self.loops))

    @staticmethod
    def one_by_one(loops: tuple[Expr, ...], body: Expr) -> Added:
        """One accumulator, to which everything is added as the loops have it."""
        return Added(loops, body, np.arange(prod(map(most, loops)))[None])

    @staticmethod
    def in_parts(loops: tuple[Expr, ...], body: Expr, split: int, rounds: int) -> Added:
        """Parts of ``rounds`` iterations of the loop number ``split``, each from zero on and added to those before."""
        extents = [most(v) for v in loops]
        number = np.arange(prod(extents)).reshape(prod(extents[:split]), extents[split], -1)
        missing = -extents[split] % rounds
        number = np.pad(number, ((0, 0), (0, missing), (0, 0)), constant_values=-1)
        return Added(loops, body, number.reshape(-1, rounds * number.shape[2]))

    @staticmethod
    def on_lanes(loops: tuple[Expr, ...], body: Expr, lanes: int, parts: Parts | None = None) -> Added:
        """Vectors along the innermost loop, one accumulator a lane, which the instruction set adds up at the end.

        With ``parts`` an accumulator starts anew after every part, and after the last whole vector of a row in parts.
        """
        extents, along = [most(v) for v in loops], most(loops[-1])
        number = np.arange(prod(extents)).reshape(-1, along)
        number = np.pad(number, ((0, 0), (0, -along % lanes)), constant_values=-1).reshape(-1, lanes)
        if parts is None:
            return Added(loops, body, number.T, in_turn=False)
        extents[-1] = -(-along // lanes)
        inside, done = prod(extents[parts.split + 1 :]), np.arange(len(number)) + 1
        place = (done - 1) // inside % extents[parts.split] + 1
        ends = (done % inside == 0) & (place % parts.rounds == 0)
        if parts.split == len(loops) - 1:
            whole = along // lanes
            ends = (place <= whole) & (ends | (place == whole))
        pieces = [piece.T for piece in np.split(number, done[ends]) if len(piece)]
        longest = max(piece.shape[1] for piece in pieces)
        pieces = [np.pad(p, ((0, 0), (0, longest - p.shape[1])), constant_values=-1) for p in pieces]
        return Added(loops, body, np.concatenate(pieces), in_turn=False)
