"""The rounding of a sum in the order in which the code adds it up.

An addition rounds what it gives, so a sum in a known order loses at most a unit roundoff of each of its partial sums
(running error analysis: Higham, "Accuracy and Stability of Numerical Algorithms", 2002, section 3.3). With s_i the
exact partial sums and E_i the error after i terms, E_i <= (1 + u) E_(i-1) + u |s_i| + the error of term i. Where signs
mix, partial sums are far below the sum of magnitudes that a bound for any order is made of.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod

import numpy as np

from edgec.certify.ranges import U64, Array, gamma
from edgec.certify.windows import window_parts
from edgec.ir.graph import Node
from edgec.schedule.order import Order

#: Terms of all sums of an operator together, at most, for which partial sums are followed: in one box, and in the many
#: boxes of a search, which have little to gain by it.
_MOST, _MOST_OF_MANY = 1 << 28, 1 << 22
#: One term of every result, by its number: of an operand [boxes, ...], and of sizes of it with magnitudes of weights.
Term = Callable[[int, Array, Array], "tuple[Array, Array]"]


def lost_in_order(
    n: Node,
    k: int,
    constants: Mapping[int, Array],
    order: Order,
    middle: Array,
    radius: Array,
    mass: Array,
    unit: float,
) -> Array:
    """The most that the additions and products of a sum lose, where operand ``k`` is within ``radius`` of ``middle``.

    ``mass`` are the magnitudes of the terms together, with the errors that they carry. Those errors themselves are not
    counted. Where there are too many partial sums, the bound is that of the longest path through additions.
    """
    depth = gamma(order.depth, unit)
    loose = np.asarray(depth * mass)
    terms, boxes = int((order.chains >= 0).sum()), middle.shape[0]
    limit = _MOST if boxes == 1 else _MOST_OF_MANY
    if not order.is_known or terms * boxes * prod(n.type.shape) > limit or not np.isfinite(depth):
        return loose
    term = terms_of_sum(n, k, constants)
    if term is None:
        return loose
    shape = (boxes, *n.type.shape)
    partial, total, reach = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    ends = np.zeros(shape)
    for chain in order.chains:
        center, far = np.zeros(shape), np.zeros(shape)
        for number in chain[chain >= 0].tolist():
            a, b = term(number, middle, radius)
            center += a
            far += b
            partial += np.abs(center) + far
        if order.in_turn:
            total, reach = total + center, reach + far
            partial += np.abs(total) + reach
        else:
            ends += np.abs(center) + far
    if not order.in_turn:
        partial += (len(order.chains) - 1) * (1 + depth) * ends
    # A roundoff of every product and partial sum, and as much of what was lost before; and the rounding of doubles.
    analysis = 4 * (terms + 8) * U64 * mass * (terms + len(order.chains))
    lost = unit * (1 + depth) * (1 + 1e-6) * (partial + mass + analysis)
    return np.asarray(np.fmin(lost, loose))


def terms_of_sum(n: Node, k: int, constants: Mapping[int, Array]) -> Term | None:
    """The terms of a sum as its formula numbers them; None where the weights vary and the operand does not."""
    if n.op == "matmul":
        return _of_product(n, k, constants[1 - k])
    if n.op == "conv":
        return _of_convolution(n, constants[1]) if k == 0 else None
    parts = window_parts(n)

    def element(number: int, x: Array, r: Array) -> tuple[Array, Array]:
        place = (slice(None), *parts[number])
        shape = (x.shape[0], *n.type.shape)
        return x[place].reshape(shape), r[place].reshape(shape)

    return element


def _of_product(n: Node, k: int, w: Array) -> Term | None:
    if w.ndim < 2 or n.args[k].type.rank < 2:
        return None
    sizes, rank = np.abs(w), n.type.rank

    def wide(x: Array) -> Array:
        return x.reshape(x.shape[0], *(1,) * (rank + 1 - x.ndim), *x.shape[1:])

    def left(number: int, x: Array, r: Array) -> tuple[Array, Array]:
        at = slice(number, number + 1)
        return wide(x)[..., at] * w[..., at, :], wide(r)[..., at] * sizes[..., at, :]

    def right(number: int, x: Array, r: Array) -> tuple[Array, Array]:
        at = slice(number, number + 1)
        return w[..., at] * wide(x)[..., at, :], sizes[..., at] * wide(r)[..., at, :]

    return left if k == 0 else right


def _of_convolution(n: Node, w: Array) -> Term:
    """Terms in the order of the formula: taps, and channels of a group inside them."""
    groups, strides, dilations = (n.attributes[name] for name in ("groups", "strides", "dilations"))
    outputs, per_group, *kernel = w.shape
    space = n.type.shape[2:]
    by_group = w.reshape(groups, outputs // groups, per_group, -1)
    sizes = np.abs(by_group)

    def term(number: int, x: Array, r: Array) -> tuple[Array, Array]:
        tap, channel = divmod(number, per_group)
        taps = np.unravel_index(tap, kernel) if kernel else ()
        steps = zip(taps, dilations, strides, space)
        place = tuple(slice(int(t) * d, int(t) * d + (count - 1) * s + 1, s) for t, d, s, count in steps)
        found = []
        for value, weights in ((x, by_group), (r, sizes)):
            part = value[(slice(None), slice(None), slice(channel, None, per_group), *place)]
            factor = weights[:, :, channel, tap].reshape(1, 1, groups, -1, *(1,) * len(space))
            product = part[:, :, :, None] * factor
            found.append(product.reshape(*value.shape[:2], outputs, *space))
        return found[0], found[1]

    return term
