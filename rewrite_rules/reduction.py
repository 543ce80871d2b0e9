"""Reductions of reductions, and what can be drawn out of them."""

from math import prod

from edgec.ir.types import FLOATS
from edgec.ops import node
from edgec.rewrite import rule_on
from edgec.rewrite.measure import covers_everything
from edgec.rewrite.sample import extents, fixed, given
from edgec.rewrite.shape import varies_only


def reduced_twice(random):
    x = given("x", *extents(random, 3))
    combine = random.choice(["add", "max", "min"])
    first, second = random.sample(range(3), 2)
    yield node("reduce", node("reduce", x, combine=combine, axes=(first,)), combine=combine, axes=(second,))


@rule_on("reduce", family="reduction", numeric="reassociates", examples=reduced_twice)
def join_reductions(n, view):
    """A reduction of a reduction is one reduction over the dimensions of both."""
    (x,) = n.args
    if x.op != "reduce" or x.attributes["combine"] != n.attributes["combine"]:
        return "its operand is no reduction of its kind"
    axes = sorted({*x.attributes["axes"], *n.attributes["axes"]})
    return node("reduce", x.args[0], combine=n.attributes["combine"], axes=axes)


def whole_windows(random):
    x = given("x", *extents(random, 4))
    kernel = x.type.shape[2:]
    yield node("pool", x, combine=random.choice(["add", "max"]), kernel=kernel, strides=kernel, dilations=(1, 1))


@rule_on("pool", family="reduction", numeric="reassociates", examples=whole_windows)
def reduce_instead_of_pooling(n, view):
    """A pool with one window over everything is a reduction."""
    (x,) = n.args
    kernel = n.attributes["kernel"]
    if not covers_everything(n):
        return "its window is not the whole of the dimensions"
    axes = range(x.type.rank - len(kernel), x.type.rank)
    return node("reduce", x, combine=n.attributes["combine"], axes=axes)


#: Elements of a window from which on two passes over memory cost less than one whose sums are as long.
LARGE = 49
SIZES = ("kernel", "strides", "dilations")


def large_windows(random):
    x = given("x", 1, random.randint(1, 3), *(random.randint(13, 16) for _ in range(2)))
    strides, dilations = (random.choice([1, 2]), random.choice([1, 2])), (random.choice([1, 2]), 1)
    yield node("pool", x, combine=random.choice(["add", "max"]), kernel=(7, 7), strides=strides, dilations=dilations)
    steps = {"kernel": (1, 7, 7), "strides": (2, 1, 1), "dilations": (1, 1, 1)}
    yield node("pool", given("x", 1, 1, 5, 13, 14), combine="max", **steps)


@rule_on("pool", family="reduction", numeric="reassociates", examples=large_windows)
def separate_windows(n, view):
    """A pool with large windows is one along rows, then one along columns: 13 x 13 elements are 13 + 13."""
    kernel = n.attributes["kernel"]
    if prod(kernel) < LARGE:
        return "its windows are small"
    (x,) = n.args
    first = max(d for d, extent in enumerate(kernel) if extent > 1)
    for passed in ({first}, {*range(len(kernel))} - {first}):
        own = {name: tuple(v if d in passed else 1 for d, v in enumerate(n.attributes[name])) for name in SIZES}
        x = node("pool", x, combine=n.attributes["combine"], **own)
    return x


def scaled_sums(random):
    a, b, c = extents(random, 3)
    x = given("x", a, b + 1, c + 1)
    yield node("reduce", node("mul", x, given("s", a, 1, 1)), combine="add", axes=(1, 2))
    yield node("reduce", node("mul", fixed(random, 1, c + 1), x), combine="add", axes=(1,))
    pooled = node("mul", given("x", 1, 4, 4), fixed(random, 1, 1))
    yield node("pool", pooled, combine="add", kernel=(2, 2), strides=(2, 2), dilations=(1, 1))


@rule_on("reduce", "pool", family="reduction", numeric="reassociates", examples=scaled_sums)
def draw_out_factor(n, view):
    """The sum of x*s is the sum of x, times s, when s is the same for all that is summed."""
    (x,) = n.args
    if n.attributes["combine"] != "add" or x.op != "mul":
        return "it is no sum of products"
    rank = n.type.rank
    axes = n.attributes["axes"] if n.op == "reduce" else range(rank - len(n.attributes["kernel"]), rank)
    kept = [d for d in range(rank) if d not in axes]
    for factor, rest in (x.args, x.args[::-1]):
        if varies_only(factor, rank, *kept) and rest.type.shape == x.type.shape:
            return node("mul", node(n.op, rest, **n.attributes), factor)
    return "no factor is the same for all that is summed"


def offset_extremes(random):
    a, b = extents(random, 2)
    x = given("x", a, b + 1)
    yield node("reduce", node("add", x, given("c", a, 1)), combine=random.choice(["max", "min"]), axes=(1,))


@rule_on("reduce", family="reduction", numeric="reassociates", examples=offset_extremes)
def draw_out_addend(n, view):
    """The greatest x + c is the greatest x, plus c, when c is the same for all that are compared."""
    (x,) = n.args
    if n.attributes["combine"] not in ("max", "min") or x.op != "add":
        return "it is no extreme of sums"
    if x.type.dtype not in FLOATS:
        return "integers may wrap around"
    kept = [d for d in range(n.type.rank) if d not in n.attributes["axes"]]
    for addend, rest in (x.args, x.args[::-1]):
        if varies_only(addend, n.type.rank, *kept) and rest.type.shape == x.type.shape:
            return node("add", node(n.op, rest, **n.attributes), addend)
    return "no addend is the same for all that are compared"
