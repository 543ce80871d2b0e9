"""View of a matrix product: three slots (load S, load L, finish) and a tile."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from math import prod

from edgec.emit.c_literal import STORAGE
from edgec.emit.gpu.slots import Slot, SlotView
from edgec.ir import expr as X
from edgec.ir.expr import Expr, Extent
from edgec.ir.nest import coefficient, extent, most
from edgec.schedule.gpu.contract import GpuContract
from edgec.schedule.gpu.results import is_rolled
from edgec.schedule.gpu.tile import AnyTile, TensorTile
from edgec.schedule.program import Buffer


class ContractView(SlotView):
    """A matrix product; templates index its loops by ``batch``, ``m``, ``n`` and ``k``."""

    @property
    def params(self) -> GpuContract:
        schedule = self.kernel.schedule
        assert isinstance(schedule, GpuContract)
        return schedule

    @property
    def tile(self) -> AnyTile:
        return self.params.tile

    @property
    def tensor(self) -> bool:
        """Is it computed on tensor cores?"""
        return isinstance(self.tile, TensorTile)

    @property
    def by_group(self) -> bool:
        """Do groups of four warps multiply?"""
        return isinstance(self.tile, TensorTile) and self.tile.by_group

    @property
    def two_of_four(self) -> bool:
        """Do weights have two of each four elements along k?"""
        return isinstance(self.tile, TensorTile) and self.tile.two_of_four

    @property
    def threads(self) -> int:
        return self.tile.threads

    @property
    def shared_bytes(self) -> int:
        """Dynamic shared memory, which only kernels on tensor cores use; others declare theirs."""
        return self.tile.shared_bytes if self.tensor else 0

    @property
    def groups(self) -> int:
        return self.params.tiles * self.tile.split

    @property
    def cluster(self) -> int:
        return self.split if self.params.is_cluster else 1

    @property
    def rows(self) -> int:
        return self.params.rows

    @property
    def row_count(self) -> Extent:
        """Rows of this run."""
        return X.plain(prod(extent(v) for v in self.params.m))

    @property
    def has_part_rows(self) -> bool:
        """May a tile have more rows than there are?"""
        return not isinstance(self.row_count, int) or self.rows % self.tile.m > 0

    @property
    def columns(self) -> int:
        return self.params.columns

    @property
    def depth(self) -> int:
        return self.params.depth

    @property
    def row_tiles(self) -> int:
        return -(-self.rows // self.tile.m)

    @property
    def column_tiles(self) -> int:
        return -(-self.columns // self.tile.n)

    @property
    def batches(self) -> int:
        return self.params.batches

    @property
    def split(self) -> int:
        return self.tile.split

    @property
    def part(self) -> int:
        """Steps of k that one thread block takes: whole rounds."""
        rounds = -(-self.depth // self.tile.k)
        return -(-rounds // self.split) * self.tile.k

    @property
    def element(self) -> str:
        """The type of an element in shared memory, for tensor cores."""
        return "unsigned char" if self.tile.bytes == 1 else STORAGE.get(self.tile.element, "float")

    @property
    def number(self) -> str:
        """The type of a sum."""
        return "int" if self.params.is_integer else "float"

    @property
    def multiply(self) -> str:
        """Suffix of the multiply function: operand types of int8 products, else the type of elements."""
        return "_".join(self.params.types) if self.params.is_integer else self.tile.element

    @property
    def prefetch(self) -> list[tuple[str, int]]:
        return [*self.early, *self.prefetched(self.params.prefetch)]

    @property
    def s_turned(self) -> bool:
        """Does shared memory hold S with its rows innermost?"""
        return isinstance(self.tile, TensorTile) and self.tile.s_turned

    @property
    def l_turned(self) -> bool:
        return isinstance(self.tile, TensorTile) and self.tile.l_turned

    @property
    def groups_can_sync(self) -> bool:
        """Does the last thread block of a tile add up its parts (or does a second kernel)?"""
        return self.params.groups_can_sync

    @property
    def partial_sum(self) -> str:
        """The type of a sum over a part of k, in scratch memory."""
        return self.number

    @property
    def slots(self) -> list[Slot]:
        return [self.s, self.l, *([self.start] if self.start is not None else [])]

    @property
    def s_along_k(self) -> bool:
        """Do neighboring threads load neighbors of S along k (or along m)?"""
        return self.params.s_lanes or _step(self.params.s, self.params.k) == 1

    @property
    def l_along_n(self) -> bool:
        return self.params.l_lanes or _step(self.params.l, self.params.l_k) != 1

    @property
    def l_is_given(self) -> bool:
        """Is L made of weights alone, so that it can be read before earlier kernels end?"""
        return all(load.value.space == "weights" for load in X.loads(self.params.l))

    # ---- slots

    @cached_property
    def s(self) -> Slot:
        p = self.params
        if p.s_copied:
            return self.place("s", {"batch": p.batch, "m": p.m, "k": p.k}, p.s, p.s_copied)
        lane = (p.m if self.s_turned else p.k)[-1] if p.s_lanes else None
        return self.slot("s", {"batch": p.batch, "m": p.m, "k": p.k}, p.s, lane)

    @cached_property
    def l(self) -> Slot:  # noqa: E743
        p = self.params
        if p.l_copied:
            return self.place("l", {"batch": p.batch, "k": p.l_k, "n": p.l_n}, p.l, p.l_copied)
        lane = (p.l_k if self.tensor and not self.l_turned else p.l_n)[-1] if p.l_lanes else None
        return self.slot("l", {"batch": p.batch, "k": p.l_k, "n": p.l_n}, p.l, lane)

    @cached_property
    def start(self) -> Slot | None:
        """The addend of an integer sum at (m, n), before conversion to float; None without one."""
        p = self.params
        if p.start is None:
            return None
        return self.slot("start", {"batch": p.batch, "m": p.m, "n": p.n}, p.start, None)

    @cached_property
    def finish(self) -> Slot:
        """Stores f(sum) at (m, n), where ``sum`` is one element or LANES neighbors along n.

        Of neighbors on tensor cores, f is apart from the store: only that is under a condition, so that the loads of
        many results are under way at the same time.
        """
        p = self.params
        loops = {"batch": p.batch, "m": p.m, "n": p.n}
        is_apart = self.aliases or p.store_lanes or (self.by_group and self._reads_results)
        finisher = self.finisher_apart if self.tensor and is_apart else self.finisher
        return finisher(loops, p.epilogue, p.accumulator, p.n[-1] if p.store_lanes else None)

    @property
    def rolled(self) -> bool:
        """Do results pass through shared memory, so that a loop finishes them?"""
        return is_rolled(self.tile, self.params.operations) and self.finish.lanes > 1

    @property
    def _reads_results(self) -> bool:
        """Does the epilogue read a number for each result? Loads wait for stores, which may be to the same place."""
        read = [load for load in X.loads(self.params.epilogue) if isinstance(load.value, Buffer)]
        return any(not X.free_variables(load).isdisjoint(self.params.m) for load in read)


def _step(e: Expr, loops: Sequence[Expr]) -> int | None:
    """The stride of the first load of ``e`` along the innermost loop of an extent above 1."""
    inner = next((v for v in reversed(loops) if v.op == "var" and most(v) > 1), None)
    places = [load.args[0] for load in X.loads(e) if load.args]
    return coefficient(places[0], inner) if places and inner is not None else None
