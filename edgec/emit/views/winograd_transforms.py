"""The transforms of Winograd's method as formulas over vectors, by pairs of points (`schedule.contract.cook_toom`)."""

from __future__ import annotations

from collections.abc import Callable

from edgec.emit.c_expression import Printer
from edgec.ir.expr import Expr
from edgec.schedule.contract.cook_toom import Toom


def along(
    values: dict[tuple[int, ...], Expr],
    d: int,
    count: int,
    transform: Callable[[list[Expr]], list[Expr]],
    printer: Printer,
) -> dict[tuple[int, ...], Expr]:
    """Transform every line of a grid of values along dimension ``d``, of ``count`` places, one line after the other."""
    found: dict[tuple[int, ...], Expr] = {}
    for start in [at for at in values if at[d] == 0]:
        line = [values[(*start[:d], i, *start[d + 1 :])] for i in range(count)]
        for i, e in enumerate(transform(line)):
            printer.vector(e)
            found[(*start[:d], i, *start[d + 1 :])] = e
    return dict(sorted(found.items(), key=lambda item: item[0]))


def of_inputs(toom: Toom, d: list[Expr]) -> list[Expr]:
    """B^T d, by pairs of points."""
    whole = toom.vanishing()
    rows = [_sum(whole, d[0::2])]
    for k, p in enumerate(toom.pairs):
        others = toom.vanishing(k)
        even, odd = _sum(others, d[2::2]), _sum(others, d[1::2])
        rows += [_sum([p, 1.0], [odd, even]), _sum([-p, 1.0], [odd, even])]
    return [*rows, _sum(whole, d[1::2])]


def of_products(toom: Toom, m: list[Expr]) -> list[Expr]:
    """A^T m, by pairs of points."""
    pairs = [(m[1 + 2 * k] + m[2 + 2 * k], m[1 + 2 * k] - m[2 + 2 * k]) for k in range(len(toom.pairs))]
    rows = []
    for i in range(toom.outputs):
        terms = [(p**i, pair[i % 2]) for p, pair in zip(toom.pairs, pairs)]
        terms += [(1.0, m[0])] * (i == 0) + [(1.0, m[-1])] * (i == toom.outputs - 1)
        rows.append(_sum([c for c, _ in terms], [e for _, e in terms]))
    return rows


def of_taps(toom: Toom, g: list[Expr]) -> list[Expr]:
    """G g, by pairs of points."""
    rows = [g[0] * (1.0 / toom.vanishing()[0])]
    for k, p in enumerate(toom.pairs):
        others = sum(c * p ** (2 * i) for i, c in enumerate(toom.vanishing(k)))
        scale = [p**j / (2 * p * p * others) for j in range(toom.taps)]
        even, odd = _sum(scale[0::2], g[0::2]), _sum(scale[1::2], g[1::2])
        rows += [even + odd, even - odd]
    return [*rows, g[-1]]


def _sum(coefficients: list[float], terms: list[Expr]) -> Expr:
    """A weighted sum; terms of weight 1 first, so that each other is one multiply-add."""
    pairs = sorted(zip(coefficients, terms), key=lambda pair: pair[0] != 1.0)
    total: Expr | None = None
    for c, term in pairs:
        weighted = term if c == 1.0 else term * c
        total = weighted if total is None else total + weighted
    assert total is not None
    return total
