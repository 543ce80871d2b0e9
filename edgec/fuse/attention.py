"""Attention as its formula: softmax of scores along the keys, times values; whatever spelling it was written in.

    out[.., m, d] = f(sum over n of softmax_n(score[.., m, n]) * value[.., n, d])

It is many-to-many into many-to-many, the pair that no general kernel should compute as one: every sum would repeat the
one inside it. One algorithm can, with the maximum and the sum of a row corrected as keys come in (online softmax;
Milakov & Gimelshein 2018, Dao et al. 2022). Here the formula is taken apart for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from edgec.ir import expr as X
from edgec.ir.expr import Expr, Extent
from edgec.ir.index import least, upper
from edgec.ir.loads import reduces
from edgec.ir.memory import remembered
from edgec.ir.nest import Split, is_fixed, most
from edgec.ir.vector import LANES

#: What stands for the inner product of a query and a key in a score, and for the weighted sum of values in a result.
DOT, MIXED = X.load("dot", (), "f32"), X.load("mixed", (), "f32")
#: Queries that are no longer few: they fill the lanes of a block.
BLOCK = 64


@dataclass(frozen=True)
class Attention:
    """The parts of a formula: ``keys`` is the loop over keys, ``features`` those of the inner product.

    ``score`` is over ``DOT``, ``result`` over ``MIXED``; query, key and value are loads, the last two perhaps of
    narrower numbers. ``weight`` is a factor of each key's value beside its share: 1, or a scale of stored values.
    Where it ``is_guarded``, shares that are not a number are 0, as exporters of PyTorch write it: those of a query that
    sees no key.
    """

    keys: Expr
    features: tuple[Expr, ...]
    query: Expr
    key: Expr
    value: Expr
    weight: Expr
    score: Expr
    result: Expr
    is_guarded: bool = False
    is_in_window: bool = False  # keys were over several loops

    @property
    def is_plain(self) -> bool:
        """Are keys and values floats in memory, without factors of their own?"""
        return self.key.op == self.value.op == "load" and self.weight.op == "const"


@remembered(256)  # several questions are asked about one block
def attention_of(body: Expr) -> Attention | None:
    """The parts of a formula that is attention, else None."""
    for e in X.walk(body):
        if e.op == "reduce" and e.height == 4 and e.dtype == "f32":
            found = _parts(e, body)
            if found is not None:
                return found
    return None


def is_attention(split: Split, gpu: bool = False) -> bool:
    """Is the nest of a whole block attention that a kernel can compute: features known now, plain keys and values?

    Those of few queries, and all on a GPU, may also be narrower numbers with factors.
    """
    found = attention_of(split.body)
    if found is None or not is_fixed(*found.features):
        return False
    is_few = has_few_queries(split.variables, split.body)
    if not (found.is_plain or gpu or is_few) or (found.is_guarded and (gpu or is_few)):
        return False
    others = X.free_variables(found.query) | X.free_variables(found.key) | X.free_variables(found.weight)
    return any(is_fixed(v) for v in split.variables if v in X.free_variables(found.value) - others)


def has_few_queries(loops: Sequence[Expr], body: Expr) -> bool:
    """May a run have few queries for many keys, whose number only the run knows: a token beside a cache of others?"""
    found = attention_of(body)
    if found is None or is_fixed(found.keys):
        return False
    queries = _queries(loops, body)
    return least(queries) < BLOCK and most(found.keys) > upper(queries)


def queries_of(split: Split) -> int:
    """Number of queries of one head, at most: they are along the lanes of the kernel."""
    return upper(_queries(split.variables, split.body))


def least_queries_of(split: Split) -> int:
    """Number of queries of one head in the smallest run."""
    return int(least(_queries(split.variables, split.body)))


def _queries(loops: Sequence[Expr], body: Expr) -> Extent:
    found = query_loops(loops, body)
    return prod(map(most, found)) if len(found) > 1 else next((v.value.extent for v in found), 1)


def query_loops(loops: Sequence[Expr], body: Expr) -> tuple[Expr, ...]:
    """The loop over queries; several in a window, of whose rows and columns one alone is no block of them."""
    found = attention_of(body)
    assert found is not None
    others = X.free_variables(found.key) | X.free_variables(found.value)
    ours = tuple(v for v in loops if v in X.free_variables(found.query) and v not in others)
    longest = max(ours, key=most, default=None)
    if longest is None or (found.is_in_window and is_fixed(*ours) and most(longest) < BLOCK):
        return ours
    return (longest,)


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
    if mixed.value[0] != "add":
        return None
    keys, product = X.opened(mixed)
    if len(keys) > 1 and not is_fixed(*keys):
        return None
    found = _factors(product, keys)
    if found is None:
        return None
    exponential, weight, value, is_guarded = found
    (difference,) = exponential.args
    if difference.op != "sub" or X.reduce("max", keys, difference.args[0]) is not difference.args[1]:
        return None
    score = difference.args[0]
    dots = [e for e in X.walk(score) if e.op == "reduce"]
    if len(dots) != 1 or dots[0].value[0] != "add" or dots[0].args[0].op != "mul":
        return None
    features, pair = X.opened(dots[0])
    query, key = pair.args if set(keys) & X.free_variables(pair.args[1]) else reversed(pair.args)
    if set(keys) & X.free_variables(query) or not set(keys) <= X.free_variables(key):
        return None
    (query, of_query), (key, of_key) = _scaled(query), _scaled(key)
    if query.op != "load" or query.dtype != "f32" or not (_is_stored(key) and _is_stored(value)):
        return None
    if weight.op == "const" and weight.value != 1:  # of all values alike: it is one of the result
        body, weight = X.substitute(body, {mixed: mixed * weight}), X.const(1.0, "f32")
    result = X.substitute(body, {mixed: MIXED})
    if reduces(result):
        return None
    n, places = as_one(keys)
    key, value, weight = (X.substitute(e, places) for e in (key, value, weight))
    factors = [f for f in (of_query, of_key) if f is not None]
    dot = DOT * X.const(prod(factors), "f32") if factors else DOT
    score = X.substitute(X.substitute(score, {dots[0]: dot}), places)
    return Attention(n, features, query, key, value, weight, score, result, is_guarded, len(keys) > 1)


def _scaled(stored: Expr) -> tuple[Expr, float | None]:
    """A query, or a key, and its constant factor, if it has one."""
    if stored.op == "mul":
        for factor, rest in (stored.args, stored.args[::-1]):
            if factor.op == "const":
                return rest, float(factor.value)
    return stored, None


def as_one(loops: tuple[Expr, ...]) -> tuple[Expr, dict[Expr, Expr]]:
    """One loop over all that several are over, as over the rows and columns of a window, and their places in it."""
    if len(loops) == 1:
        return loops[0], {}
    one = X.fresh(prod(map(most, loops)))
    places, step = {}, 1
    for loop in reversed(loops):
        places[loop] = one // step % most(loop)
        step *= most(loop)
    return one, places


def _is_stored(e: Expr) -> bool:
    """A float as it is in memory, or a narrower number that is widened when it is loaded."""
    lies = e.args[0] if e.op == "cast" else e
    return e.dtype == "f32" and lies.op == "load" and lies.dtype in LANES


def _factors(product: Expr, keys: tuple[Expr, ...]) -> tuple[Expr, Expr, Expr, bool] | None:
    """(exponential, weight, value, is guarded) of a product exp(..) / sum of exp(..) * weight * value over ``keys``.

    The division and the products may be written in any order; the value has all loops of the weight and others.
    """
    above: list[Expr] = []
    below: list[Expr] = []
    guarded: list[Expr] = []
    stack = [(product, False)]
    while stack:
        e, is_divisor = stack.pop()
        if e.op == "select" and not is_divisor and _is_guard(e):
            guarded.append(e.args[2])
            stack.append((e.args[2], False))
        elif e.op == "mul" and not is_divisor:
            stack += [(a, False) for a in e.args]
        elif e.op == "div" and not is_divisor:
            stack += [(e.args[0], False), (e.args[1], True)]
        elif not (e.op == "const" and e.value == 1):
            (below if is_divisor else above).append(e)
    if len(below) != 1:
        return None
    exponential = next((e for e in above if e.op == "exp" and below[0] is X.reduce("add", keys, e)), None)
    rest = [e for e in above if e is not exponential]
    if exponential is None or not rest or any(map(reduces, rest)):
        return None
    shares = (exponential / below[0], exponential * (X.const(1.0, "f32") / below[0]))
    if any(g not in shares for g in guarded):
        return None
    value = max(rest, key=_places)
    weight = X.const(1.0, "f32")
    for e in rest:
        if e is not value:
            weight = e if weight.op == "const" else weight * e
    if not X.free_variables(weight) <= X.free_variables(value):
        return None
    return exponential, weight, value, bool(guarded)


def _is_guard(e: Expr) -> bool:
    """Is it 0 in the place of what is not a number?"""
    condition, zero, x = e.args
    return condition.op == "isnan" and condition.args[0] is x and zero.op == "const" and zero.value == 0


def _places(e: Expr) -> tuple[int, int]:
    """Loops that a factor depends on, and dimensions that it is loaded from: a value has more than its scale."""
    return len(X.free_variables(e)), max((sum(i.op != "const" for i in load.args) for load in X.loads(e)), default=0)
