"""Results whose size is data: each as a tensor of the largest size it can have, and how much of it counts.

The count is a scalar (i64). What lies beyond it is -1 where places are meant, and 0 otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from edgec.errors import ModelError
from edgec.frontend.values import Value, concat, emit, extents_of, full, iota, maximum, select, size
from edgec.ir import expr as X
from edgec.ir.expr import Extent
from edgec.ir.index import greater, lesser


def nonzero(x: Value) -> tuple[Value, Value]:
    """Indices [rank, elements] of the elements that are not 0, in row-major order, and how many there are."""
    x = x if x.rank else x.reshape(1)
    places, count = _found(x if x.dtype == "bool" else emit("ne", x, 0))
    steps = [greater(X.plain(prod(x.shape[d + 1 :])), 1) for d in range(x.rank)]
    return _digits(places, steps, x.shape).transpose(1, 0), count


def compress(x: Value, condition: Value, axis: int) -> tuple[Value, Value]:
    """The slices of x along ``axis`` where ``condition`` [at most the extent] is true, and how many there are."""
    extent = x.shape[axis]
    given = lesser(condition.shape[0], extent)
    chosen = condition.part(0, 0, given)
    if given != extent:
        chosen = concat([chosen, full((extent - given,), False, "bool")], 0)
    places, count = _found(chosen)
    return _kept(x, places, axis), count


@dataclass(frozen=True)
class Unique:
    """The different elements (or slices) of a tensor that has n; ``count`` entries matter, of ``inverse`` all n."""

    values: Value  # [n], or x with the slices in order
    first: Value  # [n]: where each stands first
    inverse: Value  # [n]: for every element of the tensor, which of the values it is
    counts: Value  # [n]: how often each occurs
    count: Value


def unique(x: Value, ascending: bool = True, axis: int | None = None) -> Unique:
    """The different elements of x flattened, or slices along ``axis``: ascending, or in the order of their first.

    Slices are ordered by their first element, where that is equal by the next, and so on. All NaN count as one value,
    which is the greatest.
    """
    if axis is None:
        x, axis = x.reshape(X.plain(prod(x.shape))), 0
        order = emit("argsort", x, axis=0)
    else:
        slices = x.transpose(axis, *(d for d in range(x.rank) if d != axis))
        order = emit("argsort_rows", slices.reshape(x.shape[axis], X.plain(prod(slices.shape[1:]))))
    n = x.shape[axis]
    # A group of equal ones begins where the one before differs; in it stand the places they came from, ascending.
    begins = iota(n, 0, 1).equals(0)
    ranked = x.gather(order, axis)
    before = ranked.gather(maximum(iota(n, 0, 1) - 1, 0), axis)
    begins = begins | _differs(ranked, before).reduce("or", [d for d in range(x.rank) if d != axis], keep=False)
    starts, count = _found(begins)
    there = starts >= 0
    ends = select(there, starts, size(n))
    following = iota(n, 0, 1) + 1
    ends = select(following < size(n), ends.gather(following, 0), size(n))
    first = select(there, order.gather(starts, 0), -1)
    counts = select(there, ends - starts, 0)
    group = emit("prefix", begins.cast("i64"), combine="add", axis=0) - 1
    inverse = emit("scatter_elements", full((n,), 0, "i64"), order, group, axis=0)
    if not ascending:
        occurs = emit("argsort", select(there, first, size(n)), axis=0)
        first, counts = first.gather(occurs, 0), counts.gather(occurs, 0)
        rank = emit("scatter_elements", full((n,), 0, "i64"), occurs, iota(n, 0, 1), axis=0)
        inverse = rank.gather(inverse, 0)
    return Unique(_kept(x, first, axis), first, inverse, counts, count)


def non_max_suppression(
    boxes: Value,
    scores: Value,
    limit: Value,
    overlap: Value,
    least: Value | None = None,
    center: bool = False,
) -> tuple[Value, Value]:
    """Rows [batch * classes * most, 3] of (batch, class, box) that are kept, by batch, class and falling score.

    ``boxes`` [batch, n, 4], ``scores`` [batch, classes, n], and one number each: at most ``limit`` boxes a class (i64),
    the ``overlap`` above which a box gives way, and the score that it must exceed. Each may be known only at run time;
    ``most`` is n, or less where the limit is constant.
    """
    if scores.rank != 3:
        raise ModelError(f"scores are [batch, classes, n], not {scores.type}")
    batch, classes, n = scores.shape
    most = n
    if limit.is_const and limit.type.elements == 1:
        most = lesser(max(int(limit.node.value.reshape(())), 0), n)
    options = [overlap] if least is None else [overlap, least]
    kept = emit("non_max_suppression", boxes, scores, limit, *options, center=center, most=most)
    kept = kept.reshape(batch * classes * most)
    places, count = _found(kept >= 0)
    group = _digits(places, [greater(X.plain(classes * most), 1), greater(most, 1)], (batch, classes))
    box = select(places >= 0, kept.gather(places, 0), -1)
    return concat([group, box.unsqueeze(1)], 1), count


def _found(mask: Value) -> tuple[Value, Value]:
    """The row-major places of true elements, and how many there are."""
    count = mask.cast("i64").sum(range(mask.rank), keep=False)
    return emit("compact", mask), count


def _kept(x: Value, places: Value, axis: int) -> Value:
    """The slices of x at ``places`` along ``axis``, and 0 for those that are negative."""
    there = (places >= 0).reshape(*(places.shape[0] if d == axis else 1 for d in range(x.rank)))
    return select(there, x.gather(places, axis), 0)


def _digits(places: Value, steps: Sequence[Extent], extents: Sequence[Extent]) -> Value:
    """[n, digits] of row-major places: every ``place // step % extent``; -1 stays -1 throughout."""
    column = places.unsqueeze(1)
    moduli = [greater(e, 1) for e in extents]
    digits = emit("floormod", emit("floordiv", column, extents_of(steps)), extents_of(moduli))
    return select(column >= 0, digits, -1)


def _differs(a: Value, b: Value) -> Value:
    unequal = emit("ne", a, b)
    return unequal & ~(emit("isnan", a) & emit("isnan", b)) if a.is_float else unequal
