"""Bytes with a sign, stored without one: -128 is 0, and machines multiply bytes without a sign by bytes with one."""

import numpy as np

from edgec.ir.graph import constant
from edgec.ir.types import DTYPES, FLOATS
from edgec.ops import node
from edgec.rewrite import rule_on
from edgec.rewrite.affine import value_of, widened
from edgec.rewrite.facts import is_known, is_static
from edgec.rewrite.sample import bytes_of, given


def _number(like, value):
    return constant(np.array(value, DTYPES[like.type.dtype]))


def signed_readers(random):
    r = node("round", given("x", 1, 4, 5, 5, dtype="f32"))
    y = node("add", r, _number(r, random.choice([-128, 14])))
    q = node("cast", node("min", node("max", y, _number(y, -128)), _number(y, 127)), to="i8")
    real = node("cast", q, to="f32")
    yield node("add", real, _number(real, -14.0))
    scaled_ones = node("mul", real, _number(real, 0.25))
    yield node("add", node("add", scaled_ones, given("z", 5, 5, dtype="f32")), _number(real, 3.0))
    padded = node("pad", q, before=(0, 0, 1, 1), after=(0, 0, 0, 0), value=random.randint(-128, 127))
    w = widened(bytes_of(random, 3, 4, 2, 2))
    for total in (
        node("conv", widened(padded), w, strides=(1, 1), dilations=(1, 1)),
        node("matmul", widened(node("reshape", q, shape=(25, 4))), widened(bytes_of(random, 4, 2))),
        node("reduce", widened(q), combine="add", axes=(2, 3)),
    ):
        yield node("add", total, constant(np.array(random.randint(-99, 99), np.int32)))


@rule_on("add", family="quantization", numeric="reassociates", examples=signed_readers)
def store_unsigned(n, view):
    """f(q) + c = f(q + 128) + (c - f(128)) for a linear f: bytes with a sign are stored without one, as -128 is 0."""
    y, c = n.args
    if not is_known(c) or y.type.shape != n.type.shape or n.type.dtype not in ("i32", "f32"):
        return "it adds no constant"
    found = _unsigned_in(y, 3)
    if found is None:
        return "nothing in it is made of bytes with a sign"
    y, offset = found
    return node("add", y, constant((value_of(c) - offset).astype(DTYPES[n.type.dtype])))


def _unsigned_in(y, depth):
    """``y`` with one more 128 in its bytes, and by how much that makes it greater."""
    if y.op == "cast":
        q = _unsigned(y.args[0], 4)
        return None if q is None else (node("cast", q, to=y.type.dtype), np.array(128))
    if y.op == "add" and depth and y.type.dtype in FLOATS:
        for k, a in enumerate(y.args):
            found = None if is_static(a) else _unsigned_in(a, depth - 1)
            if found is not None:
                return node("add", *((found[0], y.args[1]) if k == 0 else (y.args[0], found[0]))), found[1]
    if y.op == "mul" and is_known(y.args[1]) and y.type.dtype in FLOATS:
        found = _unsigned_in(y.args[0], 0)
        return None if found is None else (node("mul", found[0], y.args[1]), found[1] * value_of(y.args[1]))
    if y.type.dtype != "i32" or y.op not in ("conv", "matmul", "reduce", "pool"):
        return None
    x, *rest = y.args
    found = _unsigned_in(x, 0) if x.op == "cast" else None
    if found is None or any(not (w.op == "cast" and is_known(w)) for w in rest):
        return None
    total = node(y.op, found[0], *rest, **y.attributes)
    if rest:
        w = value_of(rest[0]).astype(np.int64)
        sums = w.sum(axis=-2, keepdims=True) if y.op == "matmul" else w.reshape(len(w), -1).sum(axis=1)
        return total, 128 * (sums if y.op == "matmul" else sums.reshape(-1, *(1,) * (y.type.rank - 2)))
    if y.attributes["combine"] != "add":
        return None
    terms = y.attributes["kernel"] if y.op == "pool" else [x.type.shape[d] for d in y.attributes["axes"]]
    return total, np.array(128 * int(np.prod(terms)))


def _unsigned(q, depth):
    """Bytes with a sign as bytes without one, each greater by 128; None where that would be one more operation."""
    if q.type.dtype != "i8" or not depth:
        return None
    if q.op in ("reshape", "transpose", "slice", "pad") or (q.op == "pool" and q.attributes["combine"] == "max"):
        inner = _unsigned(q.args[0], depth - 1)
        more = {"value": q.attributes["value"] + 128} if q.op == "pad" else {}
        return None if inner is None else node(q.op, inner, **{**q.attributes, **more})
    if q.op != "cast" or q.args[0].type.dtype not in FLOATS:
        return None
    y, chain = q.args[0], []
    while y.op in ("min", "max") and is_static(y.args[1]) and len(chain) < 3:
        chain.append(y)
        y = y.args[0]
    if y.op != "add" or not is_known(y.args[1]) or y.args[0].op != "round":
        return None
    shift = constant(np.array(128, DTYPES[y.type.dtype]))
    c = value_of(y.args[1]) + 128
    y = y.args[0] if not c.any() else node("add", y.args[0], constant(c.astype(DTYPES[y.type.dtype])))
    for step in reversed(chain):
        y = node(step.op, y, node("add", step.args[1], shift))
    return node("cast", y, to="u8") if y.type == q.args[0].type else None
