"""Products by what their operands are: weights that do nothing or only scale, one term, transposed, siblings."""

import numpy as np

from edgec.ir.graph import constant
from edgec.ir.index import lower
from edgec.ir.types import FLOATS
from edgec.ops import node
from edgec.rewrite import rule_on
from edgec.rewrite.facts import is_static
from edgec.rewrite.sample import extents, fixed, given
from edgec.rewrite.shape import reshaped

PLAIN = {"strides": (1, 1), "dilations": (1, 1)}


def identity_weights(random):
    k = random.randint(1, 4)
    yield node("matmul", given("x", *extents(random, 2), k), constant(np.eye(k)))
    yield node("conv", given("x", 1, k, 3, 3), constant(np.eye(k).reshape(k, k, 1, 1)), **PLAIN)


@rule_on("matmul", "conv", family="identity", numeric="reassociates", examples=identity_weights)
def multiply_by_identity(n, view):
    """A product with the identity matrix, or a convolution with it at one position."""
    x, w = n.args
    if not w.is_const or n.type != x.type:
        return "the weights are not constant, or the shape changes"
    if n.op == "conv" and (set(w.type.shape[2:]) - {1} or n.attributes["groups"] != 1):
        return "it is no convolution of one position"
    square = w.value.reshape(w.type.shape[:2]) if n.op == "conv" else w.value
    if square.ndim != 2 or not (np.diag(square) == 1).all() or np.count_nonzero(square) != len(square):
        return "the weights are no identity"
    return x


def diagonal_weights(random):
    k = random.randint(2, 4)
    yield node("matmul", given("x", 3, k), constant(np.diag(np.arange(1.0, k + 1))))
    yield node("conv", given("x", 1, k, 3, 3), fixed(random, k, 1, 1, 1), groups=k, **PLAIN)


@rule_on("matmul", "conv", family="linearity", numeric="reassociates", examples=diagonal_weights)
def scale_by_diagonal(n, view):
    """A product with a diagonal matrix, or a depthwise convolution of one position, is a scale."""
    x, w = n.args
    if n.op == "conv":
        one = set(w.type.shape[1:]) == {1} and set(n.attributes["strides"]) == {1}
        if not one or n.attributes["groups"] != w.type.shape[0] or n.type != x.type:
            return "it is no depthwise convolution of one position"
        return node("mul", x, reshaped(w, (w.type.shape[0], *(1,) * (w.type.rank - 2))))
    if not w.is_const or w.type.rank != 2 or n.type != x.type:
        return "the weights are no constant square matrix"
    diagonal = np.diag(w.value)
    if np.count_nonzero(w.value) != np.count_nonzero(diagonal):
        return "the weights are no diagonal matrix"
    return node("mul", x, constant(diagonal.copy()))


def scaled_rows(random):
    a, b = random.randint(1, 2), random.randint(2, 3)
    x, y = given("x", a, b, 9), given("y", a, b, 9)
    s, t = given("s", b, 1), given("t", a, 1, 1)
    turned = node("transpose", node("mul", y, s), perm=(0, 2, 1))
    yield node("matmul", node("mul", x, s), turned)
    yield node("matmul", node("div", x, node("exp", t)), node("transpose", y, perm=(0, 2, 1)))
    yield node("matmul", x, turned)
    yield node("matmul", x, node("mul", given("z", 9, 2), given("c", 1, 2)))


@rule_on("matmul", family="linearity", numeric="reassociates", examples=scaled_rows)
def scale_after_product(n, view):
    """(x*s)@(y*t) = (x@y)*s*t for factors s of rows and t of columns, where the results are fewer: a norm over pixels.

    The sum of a softmax stays where it is, as the kernel of attention divides by it after its product, and so does a
    constant, which joins others.
    """
    if n.type.dtype == "f16":
        return "a product of numbers that are not scaled could be too large"
    if not lower(n.args[0].type.shape[-1]):
        return "an empty sum is 0, whatever the factors are"
    if any(map(is_static, n.args)):
        return "the weights are constant, and a row is scaled while it is normalized"
    for k, operand in enumerate(n.args):
        rank = operand.type.rank
        turned = operand.op == "transpose" and operand.attributes["perm"] == _swap(rank)
        scaled = operand.args[0] if turned else operand
        if scaled.op not in ("mul", "div") or (scaled.op == "div" and n.type.dtype not in FLOATS):
            continue  # a sum of whole quotients is not that of the numbers, divided
        for x, s in (scaled.args, scaled.args[::-1])[: 2 if scaled.op == "mul" else 1]:
            lengths = (*(1,) * (rank - s.type.rank), *s.type.shape)
            summed = rank - 1 if turned == (k == 1) else rank - 2
            if x.type != scaled.type or lengths[summed] != 1 or is_static(s) or _unmoved(x).op == "exp":
                continue
            factor = reshaped(s, lengths)
            if turned:
                x, factor = (node("transpose", v, perm=_swap(rank)) for v in (x, factor))
            args = (x, n.args[1]) if k == 0 else (n.args[0], x)
            return node(scaled.op, node("matmul", *args), factor)
    return "neither operand is scaled row by row"


def _swap(rank):
    """The permutation that transposes matrices."""
    return (*range(rank - 2), rank - 1, rank - 2)


def _unmoved(n):
    while n.op in ("reshape", "transpose", "broadcast", "cast"):
        (n,) = n.args
    return n


def outer_products(random):
    a, b, c = extents(random, 3)
    yield node("matmul", given("x", a, b, 1), given("y", a, 1, c))


@rule_on("matmul", family="linearity", numeric="reassociates", examples=outer_products)
def multiply_instead_of_product(n, view):
    """A column times a row is a product by elements."""
    x, y = n.args
    return node("mul", x, y) if x.type.shape[-1] == 1 else "it sums over several terms"


def transposed_operands(random):
    a, b, c = (e + 1 for e in extents(random, 3))
    x, y = given("x", b, a), given("y", c, b)
    yield node("matmul", node("transpose", x, perm=(1, 0)), node("transpose", y, perm=(1, 0)))


@rule_on("matmul", family="transposition", numeric="reassociates", examples=transposed_operands)
def product_of_transposed(n, view):
    """x^T @ y^T = (y @ x)^T: one transposition for two."""
    x, y = n.args
    swap = (*range(n.type.rank - 2), n.type.rank - 1, n.type.rank - 2)
    if x.op != "transpose" or y.op != "transpose" or x.type.rank != y.type.rank:
        return "the operands are not both transposed"
    if x.attributes["perm"] != swap or y.attributes["perm"] != swap:
        return "the operands are transposed otherwise"
    return node("transpose", node("matmul", *y.args, *x.args), perm=swap)


def repeated_batches(random):
    a, b, c = (e + 1 for e in extents(random, 3))
    w = node("broadcast", given("w", 1, b, c), shape=(a, b, c))
    yield node("matmul", given("x", a, 3, b), w)


@rule_on("matmul", family="movement", examples=repeated_batches)
def drop_broadcast_matrix(n, view):
    """Products of matrices broadcast leading dimensions by themselves."""
    for k, x in enumerate(n.args):
        if x.op == "broadcast" and x.args[0].type.rank >= 2 and x.args[0].type.shape[-2:] == x.type.shape[-2:]:
            args = (*n.args[:k], x.args[0], *n.args[k + 1 :])
            found = node("matmul", *args)
            if found.type == n.type:
                return found
    return "no operand is repeated needlessly"


def sibling_products(random):
    x = given("x", 3, 4)
    parts = [node("matmul", x, fixed(random, 4, e)) for e in (2, 3)]
    yield node("concat", *parts, axis=1)
    p = given("p", 1, 2, 4, 4)
    yield node("concat", *(node("conv", p, fixed(random, e, 2, 2, 2), **PLAIN) for e in (1, 3)), axis=1)


@rule_on("concat", family="concatenation", numeric="reassociates", examples=sibling_products)
def stack_sibling_products(n, view):
    """Products of one operand side by side are one product with stacked weights."""
    first = n.args[0]
    axis, rank = n.attributes["axis"], n.type.rank
    if first.op not in ("matmul", "conv") or axis != (rank - 1 if first.op == "matmul" else 1):
        return "the parts are no products, or not side by side"
    if any(p.op != first.op or p.attrs != first.attrs or p.args[0] is not first.args[0] for p in n.args):
        return "the parts are not products of one operand"
    weights = [p.args[1] for p in n.args]
    if not all(map(is_static, weights)) or first.attributes.get("groups", 1) != 1:
        return "the weights are not constant, or in groups"
    along = 0 if first.op == "conv" else weights[0].type.rank - 1
    others = {(*w.type.shape[:along], *w.type.shape[along + 1 :]) for w in weights}
    if len(others) != 1:
        return "the kernels differ"
    return node(first.op, first.args[0], node("concat", *weights, axis=along), **first.attributes)
