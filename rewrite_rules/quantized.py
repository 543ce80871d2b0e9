"""Quantized arithmetic by linearity: products and sums of (q - zero) * scale are sums of integers, offset and scaled.

A zero point is an offset and a scale is a factor, so both come out of whatever is linear: offsets meet constant
weights and become one number a channel, scales become one factor behind the sum, and what is left in front of it are
casts of narrow integers, which is what machines multiply fastest.
"""

import numpy as np

from edgec.ir.graph import constant
from edgec.ir.types import ends
from edgec.ops import node
from edgec.rewrite import rule_on
from edgec.rewrite.affine import NARROW, affine, integers, plus, value_of, widened
from edgec.rewrite.facts import is_known, is_static
from edgec.rewrite.sample import bytes_of, dequantized, given
from edgec.rewrite.shape import reshaped, varies_only

PLAIN = {"strides": (1, 1), "dilations": (1, 1)}


def quantized_products(random):
    dtype = random.choice(["f32", "f64"])
    x = dequantized(random, given("x", 1, 4, 5, 4, dtype=random.choice(["u8", "i8"])), dtype=dtype)
    padded = node("pad", x, before=(0, 0, 1, 0), after=(0, 0, 1, 2), value=0.0)
    w = dequantized(random, bytes_of(random, 6, 4, 3, 2), 6, 1, 1, 1, zero=0, dtype=dtype)
    yield node("conv", padded, w, **PLAIN)
    w = dequantized(random, bytes_of(random, 4, 1, 3, 2, dtype="u8"), dtype=dtype)
    yield node("conv", padded, w, groups=4, **PLAIN)
    a, b = given("a", 2, 3, 4, dtype="u8"), given("b", 4, 3, dtype="i8")
    rows, columns = dequantized(random, a), dequantized(random, b)
    yield node("matmul", rows, columns)
    yield node("matmul", rows, dequantized(random, bytes_of(random, 4, 5), 1, 5, zero=0))
    yield node("matmul", dequantized(random, bytes_of(random, 2, 3), 2, 1), node("slice", rows, **_FIRST))
    shifted = node("sub", widened(a), constant(np.array(128, np.int32)))
    yield node("matmul", shifted, widened(bytes_of(random, 4, 2)))


_FIRST = {"starts": (0, 0, 0), "steps": (1, 1, 1), "shape": (2, 3, 2)}


@rule_on("conv", "matmul", family="quantization", numeric="reassociates", examples=quantized_products)
def multiply_integers(n, view):
    """sum((q - z)*s * (r - y)*t) = (sum(q*r) - z*sum(r) - y*sum(q) + z*y)*s*t: products of the integers alone."""
    if n.type.dtype not in ("f32", "f64", "i32"):
        return f"sums of {n.type.dtype} are not made of integers"
    x, w = map(affine, n.args)
    if x is None or w is None:
        return "the operands do not stand for narrow integers"
    if n.type.dtype == "i32" and all(_is_plain(a) or _is_number(a) for a in n.args):
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


def _is_number(operand):
    """It is one constant, which is folded however narrow it is."""
    return operand.is_const and operand.type.elements == 1


def _convolved(n, x, w):
    rank = n.type.rank
    if not is_known(w.q) or x.offset is None or (x.scale is not None and x.scale.type.elements != 1):
        return "the weights are not constant, or the scale varies over what is summed"
    columns = constant(w.zero)
    if not varies_only(columns, rank, 0) or (w.scale is not None and not varies_only(w.scale, rank, 0)):
        return "the scale of the weights varies over what is summed"
    values = value_of(w.q).astype(np.int64) - w.zero
    if not _fits(x, values, values[0].size):
        return "the sum may leave 32 bits"
    total = node("conv", widened(x.q), widened(integers(values)), **n.attributes)
    offset = -x.offset * values.reshape(len(values), -1).sum(axis=1)
    total = plus(total, offset.reshape(1, -1, *(1,) * (rank - 2)))
    own = None if w.scale is None else reshaped(w.scale, (1, w.scale.type.elements, *(1,) * (rank - 2)))
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
        values = value_of(factor.q).astype(np.int64) - factor.zero if is_known(factor.q) else None
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
    return plus(total, -(spread @ values if known == 1 else values @ spread)), scale


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
    return plus(total, np.array(terms * x.offset * w.offset)), scale


def _extent(shape, d):
    return shape[d] if len(shape) >= -d else 1


def _fits(moving, values, terms):
    """Is every sum of ``terms`` products, with and without zero points, within 32 bits?"""
    if integers(values) is None:
        return False
    low, high = ends(moving.q.type.dtype)
    size = max(high, -low) + int(np.abs(moving.zero).max(initial=0))
    return size * int(np.abs(values).max(initial=0)) * terms < 2**31


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
    columns = np.array([[random.randint(-128, 127) + 80 * (k % 3 - 1) for k in range(5)] for _ in range(9)])
    yield node("matmul", widened(given("x", 3, 9, dtype="u8")), widened(constant(columns.astype(np.int16))))
    v = constant(columns.T.reshape(5, 9, 1, 1).astype(np.int16))
    yield node("conv", widened(given("p", 2, 9, 5, 5, dtype="u8")), widened(v), **PLAIN)


@rule_on("conv", "matmul", family="quantization", examples=wide_weights)
def shift_the_weights(n, view):
    """sum(x*(w + d)) = sum(x*w) + d*sum(x): weights of nine bits are weights of eight, and a sum.

    There is one d, or one for each column or output channel, as the zero points of weights are.
    """
    x, w = n.args
    if n.type.dtype != "i32" or not is_known(w) or not _is_plain(w) or not _is_plain(x):
        return "it does not multiply by constant integers"
    values = value_of(w.args[0]).astype(np.int64)
    middle = _middle(n, values)
    if w.args[0].type.dtype in ("i8", "u8") or middle is None or n.attributes.get("groups", 1) != 1:
        return "the weights do not fit into a byte"
    total = node(n.op, x, widened(constant((values - middle).astype(np.int8))), **n.attributes)
    axis = 1 if n.op == "conv" else x.type.rank - 1
    sums = node("reduce", x, combine="add", axes=(axis,))
    if n.op == "conv" and set(w.type.shape[2:]) != {1}:
        windows = {k: n.attributes[k] for k in ("strides", "dilations")}
        sums = node("pool", sums, combine="add", kernel=w.type.shape[2:], **windows)
    elif n.op == "conv" and set(n.attributes["strides"]) != {1}:
        return "it leaves positions out"
    own = middle.reshape(1, -1, *(1,) * (n.type.rank - 2)) if n.op == "conv" and middle.ndim else middle
    return node("add", total, node("mul", sums, constant(own.astype(np.int32))))


def _middle(n, values):
    """Numbers to subtract from weights, one or one a column or channel, so that bytes hold them; or None."""
    summed = -2 if n.op == "matmul" else tuple(range(1, values.ndim))
    for axes, keep in ((None, False), (summed, True)):
        middle = np.asarray(values.min(axis=axes, keepdims=keep) + 128)
        if (values - middle).max() <= 127:
            return middle
    return None


def centered_by_inputs(random):
    x, z = given("x", 4, 6, dtype="u8"), node("cast", given("z", 1, dtype="u8"), to="i32")
    centered = node("sub", widened(x), z)
    yield node("matmul", centered, widened(bytes_of(random, 6, 5)))
    unsigned = widened(bytes_of(random, 6, 5, dtype="u8"))
    yield node("matmul", centered, node("sub", unsigned, constant(np.array(random.randint(1, 255), np.int32))))
    flat = node("reshape", centered, shape=(1, 3, 4, 2))
    yield node("conv", flat, widened(bytes_of(random, 6, 3, 2, 2)), **PLAIN)
    around = {k: (0, 0, *(random.randint(0, 2) for _ in range(2))) for k in ("before", "after")}
    steps = {k: tuple(random.randint(1, 2) for _ in range(2)) for k in ("strides", "dilations")}
    padded = node("pad", node("reshape", centered, shape=(1, 2, 4, 3)), value=0, **around)
    yield node("conv", padded, widened(bytes_of(random, 6, 2, 2, 2)), **steps)
    yield node("conv", padded, widened(bytes_of(random, 4, 1, 2, 2)), groups=2, **steps)


@rule_on("conv", "matmul", family="quantization", examples=centered_by_inputs)
def draw_out_zero_point(n, view):
    """sum((q - z)*w) = sum(q*w) - z*sum(w): a zero point that only run time knows meets sums of the weights.

    Padding adds nothing to either sum, so that the weights that are summed depend on the position.
    """
    x, w = n.args
    chain = []
    while x.op in ("reshape", "transpose") or (n.op == "conv" and not chain and _is_zero_padding(x)):
        chain.append(x)
        x = x.args[0]
    if n.type.dtype != "i32" or not is_static(w) or x.op != "sub" or not _is_plain(x.args[0]):
        return "nothing is taken off the operand, or the weights are not constant"
    weights = affine(w)
    if weights is None or weights.scale is not None:
        return "the weights are not narrow integers"
    values = value_of(weights.q).astype(np.int64) - weights.zero
    narrow = integers(values)
    if narrow is None:
        return "the weights are not narrow integers"
    q, z = x.args
    if z.type.elements != 1:
        return "there are several zero points"
    for step in reversed(chain):
        q = node(step.op, q.args[0], **step.attributes)
        q = widened(q)
    product = node(n.op, q, widened(narrow), **n.attributes)
    if n.op == "conv":
        return node("sub", product, _times_weights_inside(n, chain, values, z))
    sums = constant(values.sum(axis=-2, keepdims=True).astype(np.int32))
    return node("sub", product, node("mul", sums, reshaped(z, ())))


def both_centered(random):
    x, w = given("x", 2, 3, 5, dtype="u8"), given("w", 5, 4, dtype=random.choice(["u8", "i8"]))
    z, y = (node("cast", given(name, 1, dtype=q.type.dtype), to="i32") for name, q in (("z", x), ("y", w)))
    centered = node("sub", widened(x), z)
    yield node("matmul", centered, node("sub", widened(w), y))
    yield node("matmul", centered, widened(w))
    turned = node("transpose", node("sub", widened(given("v", 2, 4, 5, dtype="u8")), z), perm=(0, 2, 1))
    yield node("matmul", widened(x), turned)


@rule_on("matmul", family="quantization", examples=both_centered)
def draw_out_both_zero_points(n, view):
    """sum((q - z)*(r - y)) = sum(q*r) - z*sum(r) - y*sum(q) + z*y*K: of two operands that only run time knows."""
    terms = n.args[0].type.shape[-1]
    if n.type.dtype != "i32" or not isinstance(terms, int) or any(map(is_static, n.args)):
        return "an operand is constant, or the length of the sum is not known"
    sides = [_centered(a) for a in n.args]
    if None in sides or not any(z for _, z in sides):
        return "the operands are not narrow integers less a zero point each"
    (q, z), (r, y) = sides
    total = node("matmul", q, r)
    for values, other, axis in ((r, z, -2), (q, y, -1)):
        if other is not None:
            sums = node("reduce", values, combine="add", axes=(values.type.rank + axis,))
            total = node("sub", total, node("mul", sums, other))
    if z is None or y is None:
        return total
    return node("add", total, node("mul", node("mul", z, y), constant(np.array(terms, np.int32))))


def _centered(x):
    """(widened integers, what is taken off all of them or None), with movement on the integers; None for others."""
    chain = []
    while x.op in ("reshape", "transpose"):
        chain.append(x)
        x = x.args[0]
    zero = None
    if x.op == "sub" and x.args[1].type.elements == 1 and x.args[0].type.shape == x.type.shape:
        x, zero = x.args[0], reshaped(x.args[1], ())
    if not _is_plain(x):
        return None
    q = x.args[0]
    for step in reversed(chain):
        q = node(step.op, q, **step.attributes)
    return widened(q), zero


def _is_zero_padding(x):
    """It pads the positions of pictures with 0."""
    return (
        x.op == "pad"
        and x.attributes["value"] == 0
        and not any((*x.attributes["before"][:2], *x.attributes["after"][:2]))
    )


def _times_weights_inside(n, chain, values, z):
    """z times the sum of the weights that read no padding, for every output; equal positions share their sums.

    ``values`` are the weights [outputs, channels, taps..], ``chain`` the movements of the operand, the last one first.
    """
    padding = chain[0].attributes if chain and chain[0].op == "pad" else None
    rank = n.type.rank
    places = []
    sums = values.sum(axis=1)
    for d in range(2, rank):
        inside, place = _taps_inside(n, padding, d)
        sums = np.tensordot(sums, inside, ([1], [1]))  # the last dimension is that of the positions now
        places.append(place)
    total = node("mul", constant(sums[None].astype(np.int32)), reshaped(z, ()))
    for d, place in enumerate(places, 2):
        if place.any():
            total = node("gather", total, constant(place), axis=d)
    return total


def _taps_inside(n, padding, d):
    """(masks [kinds of positions, taps], the kind of every output position) of one dimension of a convolution."""
    x, w = n.args
    taps = np.arange(w.type.shape[d]) * n.attributes["dilations"][d - 2]
    read = np.arange(n.type.shape[d])[:, None] * n.attributes["strides"][d - 2] + taps
    before, after = (padding[k][d] for k in ("before", "after")) if padding else (0, 0)
    inside = (read >= before) & (read < x.type.shape[d] - after)
    masks, place = np.unique(inside, axis=0, return_inverse=True)
    return masks.astype(np.int64), place.reshape(-1)
