"""Long sums in parts: a few terms are added up at a time, and the part is added to the sum of those before it.

What a sum of n floats rounds off grows with its longest chain of additions: with n where terms have one sign, with
its square root on average. In parts of b terms the chain has b + n / b additions in place of n (blocked summation;
Blanchard, Higham, Mary: A class of fast and accurate summation algorithms, SIAM J. Sci. Comput. 42(3), 2020).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, prod

#: Terms of a part, at most: so many hide the additions of parts, and a part rounds off little.
TERMS = 384
#: Terms from which on a sum has parts.
LONG = 2 * TERMS


@dataclass(frozen=True)
class Parts:
    """A part is ``rounds`` iterations of the loop number ``split`` of a sum, and all loops inside it."""

    split: int
    rounds: int


def even_parts(extents: Sequence[int], terms: int) -> Parts:
    """Parts of nested loops with as many terms as may be, which are as even as can be."""
    for loop in range(len(extents)):
        inside = prod(extents[loop + 1 :])
        if inside <= terms:
            count = ceil(extents[loop] / max(1, terms // inside))
            return Parts(loop, ceil(extents[loop] / count))
    return Parts(0, 1)


def parts_of_long(extents: Sequence[int]) -> Parts | None:
    """The parts of a sum of floats over loops of these greatest extents; None where it is short."""
    return even_parts(extents, TERMS) if prod(extents) >= LONG else None
