"""Attention as its formula: softmax of scores along the keys, times values; whatever spelling it was written in.

    out[.., m, d] = f(sum over n of softmax_n(score[.., m, n]) * value[.., n, d])

It is many-to-many into many-to-many, the pair that no general kernel should compute as one: every sum would repeat the
one inside it. One algorithm can, with the maximum and the sum of a row corrected as keys come in (online softmax;
Milakov & Gimelshein 2018, Dao et al. 2022). Here the formula is taken apart for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import prod

from edgec.ir import expr as X
from edgec.ir.expr import Expr, Extent
from edgec.ir.index import least, upper
from edgec.ir.loads import reduces
from edgec.ir.nest import Split, is_fixed, most

#: What stands for the inner product of a query and a key in a score, and for the weighted sum of values in a result.
DOT, MIXED = X.load("dot", (), "f32"), X.load("mixed", (), "f32")


@dataclass(frozen=True)
class Attention:
    """The parts of a formula: ``keys`` is the loop over keys, ``features`` those of the inner product.

    ``score`` is over ``DOT``, ``result`` over ``MIXED``; query, key and value are loads.
    """

    keys: Expr
    features: tuple[Expr, ...]
    query: Expr
    key: Expr
    value: Expr
    score: Expr
    result: Expr


@lru_cache(maxsize=256)  # several questions are asked about one block
def attention_of(body: Expr) -> Attention | None:
    """The parts of a formula that is attention, else None."""
    for e in X.walk(body):
        if e.op == "reduce" and e.height == 4 and e.dtype == "f32":
            found = _parts(e, body)
            if found is not None:
                return found
    return None


def is_attention(split: Split) -> bool:
    """Is the nest of a whole block attention that its kernel can compute: several queries, features known now?"""
    found = attention_of(split.body)
    if found is None or not is_fixed(*found.features):
        return False
    key, value = X.free_variables(found.key), X.free_variables(found.value)
    return any(is_fixed(v) for v in split.variables if v in value and v not in X.free_variables(found.query) | key)


def queries_of(split: Split) -> int:
    """Number of queries of one head, at most: they are along the lanes of the kernel."""
    return upper(_queries(split))


def least_queries_of(split: Split) -> int:
    """Number of queries of one head in the smallest run."""
    return int(least(_queries(split)))


def _queries(split: Split) -> Extent:
    found = attention_of(split.body)
    assert found is not None
    key, value = X.free_variables(found.key), X.free_variables(found.value)
    queries = (v for v in split.variables if v in X.free_variables(found.query) and v not in key | value)
    return max((v.value.extent for v in queries), key=upper, default=1)


def head_of(split: Split) -> int:
    """Features of a head: of its queries and keys, or of its values if they have more."""
    found = attention_of(split.body)
    assert found is not None
    others = X.free_variables(found.query) | X.free_variables(found.key)
    values = [v for v in split.variables if v in X.free_variables(found.value) and v not in others]
    return max([prod(map(most, found.features)), *map(most, values)])


def scores_bytes(split: Split) -> int:
    """Bytes of the scores of one head: its queries times its keys."""
    found = attention_of(split.body)
    assert found is not None
    return 4 * queries_of(split) * most(found.keys)


def _parts(mixed: Expr, body: Expr) -> Attention | None:
    if mixed.value[0] != "add" or mixed.args[0].op != "mul" or len(mixed.value[1]) != 1:
        return None
    (n,), product = X.opened(mixed)
    weight, value = product.args if reduces(product.args[0]) else reversed(product.args)
    exponential = _unnormalized(weight, n)
    if exponential is None or value.op != "load" or reduces(value):
        return None
    (difference,) = exponential.args
    if difference.op != "sub" or X.reduce("max", (n,), difference.args[0]) is not difference.args[1]:
        return None
    score = difference.args[0]
    dots = [e for e in X.walk(score) if e.op == "reduce"]
    if len(dots) != 1 or dots[0].value[0] != "add" or dots[0].args[0].op != "mul":
        return None
    features, pair = X.opened(dots[0])
    query, key = pair.args if n in X.free_variables(pair.args[1]) else reversed(pair.args)
    if n in X.free_variables(query) or n not in X.free_variables(key):
        return None
    if any(e.op != "load" or e.dtype != "f32" for e in (query, key, value)):
        return None
    result = X.substitute(body, {mixed: MIXED})
    if reduces(result):
        return None
    return Attention(n, features, query, key, value, X.substitute(score, {dots[0]: DOT}), result)


def _unnormalized(weight: Expr, n: Expr) -> Expr | None:
    """The exponential in exp(..) / sum of exp(..), however the division is written."""
    candidates: list[tuple[Expr, Expr]] = []
    if weight.op == "div":
        candidates = [(weight.args[0], weight.args[1])]
    elif weight.op == "mul":
        for a, b in (weight.args, weight.args[::-1]):
            if b.op == "div" and b.args[0].op == "const" and b.args[0].value == 1:
                candidates.append((a, b.args[1]))
    for exponential, total in candidates:
        if exponential.op == "exp" and total is X.reduce("add", (n,), exponential):
            return exponential
    return None
