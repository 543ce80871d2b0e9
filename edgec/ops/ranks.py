"""Values that several devices exchange while each of them runs the same graph, on weights of its own."""

from __future__ import annotations

from contextvars import ContextVar
from threading import Barrier, BrokenBarrierError

import numpy as np

from edgec.errors import ModelError
from edgec.ir.graph import RESULT, Procedure
from edgec.ir.registry import Tensor, procedure
from edgec.ir.types import DTYPES, STORED, Type

#: Seconds that numpy waits for the other ranks.
PATIENCE = 60.0


class Absent(ModelError):
    """Another rank did not come to an exchange of values, because it failed."""


class Meeting:
    """Threads that evaluate the graphs of all ranks in numpy, one a rank, and meet where values are exchanged."""

    def __init__(self, ranks: int) -> None:
        self._barrier = Barrier(ranks)
        self._given: list[np.ndarray | None] = [None] * ranks

    def join(self, rank: int) -> None:
        """This thread evaluates the graph of a rank from here on."""
        _MEETING.set((self, rank))

    def leave(self) -> None:
        """The others wait no longer: a rank failed."""
        self._barrier.abort()

    def exchange(self, rank: int, given: np.ndarray) -> list[np.ndarray]:
        """Copies of the values of all ranks, in order. Raises Absent where they do not all come."""
        self._given[rank] = given.copy()  # it may be memory that is written again
        try:
            self._barrier.wait(PATIENCE)
            found = [v for v in self._given if v is not None]
            self._barrier.wait(PATIENCE)
        except BrokenBarrierError:
            raise Absent("another rank did not come to an exchange of values") from None
        return found


_MEETING: ContextVar[tuple[Meeting, int] | None] = ContextVar("meeting", default=None)


@procedure
def collective(x: Tensor, *, kind: str, ranks: int) -> Procedure:
    """The values of all ranks on each of them: their sum, or with ``gather`` all of them along a new first dimension.

    Halves are added in f32, in the order of the ranks.
    """
    if kind not in ("sum", "gather"):
        raise ModelError(f"there is no exchange '{kind}'", hint="take sum or gather")
    if kind == "sum" and (x.dtype in STORED or x.dtype == "bool"):
        raise ModelError(f"sums of {x.dtype} over ranks", hint="cast to a wider type first")
    if not x.type.is_fixed:
        raise ModelError("values of open size are not exchanged between ranks", hint="fix the dimensions with --shape")

    def compute(values: np.ndarray) -> np.ndarray:
        there = _MEETING.get()
        if there is None and ranks > 1:
            raise ModelError(f"one of {ranks} ranks does not run alone", hint="run all of them, each in a thread")
        given = there[0].exchange(there[1], values) if there is not None else [values]
        if kind == "gather":
            return np.stack(given)
        wide = np.float32 if x.dtype in ("f16", "bf16") else DTYPES[x.dtype]
        total = given[0].astype(wide)
        for more in given[1:]:
            total = total + more.astype(wide)
        return total.astype(DTYPES[x.dtype])

    shape = (ranks, *x.shape) if kind == "gather" else x.shape
    return Procedure(
        Type(x.dtype, shape), compute, tasks=1, steps=x.type.elements, narrow=frozenset({0, RESULT}), alike=True,
    )  # fmt: skip
