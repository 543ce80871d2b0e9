"""Operators as linear maps in double precision: applied to many arrays at once, and transposed.

A map is an operator with one operand that varies and others that are constant. Its formula gets one more variable,
which runs over the arrays. Transposed, it is the adjoint that stands beside the operator's definition (`edgec.ops`):
what the gradient is made with is what bounds are carried back with.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import product
from math import prod
from typing import Any

import numpy as np

from edgec import ops
from edgec.certify.patches import Picked, Region, Window, inside, times
from edgec.certify.ranges import Array
from edgec.ir import expr as X
from edgec.ir.evaluate import evaluate_formula, evaluate_node
from edgec.ir.expr import Expr
from edgec.ir.graph import Formula, Node, constant, placeholder, topological
from edgec.ir.loads import replace_loads
from edgec.ir.registry import adjoint_of, formula, is_procedure
from edgec.ir.types import Type

#: Bytes that a map may take for its arrays at a time.
_ROOM = 1 << 27
#: Bytes of results that are used again from the cache.
_CACHED = 1 << 20


class Map:
    """The operator of a node, from its operand ``k``, with all others constant.

    ``constants`` are the values of the other operands in double precision; integer positions stay integers.
    """

    def __init__(self, node: Node, k: int, constants: Mapping[int, Array]) -> None:
        self.operand = placeholder("x", Type("f64", node.args[k].type.shape))
        args = [self.operand if j == k else constant(constants[j]) for j in range(len(node.args))]
        attributes = {n: "f64" if n == "to" else v for n, v in node.attributes.items()}
        self.node = ops.node(node.op, *args, **attributes)
        self.k = k

    def __call__(self, x: Array) -> Array:
        """The results [n, ...] for operands ``x`` [n, ...]."""
        if self.is_matrix:
            w = self.node.args[1].value
            return np.asarray((x.reshape(-1, w.shape[0]) @ w).reshape(*x.shape[:-1], w.shape[1]))
        return _in_pieces(x, self.node.type.shape, lambda part: _applied(self.node, {self.operand: part}))

    @cached_property
    def _back(self) -> tuple[Node, Node]:
        """The seed, and the graph that carries it back; made in terms of constants alone."""
        seed = placeholder("g", self.node.type)
        adjoint = adjoint_of(self.node.op)
        assert adjoint is not None, f"{self.node.op} has no adjoint"
        back = adjoint(self.node, seed, self.k)
        assert back is not None
        return seed, _folded(back)

    @cached_property
    def is_matrix(self) -> bool:
        """Is it a product with a constant matrix from the right?"""
        return self.node.op == "matmul" and self.k == 0 and self.node.args[1].type.rank == 2

    def windows(self, window: Region) -> list[Region] | None:
        """The parts of all operands that a part of the result reads; None where the map takes whole rows alone."""
        found: list[Region] = [None for _ in self.node.args]
        if window is None or (isinstance(window, Picked) and self.is_matrix):
            return found
        if self.k != 0 or self.node.op not in ("conv", "pad") or isinstance(window, Picked):
            return None
        if self.node.op == "pad":
            found[0] = Window(window.begins - np.array(self._of("before")), window.extents)
            return found
        weights = self.node.args[1].type.shape
        if window.extents[1] != weights[0] or window.begins[:, 1].any():
            return None
        begins, wide = window.begins.copy(), list(window.extents)
        wide[1] = self.operand.type.shape[1]
        for d, (s, dilation, k) in enumerate(zip(self._of("strides"), self._of("dilations"), weights[2:]), start=2):
            begins[:, d] *= s
            wide[d] = (wide[d] - 1) * s + (k - 1) * dilation + 1
        found[0] = Window(begins, tuple(wide))
        return found

    def transposed_rows(self, rows: Array, window: Region = None, keep: Array | None = None) -> Array:
        """The rows [groups, rows, ...] of the operand that those of a part of the result are; of a matrix those that
        are to be kept alone."""
        groups, count = rows.shape[:2]
        if self.k == 0 and self.node.op == "conv":
            parts = self.windows(window)
            assert parts is not None
            extents = parts[0].extents if isinstance(parts[0], Window) else self.operand.type.shape
            flat = self._by_taps(rows.reshape(-1, *rows.shape[2:]), extents[2:])
        elif self.is_matrix:
            w = self.node.args[1].value
            w = w if keep is None else w[keep]
            w = w[:, window.elements] if isinstance(window, Picked) else w
            flat = (rows.reshape(prod(rows.shape[:-1]), rows.shape[-1]) @ w.T).reshape(
                groups * count, *rows.shape[2:-1], w.shape[0]
            )
        elif self.k == 0 and self.node.op == "pad":
            return self._unpadded(rows, window)
        else:
            flat = self.transposed(rows.reshape(-1, *rows.shape[2:]))
        return flat.reshape(groups, count, *flat.shape[1:])

    def _unpadded(self, rows: Array, window: Region) -> Array:
        """The rows of a padded value without what was put around it."""
        if window is None:
            places = zip(self._of("before"), self.operand.type.shape)
            return rows[(slice(None), slice(None), *(slice(b, b + n) for b, n in places))]
        parts = self.windows(window)
        assert parts is not None and isinstance(parts[0], Window)
        there = inside(parts[0], self.operand.type.shape)
        return rows if there is None else times(rows, there[:, 0])

    def transposed(self, g: Array) -> Array:
        """The rows [n, operand's shape] that the rows ``g`` [n, result's shape] are behind the map."""
        seed, back = self._back
        return _in_pieces(g, self.operand.type.shape, lambda part: _applied(back, {seed: part}))

    @cached_property
    def _taps(self) -> list[Array]:
        """The weights of a convolution by tap: [groups, outputs of one, inputs of one]."""
        weights, groups = self.node.args[1].value, int(self.node.attributes["groups"])
        outputs, per_group = weights.shape[:2]
        apart = weights.reshape(groups, outputs // groups, per_group, -1)
        return list(np.ascontiguousarray(apart.transpose(3, 0, 1, 2)))

    def _by_taps(self, g: Array, wide: Sequence[int]) -> Array:
        """A convolution transposed, to ``wide`` arrays: a matrix product for each tap, added where the tap reads.

        Channels are stored last in the results, and it takes as many arrays at a time as leave them in the cache.
        """
        strides, dilations = self._of("strides"), self._of("dilations")
        groups, (outputs, per_group, *kernel) = int(self.node.attributes["groups"]), self.node.args[1].type.shape
        count, space = g.shape[0] * g.shape[1], g.shape[3:]
        last = (0, *range(2, g.ndim - 1), 1)
        rows = g.reshape(count, outputs, *space).transpose(last)
        result = np.zeros((count, *wide, groups * per_group))
        size = max(1, _CACHED // (8 * groups * per_group * prod(wide)))
        for start in range(0, count, size):
            part, into = np.ascontiguousarray(rows[start : start + size]), result[start : start + size]
            for tap, w in zip(product(*(range(k) for k in kernel)), self._taps):
                steps = zip(tap, dilations, strides, space)
                own = (slice(t * d, t * d + (n - 1) * s + 1, s) for t, d, s, n in steps)
                into[(slice(None), *own)] += _mixed(part, w)
        turned: Array = result.transpose(0, result.ndim - 1, *range(1, result.ndim - 1))
        return turned.reshape(g.shape[0], g.shape[1], *turned.shape[1:]) if g.shape[1] > 1 else turned[:, None]

    def _of(self, name: str) -> tuple[int, ...]:
        found: tuple[int, ...] = self.node.attributes[name]
        return found


def _mixed(x: Array, w: Array) -> Array:
    """Arrays [n, ..., outputs] times weights [groups, outputs of one, inputs of one]."""
    groups, outputs, inputs = w.shape
    if groups == 1:
        return np.asarray((x.reshape(-1, outputs) @ w[0]).reshape(*x.shape[:-1], inputs))
    if outputs == inputs == 1:
        return np.asarray(x * w[:, 0, 0])
    apart = x.reshape(*x.shape[:-1], groups, 1, outputs)
    return np.asarray((apart @ w).reshape(*x.shape[:-1], groups * inputs))


def _in_pieces(x: Array, shape: Sequence[int], work: Any) -> Array:
    """Work on as many arrays at a time as there is room for."""
    count = max(1, _ROOM // (8 * max(1, prod(x.shape[1:]), prod(shape)) * 4))
    if x.shape[0] <= count:
        return np.asarray(work(x))
    return np.concatenate([work(x[k : k + count]) for k in range(0, x.shape[0], count)])


def _folded(back: Node) -> Node:
    """The graph with everything that is made of constants alone computed."""
    new: dict[Node, Node] = {}
    for n in topological([back]):
        args = tuple(new[a] for a in n.args)
        if n.op in ("input", "const"):
            new[n] = n
        elif all(a.is_const for a in args):
            new[n] = constant(evaluate_node(n, [a.value for a in args]))
        else:
            new[n] = ops.node(n.op, *args, **n.attributes)
    return new[back]


def _applied(result: Node, given: Mapping[Node, Array]) -> Array:
    """The values [n, ...] of a node, from those of the variables that it is computed from."""
    values: dict[Node, Array] = dict(given)
    count = next(iter(given.values())).shape[0]
    for n in topological([result]):
        if n in values:
            continue
        if n.is_const:
            values[n] = n.value
        elif n.op == "matmul" and n.args[1].is_const and n.args[1].type.rank == 2:
            x, w = values[n.args[0]], n.args[1].value
            values[n] = (x.reshape(-1, w.shape[0]) @ w).reshape(*x.shape[:-1], w.shape[1])
        elif n.op == "conv" and n.args[1].is_const and not n.args[0].is_const:
            values[n] = _convolved(n, values[n.args[0]])
        elif n.op == "reshape" and not n.args[0].is_const:
            values[n] = values[n.args[0]].reshape(count, *n.type.shape)
        elif n.op == "pad" and not n.args[0].is_const:
            values[n] = _padded(n, values[n.args[0]])
        elif is_procedure(n.op):
            rows = ([values[a] if a.is_const else values[a][k] for a in n.args] for k in range(count))
            values[n] = np.stack([evaluate_node(n, row) for row in rows])
        else:
            values[n] = evaluate_formula(lifted(n, count), [values[a] for a in n.args].__getitem__)
    return values[result]


def _padded(n: Node, x: Array) -> Array:
    """Values [n, ...] with others around them."""
    found = np.full((x.shape[0], *n.type.shape), float(n.attributes["value"]))
    places = zip(n.attributes["before"], x.shape[1:])
    found[(slice(None), *(slice(b, b + k) for b, k in places))] = x
    return found


def _convolved(n: Node, x: Array) -> Array:
    """A convolution of values [n, ...]: a matrix product for each tap, with channels last."""
    strides, dilations, groups = (n.attributes[k] for k in ("strides", "dilations", "groups"))
    w, (lead, outputs, *space) = n.args[1].value, n.type.shape
    if groups == 1 and x.size * prod(w.shape[2:]) <= _CACHED:
        return _by_columns(n, x, w)
    apart = w.reshape(groups, outputs // groups, w.shape[1], -1).transpose(3, 0, 2, 1)
    count = x.shape[0] * lead
    rows = np.ascontiguousarray(np.moveaxis(x.reshape(count, *x.shape[2:]), 1, -1))
    result = np.zeros((count, *space, outputs))
    for tap, weights in zip(product(*(range(k) for k in w.shape[2:])), apart):
        steps = zip(tap, dilations, strides, space)
        own = (slice(t * d, t * d + (k - 1) * s + 1, s) for t, d, s, k in steps)
        result += _mixed(rows[(slice(None), *own)], weights)
    return np.moveaxis(result, -1, 1).reshape(x.shape[0], *n.type.shape)


def _by_columns(n: Node, x: Array, w: Array) -> Array:
    """The same as one product with the windows as columns (im2col)."""
    (strides, dilations), (lead, outputs, *space) = (n.attributes[k] for k in ("strides", "dilations")), n.type.shape
    kernel, count = w.shape[2:], x.shape[0] * lead
    x = np.ascontiguousarray(x.reshape(count, *x.shape[2:]))
    along = x.strides[2:]
    steps = (
        x.strides[0],
        x.strides[1],
        *(b * d for b, d in zip(along, dilations)),
        *(b * s for b, s in zip(along, strides)),
    )
    columns = np.lib.stride_tricks.as_strided(x, (count, x.shape[1], *kernel, *space), steps)
    flat = w.reshape(outputs, -1) @ columns.reshape(count, -1, prod(space))
    return np.asarray(flat.reshape(-1, *n.type.shape))


def lifted(node: Node, count: int) -> Formula:
    """The formula of a node for ``count`` arrays at once: operands that are not constant have one more dimension."""
    own = formula(node)
    along = X.var("array", count)

    def placed(slot: Any, place: tuple[Expr, ...]) -> Expr:
        arg = node.args[slot]
        return X.load(slot, place if arg.is_const else (along, *place), arg.type.dtype)

    body = replace_loads(own.body, placed)
    return Formula(Type(own.type.dtype, (count, *own.type.shape)), (along, *own.variables), body)


class Move:
    """An operator that moves elements of its operands ``varying``; ``offset`` is what it puts beside them.

    ``constants`` are the other operands in double precision.
    """

    def __init__(self, node: Node, varying: Sequence[int], constants: Mapping[int, Array]) -> None:
        zeros = {k: np.zeros(node.args[k].type.shape) for k in varying}
        self.maps = {k: Map(node, k, {**constants, **{j: z for j, z in zeros.items() if j != k}}) for k in varying}
        self.given = [placeholder(f"x{k}", Type("f64", node.args[k].type.shape)) for k in varying]
        self.node = self._made(node, varying, constants, node.attributes)
        without = {k: v if v.dtype.kind == "i" else np.zeros_like(v) for k, v in constants.items()}
        blank = {**node.attributes, "value": 0.0} if "value" in node.attributes else node.attributes
        self.silent = self._made(node, varying, without, blank)
        beside = self([zeros[k][None] for k in varying])[0]
        self.offset: Array | None = beside if beside.any() else None

    def _made(self, node: Node, varying: Sequence[int], constants: Mapping[int, Array], attributes: Any) -> Node:
        places = dict(zip(varying, self.given))
        args = [places[k] if k in places else constant(constants[k]) for k in range(len(node.args))]
        return ops.node(node.op, *args, **attributes)

    def __call__(self, x: Sequence[Array]) -> Array:
        """The results [n, ...] for operands [n, ...]."""
        return _applied(self.node, dict(zip(self.given, x)))

    def plain(self, x: Sequence[Array]) -> Array:
        """The same with zeros for everything that is put beside the operands."""
        return _applied(self.silent, dict(zip(self.given, x)))
