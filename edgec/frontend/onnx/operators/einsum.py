"""Einstein summation: diagonals, then one matrix product a pair of operands."""

from __future__ import annotations

from math import prod

from edgec.errors import ModelError
from edgec.frontend.onnx.call import Call, onnx
from edgec.frontend.values import Value

#: The letters that stand for the dimensions under an ellipsis, outermost last.
_ELLIPSIS = "0123456789"


@onnx("Einsum")
def einsum(call: Call) -> Value:
    equation = str(call.required("equation")).replace(" ", "")
    operands = call.operands
    left, arrow, right = equation.partition("->")
    terms = left.split(",")
    if len(terms) != len(operands):
        raise call.error(f"equation '{equation}' has {len(terms)} terms for {len(operands)} operands")
    spelled = [_spelled(term, x.rank) for term, x in zip(terms, operands)]
    hidden = max((sum(c in _ELLIPSIS for c in s) for s in spelled), default=0)
    ellipsis = "".join(reversed(_ELLIPSIS[:hidden]))
    if arrow:
        result = right.replace("...", ellipsis)
    else:
        letters = "".join(spelled)
        result = ellipsis + "".join(sorted(c for c in set(letters) if c.isalpha() and letters.count(c) == 1))
    extents: dict[str, int] = {}
    for labels, x in zip(spelled, operands):
        for c, n in zip(labels, x.shape):
            if n != 1 and extents.setdefault(c, n) not in (1, n):
                raise call.error(f"dimension '{c}' of '{equation}' is both {extents[c]} and {n}")
            if extents.setdefault(c, n) == 1:
                extents[c] = n
    value, labels = _single(operands[0], spelled[0])
    for k in range(1, len(operands)):
        needed = set(result).union(*spelled[k + 1 :])
        value, labels = _contracted((value, labels), _single(operands[k], spelled[k]), needed, extents)
    value, labels = _summed(value, labels, set(result))
    return value.transpose(*(labels.index(c) for c in result)).broadcast(*(extents[c] for c in result))


def _spelled(term: str, rank: int) -> str:
    """The term with a letter for each dimension."""
    named = term.replace("...", "")
    if "..." not in term:
        if len(named) != rank:
            raise ModelError(f"term '{term}' names {len(named)} of {rank} dimensions")
        return named
    hidden = rank - len(named)
    if not 0 <= hidden <= len(_ELLIPSIS):
        raise ModelError(f"term '{term}' names {len(named)} of {rank} dimensions")
    return term.replace("...", "".join(reversed(_ELLIPSIS[:hidden])))


def _single(x: Value, labels: str) -> tuple[Value, str]:
    """A letter that stands twice means the diagonal of those dimensions."""
    for c in dict.fromkeys(labels):
        while labels.count(c) > 1:
            first = labels.index(c)
            second = labels.index(c, first + 1)
            order = [d for d in range(x.rank) if d not in (first, second)]
            x = x.transpose(first, second, *order)
            n = x.shape[0]
            flat = x.reshape(n * n, *x.shape[2:])
            x = flat.part(0, 0, n * n, n + 1) if n else flat
            labels = c + "".join(labels[d] for d in order)
    return x, labels


def _summed(x: Value, labels: str, kept: set[str]) -> tuple[Value, str]:
    axes = [d for d, c in enumerate(labels) if c not in kept]
    return x.sum(axes, keep=False), "".join(c for c in labels if c in kept)


def _contracted(
    a: tuple[Value, str], b: tuple[Value, str], needed: set[str], extents: dict[str, int]
) -> tuple[Value, str]:
    """The product of two operands, summed over the letters that nobody needs any more."""
    (x, left), (y, right) = (_summed(*a, needed | set(b[1])), _summed(*b, needed | set(a[1])))
    batch = [c for c in left if c in right and c in needed]
    inner = [c for c in left if c in right and c not in needed]
    rows = [c for c in left if c not in right]
    columns = [c for c in right if c not in left]
    x = _arranged(x, left, [*batch, *rows, *inner], extents)
    y = _arranged(y, right, [*batch, *inner, *columns], extents)
    b_shape, m, k, n = ([extents[c] for c in cs] for cs in (batch, rows, inner, columns))
    if not inner:  # an outer product is elementwise
        product = x.reshape(*b_shape, *m, *[1] * len(n)) * y.reshape(*b_shape, *[1] * len(m), *n)
        return product, "".join([*batch, *rows, *columns])
    z = x.reshape(*b_shape, prod(m), prod(k)) @ y.reshape(*b_shape, prod(k), prod(n))
    return z.reshape(*b_shape, *m, *n), "".join([*batch, *rows, *columns])


def _arranged(x: Value, labels: str, order: list[str], extents: dict[str, int]) -> Value:
    return x.transpose(*(labels.index(c) for c in order)).broadcast(*(extents[c] for c in order))
