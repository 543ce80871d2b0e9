"""Evaluation of formulas on numpy arrays, over whole index grids at once.

The same formula that is printed in C is evaluated here, for constant folding, for tests and for the check of every
stage. An affine load is a strided view (no copy); a sum of products of two loads is a matmul.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from edgec.errors import EdgecError, ModelError, NotMet
from edgec.ir import expr as X
from edgec.ir import index
from edgec.ir.dtypes import converted, neutral
from edgec.ir.expr import Expr
from edgec.ir.functions import FUNCTIONS
from edgec.ir.graph import Formula, Graph, Node, Procedure
from edgec.ir.registry import formula, is_procedure, procedure_at
from edgec.ir.sizes import NO_SIZES, Sizes, formula_at, read_sizes
from edgec.ir.types import DTYPES, plain

Array = np.ndarray
Lookup = Callable[[Any], Array]

_COMBINE = {
    "add": np.add.reduce, "mul": np.multiply.reduce, "max": np.maximum.reduce, "min": np.minimum.reduce,
    "and": np.logical_and.reduce, "or": np.logical_or.reduce,
}  # fmt: skip


#: Elements that one product may copy of an operand: the windows of a convolution overlap, and are copied one by one.
COPIED = 1 << 25


class Grid:
    """Evaluates expressions over a grid of variables; every result broadcasts against the grid's shape."""

    def __init__(self, axes: tuple[Expr, ...], lookup: Lookup) -> None:
        self.axes = axes
        self.lookup = lookup
        self.position = {v: k for k, v in enumerate(axes)}
        self.extents = tuple(v.value.extent for v in axes)
        self.done: dict[Expr, Array] = {}

    def value(self, e: Expr) -> Array:
        found = self.done.get(e)
        if found is None:
            found = self.done[e] = self.compute(e)
        return found

    def compute(self, e: Expr) -> Array:
        rank = len(self.axes)
        if e.op == "const":
            return np.full((1,) * rank, e.value, DTYPES[e.dtype])
        if e.op == "var":
            k = self.position[e]
            shape = [1] * rank
            shape[k] = self.extents[k]
            return np.arange(self.extents[k], dtype=np.int64).reshape(shape)
        if e.op == "load":
            return self.load(e)
        if e.op == "cast":
            return converted(self.value(e.args[0]), e.dtype)
        if e.op == "bitcast":
            return np.asarray(self.value(e.args[0])).view(DTYPES[e.dtype])
        if e.op == "reduce":
            return self.reduce(e)
        result = FUNCTIONS[e.op].numpy(*(self.value(a) for a in e.args))
        return np.asarray(result).astype(DTYPES[e.dtype], copy=False)

    def load(self, e: Expr) -> Array:
        array = self.lookup(e.value)
        rank = len(self.axes)
        if not e.args:
            return array.reshape((1,) * rank)
        forms = [index.coefficients(i, self.axes) for i in e.args]
        limits = [index.bounds(i) for i in e.args]
        inside = all(lo >= 0 and hi < n for (lo, hi), n in zip(limits, array.shape))
        if inside and all(f is not None for f in forms):
            strides = [0] * rank
            start: list[slice] = []
            for form, stride in zip(forms, array.strides):
                assert form is not None
                terms, constant = form
                start.append(slice(constant, None))
                for v, k in terms.items():
                    strides[self.position[v]] += k * stride
            shape = [n if s else 1 for n, s in zip(self.extents, strides)]
            if array.size == 0:
                return np.zeros(shape, array.dtype)
            raw = plain(array[tuple(start)])  # numpy takes only its own types here
            return np.lib.stride_tricks.as_strided(raw, shape, strides, writeable=False).view(array.dtype)
        if array.size == 0:
            return np.zeros((1,) * rank, array.dtype)
        # Branches that are not taken may index outside: their value does not matter, only that there is one.
        places = tuple(np.clip(self.value(i), 0, n - 1) for i, n in zip(e.args, array.shape))
        return np.asarray(array[tuple(np.broadcast_arrays(*places))])

    def reduce(self, e: Expr) -> Array:
        combine, _ = e.value
        names, body = X.opened(e)
        inner = Grid((*self.axes, *names), self.lookup)
        rank = len(self.axes)
        shape = inner.extents[rank:]
        if 0 in shape:
            return np.full((1,) * rank, neutral(combine, e.dtype), DTYPES[e.dtype])
        if combine == "add" and body.op == "mul":
            a, b = inner.value(body.args[0]), inner.value(body.args[1])
            wide = _product_type(e.dtype, a, b, int(np.prod(shape)))
            if wide is not None:
                total = _sum_of_products(a.astype(wide, copy=False), b.astype(wide, copy=False), rank, shape)
                return total if e.dtype in ("f32", "f64") else total.astype(DTYPES[e.dtype])
        values = inner.value(body)
        missing = tuple(n if k < rank else shape[k - rank] for k, n in enumerate(values.shape))
        values = np.broadcast_to(values, missing)
        axes = tuple(range(rank, rank + len(shape)))
        # Half floats accumulate in f32 and round once, here as in the generated code.
        result = values.astype(np.float32) if e.dtype in ("f16", "bf16") else values
        for axis in reversed(axes):
            result = _COMBINE[combine](result, axis=axis)
        return np.asarray(result).astype(DTYPES[e.dtype], copy=False)


def _product_type(dtype: str, a: Array, b: Array, terms: int) -> np.dtype | None:
    """The type numpy's matrix product computes a sum of products in, or None where it should not.

    Half floats accumulate in f32, as hardware does; integers in doubles, which are exact where the sum is known
    to stay below 2**53 and inside its own type.
    """
    if dtype in ("f32", "f64"):
        return DTYPES[dtype]
    if dtype in ("f16", "bf16"):
        return DTYPES["f32"]
    if dtype == "bool" or not a.size or not b.size:
        return None
    most = max(-int(a.min()), int(a.max())) * max(-int(b.min()), int(b.max())) * terms
    return DTYPES["f64"] if most < min(2**53, int(np.iinfo(DTYPES[dtype]).max)) else None


def _sum_of_products(a: Array, b: Array, rank: int, shape: tuple[int, ...]) -> Array:
    """Sum over the axes from ``rank`` on of a * b, as one batched matrix product, in parts where that copies much."""
    a = np.broadcast_to(a, (*a.shape[:rank], *shape))
    b = np.broadcast_to(b, (*b.shape[:rank], *shape))
    larger = max(a, b, key=np.size)
    longest = max(range(rank), key=lambda k: larger.shape[k], default=0)
    if larger.size > COPIED and rank and larger.shape[longest] > 1:
        step = max(larger.shape[longest] * COPIED // larger.size, 1)
        parts = []
        for k in range(0, larger.shape[longest], step):
            x, y = (v[_cut(longest, k, step)] if v.shape[longest] > 1 else v for v in (a, b))
            parts.append(_sum_of_products(x, y, rank, shape))
        return np.concatenate(parts, longest)
    left = [k for k in range(rank) if a.shape[k] > 1 and b.shape[k] == 1]
    right = [k for k in range(rank) if b.shape[k] > 1 and a.shape[k] == 1]
    batch = [k for k in range(rank) if k not in left and k not in right]
    inner = list(range(rank, a.ndim))
    if not left and not right:
        return np.asarray((a * b).sum(axis=tuple(inner)))
    m, n, s = ([x.shape[k] for k in ks] for x, ks in ((a, left), (b, right), (a, batch)))
    am = a.transpose(batch + left + inner + right).reshape(*s, -1, int(np.prod(shape)))
    bm = b.transpose(batch + inner + right + left).reshape(*s, int(np.prod(shape)), -1)
    product = np.matmul(am, bm).reshape(*s, *m, *n)
    return np.asarray(product.transpose(np.argsort(batch + left + right)))


def _cut(axis: int, begin: int, extent: int) -> tuple[slice, ...]:
    return (*(slice(None),) * axis, slice(begin, begin + extent))


def evaluate_formula(formula: Formula, lookup: Lookup, known: Sizes = NO_SIZES) -> Array:
    """All elements of a formula; ``lookup`` gives the array behind each slot, ``known`` the run-time sizes."""
    formula = formula_at(formula, known)
    shape = formula.type.shape
    if 0 in shape:
        return np.zeros(shape, DTYPES[formula.type.dtype])
    axes = tuple(v for v in formula.variables if v.op == "var")
    value = Grid(axes, lookup).value(formula.body)
    full = np.broadcast_to(value, tuple(v.value.extent for v in axes))
    return np.asarray(full.reshape(shape), DTYPES[formula.type.dtype], order="C")


def evaluate_procedure(procedure: Procedure, args: Sequence[Array]) -> Array:
    """The result of a procedure. Raises EdgecError when its numpy meaning contradicts its type."""
    expected = procedure.type
    with np.errstate(all="ignore"):
        result = np.asarray(procedure.compute(*args))
    if result.shape != expected.shape or result.dtype != DTYPES[expected.dtype]:
        raise EdgecError(f"a procedure of type {expected} gives {result.dtype}{list(result.shape)}")
    return result


def evaluate_node(node: Node, args: Sequence[Array], known: Sizes = NO_SIZES) -> Array:
    """The result of one operation on arrays."""

    if is_procedure(node.op):
        return evaluate_procedure(procedure_at(node, known), args)
    return evaluate_formula(formula(node), lambda slot: args[slot], known)


def run(graph: Graph, inputs: Mapping[str, Array], keep: bool = False) -> dict[Any, Array]:
    """Execute a graph on numpy arrays: values by output name, and by node too when ``keep``.

    Raises ModelError for an input that is missing or of another shape or type, or a demand that is not met.
    """
    values: dict[Node, Array] = {}
    remaining = {n: len(u) for n, u in graph.users().items()}
    results = {n for _, n in (*graph.outputs, *graph.demands)}
    known: dict[Expr, int] = {}
    for n in graph.inputs:
        if n.attributes["name"] in inputs:
            read_sizes(n.attributes["name"], n.type, np.shape(inputs[n.attributes["name"]]), known)
    computed = {n: s for s, n in graph.sizes}
    for n in graph.nodes():
        if n.op == "input":
            name = n.attributes["name"]
            if name not in inputs:
                raise ModelError(f"input '{name}' is missing")
            given = np.asarray(inputs[name])
            if given.dtype != DTYPES[n.type.dtype]:
                raise ModelError(f"input '{name}' is {given.dtype}{list(given.shape)}, expected {n.type}")
            values[n] = given
        elif n.op == "const":
            values[n] = n.value
        else:
            values[n] = evaluate_node(n, [values[a] for a in n.args], known)
            for a in dict.fromkeys(n.args):
                remaining[a] -= 1
                if not remaining[a] and not keep and a not in results and a.op != "const":
                    del values[a]
        if n in computed:
            known[computed[n]] = int(values[n].reshape(()))
    check_demands((message, bool(values[n])) for message, n in graph.demands)
    named: dict[Any, Array] = {name: values[n] for name, n in graph.outputs}
    return {**values, **named} if keep else named


def check_demands(demands: Iterable[tuple[str, bool]]) -> None:
    """Raises NotMet with the first sentence whose truth value is false."""
    for message, is_met in demands:
        if not is_met:
            raise NotMet(message)
