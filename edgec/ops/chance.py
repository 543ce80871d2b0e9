"""Random numbers that are a function of where they are: nothing is kept from one to the next.

The generator is counter-based (Salmon et al., Parallel random numbers: as easy as 1, 2, 3, 2011): equal counters give
equal numbers, whatever the order and the number of threads, so that a backward pass computes those of the forward pass
again instead of reading them. The function is pcg4d of Jarzynski and Olano (Hash functions for GPU rendering, 2020),
which takes multiplications, additions and shifts of 32 bits alone.
"""

from __future__ import annotations

from edgec.errors import ModelError
from edgec.ir import expr as X
from edgec.ir.expr import Expr, Extent
from edgec.ir.graph import Formula
from edgec.ir.registry import Tensor, compute, op

_MULTIPLIER, _INCREMENT = 1664525, 1013904223


@op
def random(counter: Tensor, *, shape: tuple[Extent, ...], stream: int = 0, seed: int = 0) -> Formula:
    """Numbers from 0 to below 1, multiples of 2^-24, each a function of its position, ``counter``, stream and seed."""
    if counter.dtype != "i32" or counter.rank:
        raise ModelError(f"a counter of {counter.type}", hint="it is one integer of 32 bits")

    def body(*i: Expr) -> Expr:
        position: Expr = X.const(0)
        for index, extent in zip(i, shape):
            position = position * extent + index
        word = _mixed(X.cast(position, "i32"), counter[()], _word(stream), _word(seed))
        top = X.call("bitand", X.call("shr", word, _word(8)), _word(0xFFFFFF))
        return X.cast(top, "f32") * X.const(2.0**-24, "f32")

    return compute(shape, body)


def _mixed(*counters: Expr) -> Expr:
    """The last of the four words that pcg4d makes of four."""
    x, y, z, w = (c * _word(_MULTIPLIER) + _word(_INCREMENT) for c in counters)

    def spread(x: Expr, y: Expr, z: Expr, w: Expr) -> tuple[Expr, Expr, Expr, Expr]:
        x = x + y * w
        y = y + z * x
        z = z + x * y
        return x, y, z, w + y * z

    def folded(e: Expr) -> Expr:
        """The upper half of the bits on top of the lower one."""
        return X.call("bitxor", e, X.call("bitand", X.call("shr", e, _word(16)), _word(0xFFFF)))

    return spread(*map(folded, spread(x, y, z, w)))[-1]


def _word(value: int) -> Expr:
    """An integer of 32 bits, wrapped around."""
    return X.const((value + 2**31) % 2**32 - 2**31, "i32")
