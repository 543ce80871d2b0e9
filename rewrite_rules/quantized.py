"""Quantized arithmetic by linearity: products and sums of (q - zero) * scale are sums of integers, offset and scaled.

A zero point is an offset and a scale is a factor, so both come out of whatever is linear: offsets meet constant
weights and become one number a channel, scales become one factor behind the sum, and what is left in front of it are
casts of narrow integers, which is what machines multiply fastest.
"""

import numpy as np

from edgec.ir.graph import constant
from edgec.ir.types import DTYPES, FLOATS, ends
from edgec.ops import node
from edgec.rewrite import rule_on
from edgec.rewrite.affine import NARROW, affine, integers, nearest_integers, value_of, widened
from edgec.rewrite.facts import is_static
from edgec.rewrite.sample import extents, fixed, given
from edgec.rewrite.scaling import scaled
from edgec.rewrite.shape import reshaped, varies_only

PLAIN = {"strides": (1, 1), "dilations": (1, 1)}


def _dequantized(random, q, *scale_shape, zero=None, dtype="f32"):
    """What a dequantization makes of integers."""
    x = node("cast", q, to=dtype)
    zero = random.randint(*ends(q.type.dtype)) if zero is None else zero
    scales = random.uniform(0.001, 0.5) * (1 + np.arange(int(np.prod(scale_shape, dtype=int))).reshape(scale_shape))
    scale = constant(scales.astype(DTYPES[dtype]))
    if zero:
        x = node("sub", x, constant(np.array(zero, DTYPES[dtype])))
    return node("mul", x, scale)


def _weights(random, *shape, dtype="i8"):
    low, high = ends(dtype)
    return constant(np.array([random.randint(low, high) for _ in range(int(np.prod(shape)))], DTYPES[dtype]).reshape(shape))


def quantized_products(random):
    dtype = random.choice(["f32", "f64"])
    x = _dequantized(random, given("x", 1, 4, 5, 4, dtype=random.choice(["u8", "i8"])), dtype=dtype)
    padded = node("pad", x, before=(0, 0, 1, 0), after=(0, 0, 1, 2), value=0.0)
    w = _dequantized(random, _weights(random, 6, 4, 3, 2), 6, 1, 1, 1, zero=0, dtype=dtype)
    yield node("conv", padded, w, **PLAIN)
    w = _dequantized(random, _weights(random, 4, 1, 3, 2, dtype="u8"), dtype=dtype)
    yield node("conv", padded, w, groups=4, **PLAIN)
    a, b = given("a", 2, 3, 4, dtype="u8"), given("b", 4, 3, dtype="i8")
    rows, columns = _dequantized(random, a), _dequantized(random, b)
    yield node("matmul", rows, columns)
    yield node("matmul", rows, _dequantized(random, _weights(random, 4, 5), 1, 5, zero=0))
    yield node("matmul", _dequantized(random, _weights(random, 2, 3), 2, 1), node("slice", rows, **_FIRST))
    shifted = node("sub", widened(a), constant(np.array(128, np.int32)))
    yield node("matmul", shifted, widened(_weights(random, 4, 2)))


_FIRST = {"starts": (0, 0, 0), "steps": (1, 1, 1), "shape": (2, 3, 2)}


@rule_on("conv", "matmul", law="quantization", numeric="reassociates", examples=quantized_products)
def multiply_integers(n, view):
    """sum((q - z)*s * (r - y)*t) = (sum(q*r) - z*sum(r) - y*sum(q) + z*y)*s*t: products of the integers alone."""
    if n.type.dtype not in ("f32", "f64", "i32"):
        return f"sums of {n.type.dtype} are not made of integers"
    x, w = map(affine, n.args)
    if x is None or w is None:
        return "the operands do not stand for narrow integers"
    if n.type.dtype == "i32" and all(_is_plain(a) for a in n.args):
        return "it multiplies integers already"
    found = _convolved(n, x, w) if n.op == "conv" else _multiplied(n, x, w)
    if isinstance(found, str):
        return found
    total, scale = found
    if n.type.dtype == "i32":
        return total
    total = node("cast", total, to=n.type.dtype)
    return total if scale is None else node("mul", total, scale)


def _is_plain(operand):
    """It is narrow integers, widened."""
    return operand.op == "cast" and operand.args[0].type.dtype in NARROW


def _convolved(n, x, w):
    rank = n.type.rank
    if not is_static(w.q) or x.offset is None or (x.scale is not None and x.scale.type.elements != 1):
        return "the weights are not constant, or the scale varies over what is summed"
    columns = constant(w.zero)
    if not varies_only(columns, rank, 0) or (w.scale is not None and not varies_only(w.scale, rank, 0)):
        return "the scale of the weights varies over what is summed"
    values = value_of(w.q).astype(np.int64) - w.zero
    if not _fits(x, values, values[0].size):
        return "the sum may leave 32 bits"
    total = node("conv", widened(x.q), widened(integers(values)), **n.attributes)
    offset = -x.offset * values.reshape(len(values), -1).sum(axis=1)
    total = _plus(total, offset.reshape(-1, *(1,) * (rank - 2)))
    own = None if w.scale is None else reshaped(w.scale, (w.scale.type.elements, *(1,) * (rank - 2)))
    return total, _product(None if x.scale is None else reshaped(x.scale, ()), own)


def _multiplied(n, x, w):
    rank = n.type.rank
    for factor, d in ((x, -1), (w, -2)):
        if factor.scale is not None and _extent(factor.scale.type.shape, d) != 1:
            return "a scale varies over what is summed"
    scale = _product(x.scale, w.scale)
    if scale is not None and len(np.broadcast_shapes(scale.type.shape, n.type.shape)) > rank:
        return "a scale has more dimensions"
    terms = n.args[0].type.shape[-1]
    sides = []
    for factor in (x, w):
        values = value_of(factor.q).astype(np.int64) - factor.zero if is_static(factor.q) else None
        sides.append(values)
    if sides[0] is None and sides[1] is None:
        return _both_moving(x, w, terms, scale)
    if sides[0] is not None and sides[1] is not None:
        return "both operands are constant"
    known = 0 if sides[0] is not None else 1
    values, moving = sides[known], (x, w)[1 - known]
    if integers(values) is None or not _fits(moving, values, terms):
        return "the sum may leave 32 bits"
    narrow = (widened(integers(values)), widened(moving.q))
    total = node("matmul", *(narrow if known == 0 else narrow[::-1]))
    offset = moving.zero.reshape((1,) * max(2 - moving.zero.ndim, 0) + moving.zero.shape)
    whole = [*offset.shape]
    whole[-1 if known == 1 else -2] = terms
    spread = np.broadcast_to(offset, whole)
    return _plus(total, -(spread @ values if known == 1 else values @ spread)), scale


def _both_moving(x, w, terms, scale):
    if x.offset is None or w.offset is None:
        return "a zero point varies"
    if {x.q.type.dtype, w.q.type.dtype} - {"i8", "u8"} or terms > 2**15:
        return "the sum may leave 32 bits"
    total = node("matmul", widened(x.q), widened(w.q))
    for q, zero, axis in ((w.q, x.offset, -2), (x.q, w.offset, -1)):
        if zero:
            sums = node("reduce", widened(q), combine="add", axes=(q.type.rank + axis,))
            total = node("add", total, node("mul", sums, constant(np.array(-zero, np.int32))))
    return _plus(total, np.array(terms * x.offset * w.offset)), scale


def _extent(shape, d):
    return shape[d] if len(shape) >= -d else 1


def _fits(moving, values, terms):
    """Is every sum of ``terms`` products, with and without zero points, within 32 bits?"""
    if integers(values) is None:
        return False
    low, high = ends(moving.q.type.dtype)
    size = max(high, -low) + int(np.abs(moving.zero).max(initial=0))
    return size * int(np.abs(values).max(initial=0)) * terms < 2**31


def _plus(total, offset):
    return total if not offset.any() else node("add", total, constant(offset.astype(np.int32)))


def _product(*scales):
    given_ones = [s for s in scales if s is not None]
    if not given_ones:
        return None
    return given_ones[0] if len(given_ones) == 1 else node("mul", *given_ones)


def wide_weights(random):
    shift = random.choice([-100, 60, 127])
    values = np.array([random.randint(-128, 127) + shift for _ in range(9 * 16)]).reshape(9, 16)
    values[0, :2] = shift - 128, shift + 127
    yield node("matmul", widened(given("x", 3, 9, dtype="u8")), widened(constant(values.astype(np.int16))))
    v = constant(values.reshape(9, 4, 2, 2).astype(np.int16))
    yield node("conv", widened(given("p", 1, 4, 5, 5, dtype="i8")), widened(v), **PLAIN)


@rule_on("conv", "matmul", law="quantization", examples=wide_weights)
def shift_the_weights(n, view):
    """sum(x*(w + d)) = sum(x*w) + d*sum(x): weights of nine bits are weights of eight, and a sum."""
    x, w = n.args
    if n.type.dtype != "i32" or not is_static(w) or not _is_plain(w) or not _is_plain(x):
        return "it does not multiply by constant integers"
    values = value_of(w.args[0]).astype(np.int64)
    middle = int(values.min()) + 128
    if w.args[0].type.dtype in ("i8", "u8") or values.max() - middle > 127 or n.attributes.get("groups", 1) != 1:
        return "the weights do not fit into a byte"
    total = node(n.op, x, widened(constant((values - middle).astype(np.int8))), **n.attributes)
    axis = 1 if n.op == "conv" else x.type.rank - 1
    sums = node("reduce", x, combine="add", axes=(axis,))
    if n.op == "conv" and set(w.type.shape[2:]) != {1}:
        windows = {k: n.attributes[k] for k in ("strides", "dilations")}
        sums = node("pool", sums, combine="add", kernel=w.type.shape[2:], **windows)
    elif n.op == "conv" and set(n.attributes["strides"]) != {1}:
        return "it leaves positions out"
    return node("add", total, node("mul", sums, constant(np.array(middle, np.int32))))


def biased_sums(random):
    total = node("matmul", widened(given("x", 3, 4, dtype="u8")), widened(_weights(random, 4, 5)))
    scales = np.array([0.013 * random.randint(1, 9) for _ in range(5)], np.float32)
    bias = np.array([random.randint(-4000, 4000) for _ in range(5)], np.int32)
    for y in (total, node("add", total, constant(bias[::-1].copy()))):
        real = node("mul", node("cast", y, to="f32"), constant(scales))
        yield node("add", real, constant(bias.astype(np.float32) * scales))


@rule_on("add", law="quantization", numeric="reassociates", examples=biased_sums)
def add_before_scaling(n, view):
    """sum*s + b*s = (sum + b)*s for integers: the bias of a quantized sum is added as one."""
    for x, c in (n.args, n.args[::-1]):
        if not is_static(c) or x.type != n.type or n.type.dtype not in FLOATS:
            continue
        scale = next((a for a in x.args if is_static(a)), None) if x.op == "mul" else None
        total = next((a for a in x.args if a is not scale), None) if x.op == "mul" else x
        if total is None or total.op != "cast" or total.args[0].type.dtype != "i32" or total.type != n.type:
            continue
        with np.errstate(all="ignore"):
            ratio = value_of(c).astype(np.float64) / (1.0 if scale is None else value_of(scale).astype(np.float64))
        whole = nearest_integers(ratio)
        if whole is None:
            return "the offset is no multiple of the scale"
        (y,) = total.args
        if y.op == "add" and y.args[1].is_const and y.args[0].type == y.type:
            y, before = y.args
            whole = whole + before.value
        if (np.abs(whole) >= 2**31).any() or y.type.shape != n.type.shape:
            return "the offset leaves 32 bits"
        y = node("cast", _plus(y, whole), to=n.type.dtype)
        return y if scale is None else node("mul", y, scale)
    return "it adds no constant to a scaled sum of integers"


def quantized_sums(random):
    x = _dequantized(random, given("x", 2, 3, 4, 4, dtype=random.choice(["u8", "i8"])), 3, 1, 1)
    yield node("reduce", x, combine="add", axes=(2, 3))
    yield node("pool", x, combine="add", kernel=(2, 3), strides=(2, 1), dilations=(1, 1))


@rule_on("reduce", "pool", law="quantization", numeric="reassociates", examples=quantized_sums)
def sum_integers(n, view):
    """The sum of (q - z)*s is the sum of q, less so many z, times s."""
    x = affine(n.args[0])
    if n.attributes["combine"] != "add" or x is None or n.type.dtype not in FLOATS:
        return "it sums no tensor that stands for narrow integers"
    rank = n.type.rank
    axes = n.attributes["axes"] if n.op == "reduce" else range(rank - len(n.attributes["kernel"]), rank)
    if x.scale is not None and not varies_only(x.scale, rank, *(d for d in range(rank) if d not in axes)):
        return "the scale varies over what is summed"
    shape = n.args[0].type.shape
    terms = int(np.prod([shape[d] for d in axes] if n.op == "reduce" else n.attributes["kernel"]))
    if x.offset is None or terms > 2**14:
        return "the zero point varies, or the sum may leave 32 bits"
    total = _plus(node(n.op, widened(x.q), **n.attributes), np.array(-x.offset * terms))
    total = node("cast", total, to=n.type.dtype)
    return total if x.scale is None else node("mul", total, x.scale)


def moved_quantities(random):
    x = _dequantized(random, given("x", *extents(random, 2), 3, dtype=random.choice(["u8", "i8"])))
    a, b, c = x.type.shape
    yield node("transpose", x, perm=(2, 0, 1))
    yield node("slice", x, starts=(0, 0, 2), steps=(1, 1, -1), shape=(a, b, 2))
    yield node("pad", x, before=(0, 1, 0), after=(0, 0, 2), value=0.0)
    yield node("gather", x, constant(np.array([2, 0, 1, 1, 2])), axis=2)
    yield node("reduce", x, combine=random.choice(["max", "min"]), axes=(2,))
    picture = _dequantized(random, given("p", 1, 2, 4, 4, dtype="u8"), zero=random.randint(0, 9))
    bordered = node("pad", picture, before=(0, 0, 1, 1), after=(0, 0, 1, 0), value=float("-inf"))
    windows = {"kernel": (2, 2), "strides": (2, 2), "dilations": (1, 1)}
    yield node("pool", bordered, combine="max", **windows)
    yield node("pool", picture, combine="max", **windows)


@rule_on(
    "transpose", "slice", "pad", "gather", "pool", "reduce",
    law="quantization", numeric="reassociates", examples=moved_quantities,
)  # fmt: skip
def move_integers(n, view):
    """What moves or picks elements of (q - z)*s picks those of q: a quarter of the bytes."""
    x, *rest = n.args
    lowest = False
    if n.op in ("pool", "reduce"):
        combine = n.attributes["combine"]
        if combine not in ("max", "min"):
            return "it computes with elements"
        lowest = n.op == "pool" and combine == "max" and _has_border_of_nothing(n)
        x = x.args[0] if lowest else x
    found = affine(x)
    if found is None or found.offset is None or x.is_const:
        return "it moves nothing that stands for narrow integers"
    if found.scale is not None and (found.scale.type.elements != 1 or value_of(found.scale).min() <= 0):
        return "the scale varies, or is not positive"
    q = found.q
    if lowest:
        q = node("pad", q, **{**n.args[0].attributes, "value": int(ends(q.type.dtype)[0])})
    if n.op == "pad":
        padded = affine(n)
        if padded is None:
            return "the padding is none of the integers"
        y = padded.q
    else:
        y = node(n.op, q, *rest, **n.attributes)
    y = node("cast", y, to=n.type.dtype)
    if found.offset:
        y = node("add", y, constant(np.array(-found.offset, DTYPES[n.type.dtype])))
    return y if found.scale is None else node("mul", y, reshaped(found.scale, ()))


def _has_border_of_nothing(pool):
    """Is the operand padded with minus infinity, and an element of it in every window?"""
    (x,) = pool.args
    if x.op != "pad" or x.attributes["value"] != -np.inf:
        return False
    lead = x.type.rank - len(pool.attributes["kernel"])
    sides = (*x.attributes["before"][:lead], *x.attributes["after"][:lead])
    own = zip(x.attributes["before"][lead:], x.attributes["after"][lead:], pool.attributes["kernel"])
    return not any(sides) and set(pool.attributes["dilations"]) == {1} and all(max(b, a) < k for b, a, k in own)


def quantized_results(random):
    t = constant(np.array(random.choice([0.3, 2.5, 0.01])))
    m = node("matmul", given("a", 3, 4), fixed(random, 4, 5))
    for y in (
        node("add", m, fixed(random, 5)),
        node("max", node("mul", given("x", 3, 5), fixed(random, 5)), constant(np.zeros(()))),
        node("add", node("mul", given("x", 2), t), node("mul", given("y", 2), t)),
    ):
        yield node("div", y, t)


@rule_on("div", law="quantization", numeric="reassociates", examples=quantized_results)
def divide_the_weights(n, view):
    """(x@w + b)/s = x@(w/s) + b/s for a constant s, before a rounding too: a scale to quantize by joins the others."""
    x, s = n.args
    if not is_static(s) or is_static(x) or x.type.shape != n.type.shape or n.type.dtype not in FLOATS:
        return "it does not divide by a constant"
    sizes = np.abs(value_of(s).astype(np.float64))
    if not ((sizes >= 2.0**-100) & (sizes <= 2.0**100)).all():
        return "the reciprocal leaves the range of its type"
    return scaled(x, s, view, by="div")


def joined_quantities(random):
    parts = [_dequantized(random, given(name, 2, 3, dtype="u8")) for name in "xy"]
    joined = node("concat", *parts, axis=random.randint(0, 1))
    y = node("round", node("div", joined, constant(np.array(0.25, DTYPES[joined.type.dtype]))))
    yield node("cast", node("min", node("max", y, _number(y, -128)), _number(y, 127)), to="i8")


def _number(like, value):
    return constant(np.array(value, DTYPES[like.type.dtype]))


@rule_on("cast", law="quantization", numeric="exact", examples=joined_quantities)
def quantize_before_joining(n, view):
    """cast(f(concat(x, y))) = concat(cast(f(x)), cast(f(y))) for narrow integers: what is put together is narrow."""
    if n.type.dtype not in NARROW or n.args[0].type.dtype not in FLOATS:
        return "it makes no narrow integers of floats"
    chain = [n]
    while chain[-1].args[0].op != "concat":
        x = chain[-1].args[0]
        numbers = all(is_static(a) and a.type.elements == 1 for a in x.args[1:])
        if len(chain) > 8 or x.op not in ("round", "add", "max", "min", "mul", "div") or not numbers:
            return "nothing it is computed from is put together"
        chain.append(x)
    joined = chain[-1].args[0]
    if any(x.type.shape != joined.type.shape for x in chain):
        return "it is repeated on the way"
    parts = []
    for part in joined.args:
        for step in reversed(chain):
            rest = [reshaped(a, ()) for a in step.args[1:]]
            part = node(step.op, part, *rest, **step.attributes)
        parts.append(part)
    return node("concat", *parts, **joined.attributes)


