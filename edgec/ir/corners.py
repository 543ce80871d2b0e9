"""Bounds of sums of products of sizes: each is linear in every size, so its extremes are at ends of the ranges."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from math import prod
from typing import TypeVar

Atom = TypeVar("Atom")
#: Sizes whose ends are all tried with one another.
MOST_SIZES = 6


def of_products(
    terms: Mapping[Atom, int],
    factors_of: Callable[[Atom], Sequence[Atom]],
    ends: Callable[[Atom], tuple[int, int] | None],
    start: int,
) -> tuple[frozenset[Atom], int | float, int | float]:
    """(terms, least and greatest value of their sum and ``start``) of those that share sizes; no terms where none do.

    ``ends`` is the range of a factor that is a size, None for others. Bounds of such terms one by one would take a
    size for its least value in one of them and for its greatest in another.
    """
    factors = {atom: factors_of(atom) for atom in terms}
    ranges = {f: found for each in factors.values() for f in each if (found := ends(f)) is not None}
    joint = [a for a, each in factors.items() if {*each} <= ranges.keys() and len({*each}) == len(each)]
    used = [f for a in joint for f in factors[a]]
    sizes = list(dict.fromkeys(used))
    if len(sizes) == len(used) or len(sizes) > MOST_SIZES:
        return frozenset(), start, start
    corners = (dict(zip(sizes, corner)) for corner in product(*(ranges[s] for s in sizes)))
    sums = [start + sum(terms[a] * prod(at[f] for f in factors[a]) for a in joint) for at in corners]
    return frozenset(joint), min(sums), max(sums)
