"""Linearity: products of matrices and convolutions pass sums, reductions and concatenations on to what is smaller."""

from math import prod

import numpy as np

from edgec.ir.graph import constant
from edgec.ir.index import upper
from edgec.ir.types import DTYPES, ends
from edgec.ops import node
from edgec.rewrite import rule_on
from edgec.rewrite.facts import is_static, uniform
from edgec.rewrite.sample import extents, fixed, given
from edgec.rewrite.shape import as_number, reshaped, varies_only

PLAIN = {"strides": (1, 1), "dilations": (1, 1)}


def summed_products(random):
    m, k, n = (e + 1 for e in extents(random, 3))
    x, y, w = given("x", m, k), given("y", m, k), given("w", k, n)
    yield node("add", node("matmul", x, w), node("matmul", y, w))
    yield node("sub", node("matmul", x, w), node("matmul", x, given("v", k, n)))
    picture = given("p", 1, 2, 4, 4)
    first, second = (node("conv", picture, fixed(random, 3, 2, 2, 2), **PLAIN) for _ in range(2))
    yield node("add", first, second)


@rule_on("add", "sub", family="linearity", numeric="reassociates", examples=summed_products)
def factor_product(n, view):
    """x@w + y@w = (x + y)@w, x@w + x@v = x@(w + v), and so for convolutions: one product for two."""
    a, b = n.args
    if a.op != b.op or a.op not in ("matmul", "conv") or a.attrs != b.attrs or a.type != b.type:
        return "the operands are not products of one kind"
    for k in (0, 1):
        if a.args[k] is b.args[k]:
            one, other = a.args[1 - k], b.args[1 - k]
            if one.type != other.type:
                return "what differs has different shapes"
            joined = node(n.op, one, other)
            return node(a.op, *((a.args[0], joined) if k == 0 else (joined, a.args[1])), **a.attributes)
    return "the products share no factor"


def padded_branches(random):
    x = given("x", 1, 3, 5, 5)
    padded = node("pad", x, before=(0, 0, 1, 1), after=(0, 0, 1, 1), value=0.0)
    wide = node("conv", padded, fixed(random, 3, 3, 3, 3), **PLAIN)
    yield node("add", wide, node("conv", x, fixed(random, 3, 3, 1, 1), **PLAIN))
    yield node("add", node("add", wide, fixed(random, 1, 3, 1, 1)), node("conv", x, fixed(random, 3, 3, 1, 1), **PLAIN))
    yield node("add", wide, x)
    yield node("add", wide, node("mul", x, fixed(random, 3, 1, 1)))


@rule_on("add", family="linearity", numeric="reassociates", examples=padded_branches)
def enlarge_kernel(n, view):
    """A smaller convolution beside a larger one, or the operand itself, is a part of the larger kernel (RepVGG)."""
    for wide, narrow in (n.args, n.args[::-1]):
        if wide.op == "add" and is_static(wide.args[1]) and wide.args[0].op == "conv":
            found = _enlarged(wide.args[0], narrow)
            if not isinstance(found, str):
                return node("add", found, wide.args[1])
        if wide.op == "conv":
            found = _enlarged(wide, narrow)
            if not isinstance(found, str):
                return found
    return "no operand is a convolution that could take in the other one"


def _enlarged(wide, narrow):
    padded, w = wide.args
    if padded.op != "pad" or padded.attributes["value"] != 0 or not is_static(w) or wide.type != narrow.type:
        return "the convolution has no zero padding"
    x = padded.args[0]
    outputs, per_group, *kernel = w.type.shape
    before = padded.attributes["before"][2:]
    if any(wide.attributes["dilations"][d] != 1 for d in range(len(kernel))):
        return "its kernel has holes"
    if narrow.op == "conv" and narrow.args[0] is x and is_static(narrow.args[1]) and narrow.attrs == wide.attrs:
        v = narrow.args[1]
    elif x in (narrow, *narrow.args) and set(wide.attributes["strides"]) == {1}:
        groups = wide.attributes["groups"]
        if outputs != per_group * groups:
            return "the channels are not as many as before"
        identity = np.tile(np.eye(per_group), (groups, 1)).reshape(outputs, per_group, *(1,) * len(kernel))
        v = constant(identity.astype(DTYPES[w.type.dtype]))
        if narrow is not x:
            scale = narrow.args[1]
            if narrow.op != "mul" or not is_static(scale) or not varies_only(scale, wide.type.rank, 1):
                return "the other operand is no scale of channels"
            v = node("mul", v, reshaped(scale, (scale.type.elements, *(1,) * (w.type.rank - 1))))
    else:
        return "the other operand is computed from something else"
    small = v.type.shape[2:]
    if v.type.shape[:2] != w.type.shape[:2] or v.type.dtype != w.type.dtype:
        return "the kernels have different channels"
    after = [k - b - s for k, b, s in zip(kernel, before, small)]
    if min((*after, *before)) < 0 or set(padded.attributes["before"][:2]) != {0}:
        return "the smaller kernel does not fit into the larger one"
    grown = node("pad", v, before=(0, 0, *before), after=(0, 0, *after), value=0.0)
    return node("conv", padded, node("add", w, grown), **wide.attributes)


def chained_products(random):
    x = given("x", 7, 3)
    yield node("matmul", node("matmul", x, fixed(random, 3, 4)), fixed(random, 4, 2))
    yield node("matmul", fixed(random, 2, 4), node("matmul", fixed(random, 4, 3), given("x", 3, 7)))
    yield node("matmul", node("matmul", given("a", 6, 2), given("b", 2, 6)), given("c", 6, 2))


@rule_on("matmul", family="linearity", numeric="reassociates", examples=chained_products)
def regroup_products(n, view):
    """(x@w)@v = x@(w@v), whichever multiplies less."""
    left, right = n.args
    if left.type.rank == right.type.rank == 2 or (is_static(right) and right.type.rank == 2):
        if left.op == "matmul" and left.args[1].type.rank == 2:
            return node("matmul", left.args[0], node("matmul", left.args[1], right))
        if right.op == "matmul" and right.args[0].type.rank == 2:
            return node("matmul", node("matmul", left, right.args[0]), right.args[1])
    return "no operand is a product of matrices"


def chained_convolutions(random):
    x = given("x", 1, 4, 5, 5)
    wide = node("conv", x, fixed(random, 6, 4, 2, 2), **PLAIN)
    yield node("conv", wide, fixed(random, 2, 6, 1, 1), **PLAIN)


@rule_on("conv", family="linearity", numeric="reassociates", examples=chained_convolutions)
def join_convolutions(n, view):
    """A convolution of one position after another convolution is one, whichever multiplies less."""
    x, v = n.args
    if x.op != "conv" or set(v.type.shape[2:]) - {1} or n.attributes["groups"] != 1 or x.attributes["groups"] != 1:
        return "it does not mix the channels of a convolution"
    w = x.args[1]
    if set(n.attributes["strides"]) != {1} or not (is_static(v) and is_static(w)):
        return "it leaves positions out, or the weights are not constant"
    rows = reshaped(w, (w.type.shape[0], w.type.elements // w.type.shape[0]))
    mixed = node("matmul", reshaped(v, v.type.shape[:2]), rows)
    return node("conv", x.args[0], reshaped(mixed, (v.type.shape[0], *w.type.shape[1:])), **x.attributes)


def summed_after(random):
    m, k, n = (e + 1 for e in extents(random, 3))
    product = node("matmul", given("x", m, k), given("w", k, n))
    yield node("reduce", product, combine="add", axes=(0,))
    yield node("reduce", product, combine="add", axes=(1,))
    yield node(
        "reduce", node("conv", given("p", 1, 2, 4, 4), fixed(random, 3, 2, 1, 1), **PLAIN), combine="add", axes=(2, 3)
    )


@rule_on("reduce", family="linearity", numeric="reassociates", examples=summed_after)
def sum_before_product(n, view):
    """The sum of rows of x@w is the sum of rows of x, times w; so for columns, and for convolutions of one position."""
    (y,) = n.args
    axes, rank = n.attributes["axes"], n.type.rank
    if n.attributes["combine"] != "add":
        return "it is no sum"
    if y.op == "matmul" and len(axes) == 1 and axes[0] >= rank - 2:
        k = axes[0] - rank + 2
        factor = y.args[k]
        inner = node("reduce", factor, combine="add", axes=(factor.type.rank - 2 + k,))
        return node("matmul", *((inner, y.args[1]) if k == 0 else (y.args[0], inner)))
    is_pointwise = y.op == "conv" and set(y.args[1].type.shape[2:]) == {1} and set(y.attributes["strides"]) == {1}
    if is_pointwise and min(axes) >= 2:
        return node("conv", node("reduce", y.args[0], **n.attributes), y.args[1], **y.attributes)
    return "it sums no rows, columns or positions of a product"


def shifted_sums(random):
    a, b = extents(random, 2)
    yield node("reduce", node("add", given("x", a, b + 1), given("c", a, 1)), combine="add", axes=(1,))
    yield node("reduce", node("sub", given("x", a, b + 1), given("c", a, 1)), combine="add", axes=(1,))


@rule_on("reduce", family="linearity", numeric="reassociates", examples=shifted_sums)
def draw_out_summand(n, view):
    """The sum of x + c is the sum of x, plus as often c, when c is the same for all that is summed."""
    (x,) = n.args
    axes = n.attributes["axes"]
    if n.attributes["combine"] != "add" or x.op not in ("add", "sub"):
        return "it is no sum of sums"
    rest, c = x.args
    if rest.type.shape != x.type.shape:
        rest, c = (c, rest) if x.op == "add" else (rest, c)
    own = (1,) * (x.type.rank - c.type.rank) + c.type.shape
    if rest.type.shape != x.type.shape or any(own[a] != 1 for a in axes):
        return "no summand is the same for all that is summed"
    count = prod(x.type.shape[a] for a in axes)
    if upper(count) > ends(c.type.dtype)[1]:
        return "it is summed more often than its type can count"
    often = node("mul", c, as_number(count, c.type.dtype))
    return node(x.op, node("reduce", rest, **n.attributes), often)


def negated_rows(random):
    yield node(
        "reduce", node("neg", given("x", *extents(random, 1), 3)), combine=random.choice(["add", "max"]), axes=(1,)
    )


@rule_on("reduce", family="linearity", numeric="reassociates", examples=negated_rows)
def reduce_before_negation(n, view):
    """The sum of -x is minus the sum of x; the greatest -x is minus the least x."""
    (x,) = n.args
    opposite = {"add": "add", "max": "min", "min": "max"}.get(n.attributes["combine"])
    if x.op != "neg" or opposite is None or x.type.dtype not in ("f16", "bf16", "f32", "f64"):
        return "it reduces no negation"
    return node("neg", node("reduce", *x.args, combine=opposite, axes=n.attributes["axes"]))


def scaled_extremes(random):
    a, b = extents(random, 2)
    scale = constant(np.array(random.choice([0.5, 2.0, 3.0])))
    yield node("reduce", node("mul", given("x", a, b + 1), scale), combine=random.choice(["max", "min"]), axes=(1,))


@rule_on("reduce", family="linearity", numeric="reassociates", examples=scaled_extremes)
def draw_out_positive_factor(n, view):
    """The greatest x*s is the greatest x, times s, for one constant s >= 0."""
    (x,) = n.args
    if n.attributes["combine"] not in ("max", "min") or x.op != "mul":
        return "it is no extreme of products"
    for s, rest in (x.args, x.args[::-1]):
        value = uniform(s)
        is_one = value is not None and s.type.elements == 1 and rest.type.shape == x.type.shape
        if is_one and 0 <= value < np.inf and x.type.dtype[0] == "f":
            return node("mul", node("reduce", rest, **n.attributes), s)
    return "no factor is one constant that is not negative"


def shifted_rows(random):
    x = given("x", *extents(random, 1), 3, dtype=random.choice(["i32", "u8", "i64"]))
    k = constant(np.array(random.randint(0, 3), x.type.dtype.replace("i", "int").replace("u8", "uint8")))
    yield node("reduce", node("shl", x, k), combine="add", axes=(1,))


@rule_on("reduce", family="linearity", examples=shifted_rows)
def sum_before_shift(n, view):
    """The sum of x << k is the sum of x, << k, when k is the same for all (DNNFusion, table 4)."""
    (x,) = n.args
    if n.attributes["combine"] != "add" or x.op != "shl" or x.args[1].type.elements != 1:
        return "it is no sum of shifted numbers"
    if x.args[0].type.shape != x.type.shape:
        return "its axes are not those of the numbers"
    return node("shl", node("reduce", x.args[0], **n.attributes), x.args[1])


def exponential_rows(random):
    x = node("mul", given("x", *extents(random, 1), 3), constant(np.array(0.3)))
    yield node("reduce", node("exp", x), combine="mul", axes=(1,))


@rule_on("reduce", family="homomorphism", numeric="approximates", examples=exponential_rows)
def product_of_exponentials(n, view):
    """The product of exp(x) is exp of the sum of x (DNNFusion, table 4); a partial product may have overflowed."""
    (x,) = n.args
    if n.attributes["combine"] != "mul" or x.op != "exp":
        return "it is no product of exponentials"
    return node("exp", node("reduce", *x.args, combine="add", axes=n.attributes["axes"]))


def enlarged_pictures(random):
    x = given("x", 1, 2, 3, 3)
    at = [constant(np.array(positions)) for positions in ([0, 0, 1, 1, 2, 2], [0, 1, 1, 2, 2, 2])]
    parts = [node("mul", node("gather", x, p, axis=2), fixed(random, 1, 1, 6, 1)) for p in at]
    w = fixed(random, random.choice([1, 2]), 2, 1, 1)
    yield node("conv", node("add", *parts), w, **PLAIN)
    rows = node("broadcast", node("reshape", x, shape=(1, 2, 3, 1, 3)), shape=(1, 2, 3, 2, 3))
    yield node("conv", node("reshape", rows, shape=(1, 2, 6, 3)), w, **PLAIN)


@rule_on("conv", family="linearity", numeric="reassociates", examples=enlarged_pictures)
def mix_before_enlarging(n, view):
    """A convolution of one position after an interpolation is one before it, where there are fewer positions."""
    x, w = n.args
    if set(w.type.shape[2:]) != {1} or set(n.attributes["strides"]) != {1} or n.attributes["groups"] != 1:
        return "it is no convolution of one position"
    source = _enlarged_from(x, _REACH)
    if source is None or source.type.elements >= x.type.elements:
        return "its operand is not enlarged from one smaller picture"
    mixed = node("conv", source, w, **n.attributes)
    return _enlarged_like(x, source, mixed)


#: How many steps an interpolation may have.
_REACH = 12


def _enlarged_from(x, reach):
    """The one picture that ``x`` is a combination of, position by position, all channels alike; or None."""
    while reach:
        reach -= 1
        if x.op == "gather" and x.attributes["axis"] >= 2 and x.args[1].is_const and x.args[1].type.rank == 1:
            return _deepest(x.args[0], reach)
        if x.op == "mul" and is_static(x.args[1]) and _same_for_channels(x.args[1], x.type.rank):
            x = x.args[0]
        elif x.op == "add":
            first, second = (_enlarged_from(a, reach) for a in x.args)
            return first if first is second else None
        elif x.op == "reshape" and x.args[0].op == "broadcast" and x.args[0].args[0].op == "reshape":
            y = x.args[0].args[0].args[0]
            kept = x.args[0].type.shape[:2] == x.type.shape[:2] == y.type.shape[:2]
            return (
                y
                if kept and x.args[0].args[0].type.shape[:2] == y.type.shape[:2] and y.type.rank == x.type.rank
                else None
            )
        else:
            return None
    return None


def _deepest(x, reach):
    return _enlarged_from(x, reach) or x


def _same_for_channels(s, rank):
    return varies_only(s, rank, *range(2, rank))


def _enlarged_like(x, source, mixed):
    """The enlargement that makes ``x`` of ``source``, applied to ``mixed``."""
    if x is source:
        return mixed
    if x.op == "reshape":
        spread, single = x.args[0], x.args[0].args[0]
        channels = mixed.type.shape[1]
        shapes = [(m.type.shape[0], channels, *m.type.shape[2:]) for m in (single, spread, x)]
        inner = _enlarged_like(single.args[0], source, mixed)
        wide = node("broadcast", node("reshape", inner, shape=shapes[0]), shape=shapes[1])
        return node("reshape", wide, shape=shapes[2])
    if x.op == "add":
        return node("add", *(_enlarged_like(a, source, mixed) for a in x.args))
    return node(x.op, _enlarged_like(x.args[0], source, mixed), x.args[1], **x.attributes)
