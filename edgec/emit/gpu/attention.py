"""View of an attention kernel: slots for queries, keys, values, scores and results, and a tile."""

from __future__ import annotations

from functools import cached_property
from math import log

from edgec.emit.c_expression import extent_text
from edgec.emit.c_literal import STORAGE, literal
from edgec.emit.gpu.slots import Slot, SlotView
from edgec.fuse.attention import DOT, MIXED
from edgec.ir import expr as X
from edgec.ir.expr import Expr, Extent
from edgec.ir.nest import extent, most
from edgec.schedule.attention.mask import as_range
from edgec.schedule.gpu.attention import AttentionTile, GpuAttention


class AttentionView(SlotView):
    """In the template ``m`` numbers queries, ``n`` keys, ``k`` features of both and ``d`` those of values."""

    @property
    def params(self) -> GpuAttention:
        schedule = self.kernel.schedule
        assert isinstance(schedule, GpuAttention)
        return schedule

    @property
    def tile(self) -> AttentionTile:
        return self.params.tile

    @property
    def threads(self) -> int:
        return self.tile.threads

    @property
    def shared_bytes(self) -> int:
        return self.tile.shared_bytes

    @property
    def shuffles(self) -> bool:
        """Can neighboring threads exchange registers (or only through shared memory)?"""
        return True

    @property
    def blocks(self) -> Extent:
        return self.params.blocks

    @property
    def groups(self) -> Extent:
        return X.plain(self.blocks * self.params.batches)

    @property
    def batches(self) -> int:
        return self.params.batches

    @property
    def queries(self) -> Extent:
        return extent(self.params.m)

    @property
    def keys(self) -> Extent:
        return extent(self.params.n)

    @property
    def features(self) -> int:
        return self.params.features

    @property
    def width(self) -> int:
        return most(self.params.d)

    @property
    def element(self) -> str:
        return STORAGE.get(self.tile.element, "float")

    @property
    def hides(self) -> bool:
        """Does the mask let blocks of queries skip keys?"""
        return self.params.seen is not None

    @cached_property
    def seen(self) -> tuple[list[str], str, str]:
        """(lines, first tile of keys, end of keys) that the block whose first query is ``first_m`` attends to.

        Of listed tiles these are places in the list.
        """
        p = self.params
        printer = self.printer({p.m: "first_m"})
        first, last = (printer.position(e) for e in p.seen or (X.const(0), X.lift(self.keys, "i64")))
        return printer.lines, first if first == "0" or p.listed is not None else f"{first} / {self.tile.keys}", last

    @property
    def rounds(self) -> str:
        """The end of the rounds of a block: one for each tile of keys."""
        last = self.seen[2]
        return last if self.params.listed is not None else f"({last} + {self.tile.keys - 1}) / {self.tile.keys}"

    @cached_property
    def listed(self) -> tuple[list[str], str] | None:
        """(lines, the tile of keys of a ``round``) where tiles are listed."""
        p = self.params
        if p.listed is None:
            return None
        printer = self.printer({p.listed[0]: "round"})
        tile = printer.position(p.listed[1])
        return printer.lines, tile

    def exists(self, m: str, n: str) -> str:
        """The condition that the query and the key of a score exist; empty where all tiles are full."""
        whole = self.queries, self.tile.queries, self.keys, self.tile.keys
        parts = [f"{i} < {extent_text(e)}" for i, e, t in ((m, *whole[:2]), (n, *whole[2:])) if not _divides(t, e)]
        return f"{' && '.join(parts)} ? " if parts else ""

    @property
    def otherwise(self) -> str:
        return " : -(float)INFINITY" if self.exists("m", "n") else ""

    def within(self, number: str, extent: Extent, tile: int) -> str:
        """A number that may be beyond an extent where tiles reach beyond it, as one inside it."""
        return number if _divides(tile, extent) else f"ec_min_int({number}, {extent_text(extent)} - 1)"

    def some(self, condition: str, extent: Extent, tile: int) -> str:
        """``condition``, which all of an extent meet, where tiles reach beyond it; else nothing."""
        return "" if _divides(tile, extent) else condition % extent_text(extent)

    @cached_property
    def _range(self) -> tuple[Expr, Expr] | None:
        """The truth value that a query sees a key, and the score of those, where it is a range; on tensor cores."""
        p = self.params
        return as_range(p.score, p.m, p.n) if self.tile.high else None

    @property
    def scale(self) -> float | None:
        """The positive number that a score which no range hides is the inner product times; None of other scores."""
        score = self._range[1] if self._range is not None else self.params.score
        factors = score.args if score.op == "mul" else (score, X.const(1.0))
        found = (b.value for a, b in (factors, factors[::-1]) if a is DOT and b.op == "const" and b.value > 0)
        return next(map(float, found), None)

    @property
    def unit(self) -> str:
        """Score to the power of two of its softmax weight."""
        return literal((self.scale or 1.0) / log(2), "f32")

    @property
    def slots(self) -> list[Slot]:
        if not self.tile.high or self.scale is None:
            return [self.query, self.key, self.value, self.score]
        return [self.query, self.key, self.value, *([self.sees] if self.sees is not None else [])]

    @cached_property
    def query(self) -> Slot:
        p = self.params
        return self._operand("query", "m", p.m, "k", p.k, p.query, p.query_lanes, p.query_copied)

    @cached_property
    def key(self) -> Slot:
        p = self.params
        return self._operand("key", "n", p.n, "k", p.k, p.key, p.key_lanes, p.key_copied)

    @cached_property
    def value(self) -> Slot:
        p = self.params
        return self._operand("value", "n", p.n, "d", (p.d,), p.value, p.value_lanes, p.value_copied)

    def _operand(
        self,
        what: str,
        row: str,
        rows: Expr,
        along: str,
        columns: tuple[Expr, ...],
        load: Expr,
        lanes: bool,
        copied: bool,
    ) -> Slot:
        loops = {"batch": self.params.batch, row: (rows,), along: columns}
        if copied:
            return self.place(what, loops, load)
        return self.slot(what, loops, load, columns[-1] if lanes else None)

    @cached_property
    def sees(self) -> Slot | None:
        """The truth value that a query sees a key, of scores that are scaled inner products or -inf."""
        p = self.params
        if self._range is None or self.scale is None:
            return None
        return self.slot("sees", {"m": (p.m,), "n": (p.n,)}, self._range[0], None)

    @cached_property
    def score(self) -> Slot:
        """The score of a query and a key, from their inner product ``dot``."""
        p = self.params
        return self.slot("score", {"batch": p.batch, "m": (p.m,), "n": (p.n,)}, p.score, None, {DOT: "dot"})

    @cached_property
    def finish(self) -> Slot:
        p = self.params
        loops = {"batch": p.batch, "m": (p.m,), "d": (p.d,)}
        return self.finisher(loops, p.result, MIXED, p.d if p.store_lanes else None)


def _divides(tile: int, extent: Extent) -> bool:
    return isinstance(extent, int) and extent % tile == 0
