"""Data movement is exchanged with the element-wise work after it: f(move(x)) = move(f(x)).

Element-wise work then follows the operator that computes its operand, where it can be folded into weights or fused, and
movements become neighbors, which can cancel.
"""

import numpy as np

from edgec.ir.functions import FUNCTIONS
from edgec.ir.graph import constant
from edgec.ir.types import DTYPES
from edgec.ops import node
from edgec.ops.elementwise import broadcast_shape
from edgec.rewrite import rule_on
from edgec.rewrite.facts import is_static, uniform
from edgec.rewrite.sample import extents, fixed, given, permutation, positions_in
from edgec.rewrite.shape import aligned, blocks, inverse, reshaped, through_reshape

#: Movements that neither drop nor add elements that have to be computed with.
MOVEMENTS = ("reshape", "transpose", "broadcast")


def unary_on_moved(random):
    a, b, c = extents(random, 3)
    x = given("x", a, b, c)
    yield node("exp", node("transpose", x, perm=permutation(random, 3)))
    yield node("neg", node("reshape", x, shape=(a, 1, b * c)))
    yield node("cast", node("reshape", x, shape=(a * b, c)), to="f32")
    yield node("abs", node("broadcast", x, shape=(2, a, b, c)))


@rule_on(*FUNCTIONS, "cast", family="sinking", examples=unary_on_moved)
def sink_below_function(n, view):
    """f(move(x)) = move(f(x))."""
    if len(n.args) != 1:
        return "it has several operands"
    (moved,) = n.args
    if moved.op not in MOVEMENTS:
        return "its operand is not moved"
    inner = node(n.op, *moved.args, **n.attributes)
    return node(moved.op, inner, **moved.attributes)


def constant_on_moved(random):
    a, b, c = extents(random, 3)
    x = given("x", a, b, c)
    perm = permutation(random, 3)
    turned = node("transpose", x, perm=perm)
    yield node("add", turned, fixed(random, *(turned.type.shape[1:] if random.random() < 0.5 else turned.type.shape)))
    yield node("sub", fixed(random, turned.type.shape[2]), turned)
    flat = node("reshape", x, shape=(a, b * c))
    yield node("mul", flat, fixed(random, a, 1))
    yield node("max", flat, fixed(random, b * c))
    yield node("pow", node("reshape", flat, shape=(a, b, c)), fixed(random))
    yield node("add", node("broadcast", x, shape=(2, a, b, c)), fixed(random, b, 1))
    pixels = node("transpose", x, perm=(1, 2, 0))
    yield node("mul", pixels, node("reshape", given("gate", a, 1, 1), shape=(1, 1, a)))


@rule_on(*FUNCTIONS, family="sinking", examples=constant_on_moved)
def sink_below_constant(n, view):
    """f(move(x), c) = move(f(x, c moved back)) for a constant c, or one that is moved back by a reshape."""
    if len(n.args) != 2:
        return "it has not two operands"
    for k, moved in enumerate(n.args):
        other = n.args[1 - k]
        if moved.op in MOVEMENTS and moved.type.shape == n.type.shape and (is_static(other) or other.op == "reshape"):
            (x,) = moved.args
            back = _moved_back(moved, other)
            if back is not None and back.op == "transpose" and not is_static(other):
                if sum(e > 1 for e in back.type.shape) > 1:
                    return "the other operand would have to be transposed"
                back = reshaped(other.args[0], back.type.shape)
            if back is None or broadcast_shape(x.type.shape, back.type.shape) != x.type.shape:
                return "the constant varies along what the movement takes apart"
            inner = node(n.op, *((back, x) if k else (x, back)))
            return node(moved.op, inner, **moved.attributes)
    return "no operand is moved and meets a constant"


def _moved_back(moved, other):
    """``other``, which broadcasts to the result of ``moved``, as it broadcasts to the operand of ``moved``."""
    (x,) = moved.args
    if moved.op == "reshape":
        return through_reshape(other, moved.type.shape, x.type.shape)
    if other.type.elements == 1:
        return reshaped(other, ())
    if moved.op == "transpose":
        return node("transpose", aligned(other, moved.type.rank), perm=inverse(moved.attributes["perm"]))
    rank = x.type.rank
    if other.type.rank > rank and set(other.type.shape[: other.type.rank - rank]) != {1}:
        return None
    return reshaped(other, other.type.shape[max(other.type.rank - rank, 0) :])


def functions_of_gathered(random):
    a, b = extents(random, 2)
    positions = positions_in(random, b, 3 * b)
    repeated = node("gather", given("x", a, b), positions, axis=1)
    yield node("exp", repeated)
    yield node("mul", repeated, constant(np.array(random.choice([0.75, -2.0]))))
    yield node("add", repeated, constant(np.full((1, 1), 0.5)))
    yield node("cast", repeated, to="f32")


@rule_on(*FUNCTIONS, "cast", family="sinking", examples=functions_of_gathered)
def compute_before_gathering(n, view):
    """f(gather(x)) = gather(f(x)), with numbers: what is taken several times is computed once."""
    g = next((a for a in n.args if a.op == "gather"), None)
    if g is None or g.type.shape != n.type.shape or any(a is not g and uniform(a) is None for a in n.args):
        return "its operands are not gathered, and numbers"
    numbers = {a: constant(np.array(uniform(a), DTYPES[a.type.dtype])) for a in n.args if a is not g}
    inner = node(n.op, *(g.args[0] if a is g else numbers[a] for a in n.args), **n.attributes)
    return node("gather", inner, g.args[1], **g.attributes)


def both_moved(random):
    a, b, c = extents(random, 3)
    x, y = given("x", a, b, c), given("y", a, b, c)
    perm = permutation(random, 3)
    yield node("mul", node("transpose", x, perm=perm), node("transpose", y, perm=perm))
    yield node("sub", node("reshape", x, shape=(a * b, c)), node("reshape", y, shape=(a * b, c)))
    yield node("add", node("broadcast", x, shape=(2, a, b, c)), node("broadcast", y, shape=(2, a, b, c)))


@rule_on(*FUNCTIONS, family="sinking", examples=both_moved)
def sink_below_pair(n, view):
    """f(move(x), move(y)) = move(f(x, y))."""
    if len(n.args) != 2:
        return "it has not two operands"
    a, b = n.args
    if a.op not in MOVEMENTS or a.op != b.op or a.attrs != b.attrs:
        return "its operands are not moved alike"
    if a.args[0].type.shape != b.args[0].type.shape:
        return "its operands are moved from different shapes"
    return node(a.op, node(n.op, a.args[0], b.args[0]), **a.attributes)


def gates_of_moved(random):
    a, b, c = (e + 1 for e in extents(random, 3))
    moved = node("transpose", given("x", a, b, c), perm=random.choice([(0, 2, 1), (2, 0, 1)]))
    slope = fixed(random, *moved.type.shape[1:])
    yield node("mul", moved, node("exp", node("add", node("mul", moved, slope), fixed(random))))
    flat = node("reshape", given("x", a, b, c), shape=(a * b, c))
    yield node("sub", node("tanh", flat), flat)


@rule_on(*FUNCTIONS, family="sinking", examples=gates_of_moved)
def sink_below_gate(n, view):
    """f(move(x), g(move(x))) = move(f(x, g(x))), for any element-wise g with constants: activations move at once."""
    if len(n.args) < 2 or all(a.op in MOVEMENTS for a in n.args):
        return "its operands are not computed from one another"
    moved = _first_moved(n, _DEEPEST)
    if moved is None or moved.op == "broadcast" or moved.type.shape != n.type.shape:
        return "nothing it is computed from is moved"
    unmoved = _unmoved(n, moved, _DEEPEST)
    if unmoved is None or unmoved.type.shape != moved.args[0].type.shape:
        return "it is computed from something else too"
    return node(moved.op, unmoved, **moved.attributes)


#: How many functions one after another are looked through.
_DEEPEST = 8


def _first_moved(n, depth):
    for a in n.args:
        if a.op in MOVEMENTS:
            return a
        found = _first_moved(a, depth - 1) if depth and a.op in FUNCTIONS else None
        if found is not None:
            return found
    return None


def _unmoved(n, moved, depth):
    """``n`` computed from the operand of ``moved`` instead; None where it takes more than constants beside that."""
    if n.op == moved.op and n.attrs == moved.attrs and n.args[0].type.shape == moved.args[0].type.shape:
        return n.args[0]
    if is_static(n):
        back = _moved_back(moved, n)
        shape = moved.args[0].type.shape
        return back if back is not None and broadcast_shape(shape, back.type.shape) == shape else None
    if n.op not in FUNCTIONS or not depth or n.type.shape != moved.type.shape:
        return None
    args = [_unmoved(a, moved, depth - 1) for a in n.args]
    return None if None in args else node(n.op, *args)


def reduced_after_moving(random):
    a, b, c = (n + 1 for n in extents(random, 3))
    x = given("x", a, b, c)
    combine = random.choice(["max", "min"])
    yield node("reduce", node("transpose", x, perm=(2, 0, 1)), combine=combine, axes=(0, 1))
    yield node("reduce", node("reshape", x, shape=(a, b * c)), combine=combine, axes=(1,))
    yield node("reduce", node("reshape", x, shape=(1, a, b, 1, c)), combine="add", axes=(2,))


@rule_on("reduce", family="sinking", numeric="reassociates", examples=reduced_after_moving)
def sink_below_reduction(n, view):
    """reduce(move(x)) = move(reduce(x)): less is moved afterwards."""
    (moved,) = n.args
    axes = n.attributes["axes"]
    if moved.op == "transpose":
        perm = moved.attributes["perm"]
        inner = node("reduce", *moved.args, combine=n.attributes["combine"], axes=sorted(perm[a] for a in axes))
        return node("transpose", inner, perm=perm)
    if moved.op != "reshape":
        return "its operand is not moved"
    (x,) = moved.args
    before = []
    for source, target in blocks(x.type.shape, moved.type.shape) or ():
        dims = [d for d in range(target.start, target.stop) if moved.type.shape[d] > 1]
        if any(d in axes for d in dims):
            if not all(d in axes for d in dims):
                return "it reduces a part of what the reshape keeps together"
            before += [d for d in range(source.start, source.stop) if x.type.shape[d] > 1]
    if not before:
        return "it reduces over nothing"
    return reshaped(node("reduce", x, combine=n.attributes["combine"], axes=before), n.type.shape)


def product_after_reshape(random):
    a, b, c = extents(random, 3)
    flat = node("reshape", given("x", a, b, c), shape=(a * b, c))
    yield node("matmul", flat, given("w", c, 3))
    yield node("matmul", node("reshape", given("x", a * b, c), shape=(b, a, c)), fixed(random, c, 2))


@rule_on("matmul", family="sinking", examples=product_after_reshape, numeric="reassociates")
def sink_below_product(n, view):
    """reshape(x) @ w = reshape(x @ w), when the rows stay rows: reshapes around a matrix product cancel."""
    moved, w = n.args
    if moved.op != "reshape" or w.type.rank != 2:
        return "the left operand is not reshaped, or there are several right ones"
    (x,) = moved.args
    if x.type.rank < 2 or x.type.shape[-1] != moved.type.shape[-1]:
        return "the reshape takes rows apart"
    return reshaped(node("matmul", x, w), n.type.shape)


def reshaped_products(random):
    a, b, c = (e + 1 for e in extents(random, 3))
    flat = node("reshape", given("x", a, b, c), shape=(a * b, c))
    product = node("matmul", flat, fixed(random, c, 3))
    yield node("reshape", product, shape=(b, a, 3))
    yield node("reshape", node("add", product, fixed(random, 3)), shape=(a, b, 3))
    x = given("y", a, b, 2, c)
    yield node(
        "reshape", node("matmul", node("reshape", x, shape=(a * b, 2 * c)), fixed(random, 2 * c, 3)), shape=(a, b, 3)
    )


@rule_on("reshape", family="sinking", numeric="reassociates", examples=reshaped_products)
def reshape_before_product(n, view):
    """reshape(reshape(x) @ w + b) = reshape(x) @ w + b, when the rows stay rows: one reshape does for both."""
    (y,) = n.args
    bias = None
    if y.op == "add" and is_static(y.args[1]) and y.args[0].type.shape == y.type.shape:
        y, bias = y.args
        if set(bias.type.shape[:-1]) - {1}:
            return "the bias varies over rows"
        bias = reshaped(bias, bias.type.shape[-1:])
    if y.op != "matmul" or y.args[0].op != "reshape" or y.args[1].type.rank != 2:
        return "it reshapes no product of something reshaped"
    moved, w = y.args
    if n.type.rank < 2 or n.type.shape[-1] != y.type.shape[-1]:
        return "the reshape takes rows apart"
    product = node("matmul", reshaped(moved.args[0], (*n.type.shape[:-1], w.type.shape[0])), w)
    return product if bias is None else node("add", product, bias)
