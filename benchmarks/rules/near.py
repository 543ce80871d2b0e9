"""Instances near those of a rule: attributes, operands and types changed a little, where a guard has to decide."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random
from typing import Any

import numpy as np

from edgec import ops
from edgec.errors import EdgecError
from edgec.ir.graph import Node, constant, placeholder, topological
from edgec.ir.types import FLOATS, Type

_COMBINES = ("add", "max", "min", "mul")
#: Procedures and others whose operands have types of their own.
_OF_SEVERAL_TYPES = frozenset({"update", "branch", "compact", "non_max_suppression", "descend", "recurrence"})
_DTYPES = ("f64", "f32", "i32", "i8", "u8", "bool")


def neighbors(root: Node, random: Random, count: int) -> Iterator[Node]:
    """Up to ``count`` graphs that differ from ``root``'s in one place or a few and are valid."""
    for _ in range(count):
        changed: Node | None = root
        for _ in range(random.choice((1, 1, 2, 3))):
            changed = _changed(changed, random) if changed is not None else None
        if changed is None or changed is root or changed.op in ("const", "input"):
            continue
        if all(map(_is_valid, topological([changed]))):
            yield changed


def _is_valid(n: Node) -> bool:
    """Could a front end have made it? Operators take operands of one type, but where they choose or look up."""
    kinds = {a.type.dtype for a in n.args}
    if n.op in ("and", "or", "xor", "not"):
        return kinds == {"bool"}
    if n.op == "select":
        return n.args[0].type.dtype == "bool" and n.args[1].type.dtype == n.args[2].type.dtype
    if n.op == "pad":
        return all(k >= 0 for side in ("before", "after") for k in n.attributes[side])
    a = n.attributes
    if any(v < 1 for name in ("kernel", "strides", "dilations", "groups") for v in np.atleast_1d(a.get(name, 1))):
        return False
    if any(v < 0 for name in ("axis", "axes", "perm") for v in np.atleast_1d(a.get(name, 0))):
        return False
    if n.op == "slice" and len(a["shape"]) != n.args[0].type.rank:
        return False
    if n.op == "slice" and n.type.elements:
        extents = n.args[0].type.shape
        ends = [(s, s + t * (m - 1)) for s, t, m in zip(a["starts"], a["steps"], a["shape"])]
        return all(0 <= i < e for pair, e in zip(ends, extents) for i in pair)
    looks_up = n.op.startswith(("gather", "scatter")) or n.op in _OF_SEVERAL_TYPES
    return looks_up or len(kinds) <= 1


def _changed(root: Node, random: Random) -> Node | None:
    """``root`` with one node changed; None where that gives no valid graph."""
    nodes = list(topological([root]))
    with_attributes = [n for n in nodes if n.attrs and n.op != "input"]
    old = random.choice(with_attributes if with_attributes and random.random() < 0.6 else nodes)
    try:
        return _replaced(root, old, _other(old, root, random))
    except (EdgecError, ArithmeticError, AssertionError, LookupError, TypeError, ValueError):
        return None


def _replaced(root: Node, old: Node, new: Node) -> Node:
    """``root`` with ``new`` for ``old``; shapes in attributes that no longer fit make the operators' types fail."""
    made: dict[Node, Node] = {}
    for n in topological([root]):
        args = tuple(made[a] for a in n.args)
        made[n] = new if n is old else n if args == n.args else ops.node(n.op, *args, **n.attributes)
    return made[root]


def _other(n: Node, root: Node, random: Random) -> Node:
    """A node near ``n``: another value, type, operand or attribute."""
    if n.op == "input":
        return placeholder(str(n.attributes["name"]), _other_type(n.type, random))
    if n.op == "const":
        if random.random() < 0.3:
            return placeholder(_named("was_constant", n.type), n.type)
        return constant(_other_values(n.value, random))
    kinds = ["attribute"] * 4 * bool(n.attrs) + ["operand", "around", "swapped"]
    kind = random.choice(kinds)
    if kind == "attribute":
        name, value = random.choice(n.attrs)
        return ops.node(n.op, *n.args, **{**n.attributes, name: _other_attribute(value, random)})
    if kind == "swapped" and len(n.args) > 1:
        k = random.randrange(len(n.args) - 1)
        return ops.node(n.op, *n.args[:k], n.args[k + 1], n.args[k], *n.args[k + 2 :], **n.attributes)
    if kind == "operand" and n.args:
        k = random.randrange(len(n.args))
        old = n.args[k]
        others = [m for m in topological([root]) if m.type == old.type and m is not old and n not in topological([m])]
        new = (
            random.choice(others)
            if others and random.random() < 0.5
            else placeholder(_named("other", old.type), old.type)
        )
        return ops.node(n.op, *n.args[:k], new, *n.args[k + 1 :], **n.attributes)
    return ops.node("neg", n) if n.type.dtype in FLOATS else ops.node("add", n, n)


def _other_type(old: Type, random: Random) -> Type:
    if random.random() < 0.25:
        return Type(random.choice(_DTYPES), old.shape)
    shape = list(old.shape)
    if not shape:
        return Type(old.dtype, (2,))
    d = random.randrange(len(shape))
    shape[d] = max(0, shape[d] + random.choice((-1, 1, 1, 2))) if random.random() < 0.8 else 1
    return Type(old.dtype, tuple(shape))


def _other_values(old: np.ndarray, random: Random) -> np.ndarray:
    flat = old.reshape(-1).copy()
    if not flat.size:
        return flat.reshape(old.shape)
    if old.dtype == np.bool_:
        flat[random.randrange(flat.size)] ^= True
        return flat.reshape(old.shape)
    kind = random.randrange(5)
    places: Any = slice(None) if random.random() < 0.5 else random.randrange(flat.size)
    with np.errstate(all="ignore"):
        if kind == 0:
            flat[places] = 0
        elif kind == 1:
            flat[places] = -flat[places]
        elif kind == 2:
            flat[places] = flat[places] + np.asarray(1).astype(old.dtype)
        elif kind == 3:
            flat[places] = flat[places] * np.asarray(3).astype(old.dtype)
        else:
            flat[places] = np.asarray(random.choice((0.3, -2.5, 7))).astype(old.dtype)
    return flat.reshape(old.shape)


def _other_attribute(value: Any, random: Random) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, str):
        return random.choice([c for c in (_COMBINES if value in _COMBINES else _DTYPES) if c != value])
    if isinstance(value, int):
        return random.choice((value + 1, value - 1, 0, -value))
    if isinstance(value, float):
        return random.choice((0.0, -0.0, value + 1, -value, float("-inf"), float("inf"), 1.0))
    if isinstance(value, Sequence) and value and all(isinstance(v, int) for v in value):
        new = list(value)
        k = random.randrange(len(new))
        kind = random.randrange(5)
        if kind == 0:
            random.shuffle(new)
        elif kind == 1 and len(new) > 1:
            del new[k]
        else:
            new[k] = random.choice((new[k] + 1, new[k] - 1, 0, 2, -new[k]))
        return tuple(new)
    return value


def _named(name: str, type: Type) -> str:
    """An input's name, one for each type: of one name there is one input in a graph."""
    return "_".join([name, type.dtype, *map(str, type.shape)])
