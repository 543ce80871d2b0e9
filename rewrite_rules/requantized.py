"""Around quantized products: biases, sums and movements of integers, and scales to quantize by."""

from dataclasses import replace

import numpy as np

from edgec.ir.graph import constant
from edgec.ir.types import DTYPES, FLOATS, ends
from edgec.ops import node
from edgec.rewrite import rule_on
from edgec.rewrite.affine import NARROW, affine, nearest_integers, plus, value_of, widened
from edgec.rewrite.facts import is_known, is_static
from edgec.rewrite.sample import bytes_of, dequantized, extents, fixed, given
from edgec.rewrite.scaling import scaled
from edgec.rewrite.shape import reshaped, varies_only


def biased_sums(random):
    total = node("matmul", widened(given("x", 3, 4, dtype="u8")), widened(bytes_of(random, 4, 5)))
    scales = np.array([0.013 * random.randint(1, 9) for _ in range(5)], np.float32)
    bias = np.array([random.randint(-4000, 4000) for _ in range(5)], np.int32)
    for y in (total, node("add", total, constant(bias[::-1].copy()))):
        real = node("mul", node("cast", y, to="f32"), constant(scales))
        yield node("add", real, constant(bias.astype(np.float32) * scales))


@rule_on("add", family="quantization", numeric="reassociates", examples=biased_sums)
def add_before_scaling(n, view):
    """sum*s + b*s = (sum + b)*s for integers: the bias of a quantized sum is added as one."""
    for x, c in (n.args, n.args[::-1]):
        if not is_known(c) or x.type != n.type or n.type.dtype not in FLOATS:
            continue
        total, scale = x, None
        if x.op == "mul":  # by a scale that is known before the network runs
            scale, total = next(((a, b) for a, b in (x.args, x.args[::-1]) if is_known(a)), (None, None))
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
        y = node("cast", plus(y, whole), to=n.type.dtype)
        return y if scale is None else node("mul", y, scale)
    return "it adds no constant to a scaled sum of integers"


def quantized_sums(random):
    x = dequantized(random, given("x", 2, 3, 4, 4, dtype=random.choice(["u8", "i8"])), 3, 1, 1)
    yield node("reduce", x, combine="add", axes=(2, 3))
    yield node("pool", x, combine="add", kernel=(2, 3), strides=(2, 1), dilations=(1, 1))


@rule_on("reduce", "pool", family="quantization", numeric="reassociates", examples=quantized_sums)
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
    total = plus(node(n.op, widened(x.q), **n.attributes), np.array(-x.offset * terms))
    total = node("cast", total, to=n.type.dtype)
    return total if x.scale is None else node("mul", total, x.scale)


def moved_quantities(random):
    x = dequantized(random, given("x", *extents(random, 2), 3, dtype=random.choice(["u8", "i8"])))
    a, b, _ = x.type.shape
    yield node("transpose", x, perm=(2, 0, 1))
    yield node("slice", x, starts=(0, 0, 2), steps=(1, 1, -1), shape=(a, b, 2))
    yield node("pad", x, before=(0, 1, 0), after=(0, 0, 2), value=0.0)
    yield node("gather", x, constant(np.array([2, 0, 1, 1, 2])), axis=2)
    yield node("reduce", x, combine=random.choice(["max", "min"]), axes=(2,))
    picture = dequantized(random, given("p", 1, 2, 4, 4, dtype="u8"), zero=random.randint(0, 9))
    bordered = node("pad", picture, before=(0, 0, 1, 1), after=(0, 0, 1, 0), value=float("-inf"))
    windows = {"kernel": (2, 2), "strides": (2, 2), "dilations": (1, 1)}
    yield node("pool", bordered, combine="max", **windows)
    yield node("pool", picture, combine="max", **windows)


@rule_on(
    "reshape", "broadcast", "transpose", "slice", "pad", "gather", "pool", "reduce",
    family="quantization", numeric="reassociates", examples=moved_quantities,
)  # fmt: skip
def move_integers(n, view):
    """Data movement of (q - z)*s becomes data movement of q: a quarter of the bytes."""
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


def compared_quantities(random):
    x = dequantized(random, given("x", *extents(random, 2), dtype=random.choice(["u8", "i8"])))
    yield node("eq", x, node("reduce", x, combine=random.choice(["max", "min"]), axes=(1,)))
    y = x
    while y.op != "cast":
        y = y.args[0]
    other = given("y", *x.type.shape, dtype=y.args[0].type.dtype)
    z = _replaced(x, y, node("cast", other, to="f32"))
    yield node(random.choice(["lt", "le", "eq", "ne"]), x, z)


def _replaced(n, old, new):
    return new if n is old else node(n.op, _replaced(n.args[0], old, new), *n.args[1:], **n.attributes)


@rule_on("lt", "le", "gt", "ge", "eq", "ne", family="quantization", examples=compared_quantities)
def compare_integers(n, view):
    """(p - z)*s < (q - z)*s as p < q, for s > 0; so for the greatest of them: no two bytes become one number."""
    if n.args[0].type.dtype not in FLOATS:
        return "it compares no real numbers"
    left, right = map(_extreme_of_integers, n.args)
    if left is None or right is None or left.q.type.dtype != right.q.type.dtype or left.offset != right.offset:
        return "the operands do not stand for integers of one kind"
    if left.offset is None or (left.scale is not right.scale) or left.q.type.dtype not in ("i8", "u8"):
        return "the operands have different scales, or several"
    if left.scale is not None and (
        left.scale.type.elements != 1 or not 2.0**-60 < value_of(left.scale).min() < 2.0**60
    ):
        return "the scale varies, or is not positive"
    return node(n.op, left.q, right.q)


def _extreme_of_integers(x):
    if x.op == "reduce" and x.attributes["combine"] in ("max", "min"):
        found = affine(x.args[0])
        return None if found is None else replace(found, q=node("reduce", found.q, **x.attributes))
    return affine(x)


def quantized_results(random):
    t = constant(np.array(random.choice([0.3, 2.5, 0.01])))
    m = node("matmul", given("a", 3, 4), fixed(random, 4, 5))
    for y in (
        node("add", m, fixed(random, 5)),
        node("max", node("mul", given("x", 3, 5), fixed(random, 5)), constant(np.zeros(()))),
        node("add", node("mul", given("x", 2), t), node("mul", given("y", 2), t)),
    ):
        yield node("div", y, t)


@rule_on("div", family="quantization", numeric="reassociates", examples=quantized_results)
def divide_the_weights(n, view):
    """(x@w + b)/s = x@(w/s) + b/s for a constant s, before a rounding too: a scale to quantize by joins the others."""
    x, s = n.args
    if not is_known(s) or is_static(x) or x.type.shape != n.type.shape or n.type.dtype not in FLOATS:
        return "it does not divide by a constant"
    sizes = np.abs(value_of(s).astype(np.float64))
    limit = 2.0**14 if n.type.dtype == "f16" else 2.0**100
    if not ((sizes >= 1 / limit) & (sizes <= limit)).all():
        return "the reciprocal leaves the range of its type"
    return scaled(x, s, view, by="div")


def joined_quantities(random):
    parts = [dequantized(random, given(name, 2, 3, dtype="u8")) for name in "xy"]
    joined = node("concat", *parts, axis=random.randint(0, 1))
    y = node("round", node("div", joined, constant(np.array(0.25, DTYPES[joined.type.dtype]))))
    yield node("cast", node("min", node("max", y, _number(y, -128)), _number(y, 127)), to="i8")


def _number(like, value):
    return constant(np.array(value, DTYPES[like.type.dtype]))


@rule_on("cast", family="quantization", numeric="exact", examples=joined_quantities)
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
