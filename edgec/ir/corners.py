"""Bounds of sums of products of sizes: each is linear in every size, so its extremes are at ends of the ranges."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from math import inf, prod

from edgec.ir.expr import Expr
from edgec.ir.linear import factors_of

#: Sizes whose ends are all tried with one another.
MOST_SIZES = 6


def entangled_products(terms: Mapping[Expr, int]) -> dict[Expr, int]:
    """Those terms that are products of different sizes, where a size is in several of them; else none.

    Bounds of such terms one by one take a size for its least value in one of them and for its greatest in another.
    """
    factors = {atom: factors_of(atom) for atom in terms}
    found = {a: k for a, k in terms.items() if _are_sizes(factors[a]) and len({*factors[a]}) == len(factors[a])}
    sizes = [f for a in found for f in factors[a]]
    is_entangled = any(len(factors[a]) > 1 for a in found) and len({*sizes}) < len(sizes)
    return found if is_entangled and len({*sizes}) <= MOST_SIZES else {}


def at_corners(terms: Mapping[Expr, int]) -> tuple[int, int]:
    """Least and greatest value of such a sum."""
    sizes = list(dict.fromkeys(f for atom in terms for f in factors_of(atom)))
    ends = product(*((s.value.low, s.value.high) for s in sizes))
    known = (dict(zip(sizes, corner)) for corner in ends)
    sums = [sum(k * prod(at[f] for f in factors_of(atom)) for atom, k in terms.items()) for at in known]
    return min(sums), max(sums)


def _are_sizes(factors: list[Expr]) -> bool:
    return all(f.op == "size" and f.value.high < inf for f in factors)
