"""Movements that do nothing, and movements of movements: one index map instead of two."""

import numpy as np

from edgec.ir.functions import FUNCTIONS
from edgec.ir.graph import constant
from edgec.ir.types import FLOATS, MINIFLOATS
from edgec.ops import node
from edgec.ops.elementwise import broadcast_shape
from edgec.rewrite import rule_on
from edgec.rewrite.sample import extents, few, given, permutation
from edgec.rewrite.shape import reshaped

# ---- movements that do nothing


def idle(random):
    x = given("x", *extents(random, 3))
    shape, none = x.type.shape, (0, 0, 0)
    yield node("reshape", x, shape=shape)
    yield node("transpose", x, perm=(0, 1, 2))
    yield node("broadcast", x, shape=shape)
    yield node("slice", x, starts=none, steps=(1, 1, 1), shape=shape)
    yield node("pad", x, before=none, after=none, value=1.0)
    yield node("cast", x, to="f64")


@rule_on("reshape", "transpose", "broadcast", "slice", "pad", "cast", family="identity", examples=idle)
def drop_idle_movement(n, view):
    """A movement that leaves every element where it is."""
    (x,) = n.args
    if n.type != x.type:
        return f"it turns {x.type} into {n.type}"
    if n.op == "transpose" and _moved(n.attributes["perm"], x.type.shape):
        return "dimensions change places"
    if n.op == "slice" and any(s < 0 and e > 1 for s, e in zip(n.attributes["steps"], x.type.shape)):
        return "it reverses a dimension"
    return x


def _moved(perm, shape):
    """Do dimensions of more than one element change their order?"""
    wide = [p for p in perm if shape[p] != 1]
    return wide != sorted(wide)


def single_elements(random):
    x = given("x", *extents(random, 2), 1, 1)
    yield node("reduce", x, combine="add", axes=(2, 3))
    yield node("pool", x, combine="max", kernel=(1, 1), strides=(1, 1), dilations=(1, 1))


@rule_on("reduce", "pool", family="identity", examples=single_elements)
def drop_reduction_of_one(n, view):
    """A reduction over one element is that element."""
    (x,) = n.args
    if n.op == "reduce" and any(x.type.shape[a] != 1 for a in n.attributes["axes"]):
        return "it reduces over several elements"
    if n.op == "pool" and (set(n.attributes["kernel"]) > {1} or n.type != x.type):
        return "its windows are not single elements"
    return x


# ---- movements of movements


def reshaped_twice(random):
    x = given("x", *few(random, 3))
    yield node("reshape", node("reshape", x, shape=x.type.shape[::-1]), shape=(1, x.type.elements))


@rule_on("reshape", family="movement", examples=reshaped_twice)
def join_reshapes(n, view):
    """A reshape of a reshape is one reshape."""
    (x,) = n.args
    if x.op != "reshape":
        return "its operand is no reshape"
    return reshaped(x.args[0], n.type.shape)


def transposed_twice(random):
    x = given("x", *extents(random, 3))
    yield node("transpose", node("transpose", x, perm=permutation(random, 3)), perm=permutation(random, 3))


@rule_on("transpose", family="movement", examples=transposed_twice)
def join_transposes(n, view):
    """A transpose of a transpose is one transpose."""
    (x,) = n.args
    if x.op != "transpose":
        return "its operand is no transpose"
    first = x.attributes["perm"]
    return node("transpose", x.args[0], perm=tuple(first[p] for p in n.attributes["perm"]))


def moved_units(random):
    a, b = extents(random, 2)
    yield node("transpose", given("x", a, 1, b, 1), perm=(3, 0, 1, 2))
    yield node("broadcast", given("x", a, b), shape=(1, 1, a, b))


@rule_on("transpose", "broadcast", family="movement", examples=moved_units)
def reshape_units(n, view):
    """Dimensions of one element are moved or added by a reshape, which costs nothing."""
    (x,) = n.args
    if n.op == "transpose" and _moved(n.attributes["perm"], x.type.shape):
        return "it moves dimensions of several elements"
    if n.type.elements != x.type.elements:
        return "it repeats elements"
    return reshaped(x, n.type.shape)


def broadcast_twice(random):
    a, b, c = extents(random, 3)
    yield node("broadcast", node("broadcast", given("x", b, 1), shape=(b, c)), shape=(a, b, c))


@rule_on("broadcast", family="movement", examples=broadcast_twice)
def join_broadcasts(n, view):
    """A broadcast of a broadcast is one broadcast."""
    (x,) = n.args
    return node("broadcast", x.args[0], **n.attributes) if x.op == "broadcast" else "its operand is no broadcast"


def broadcast_operands(random):
    a, b = extents(random, 2)
    x, y = given("x", a, b), given("y", b)
    yield node("add", x, node("broadcast", y, shape=(a, b)))
    yield node("select", node("lt", y, y), node("broadcast", y, shape=(a, b)), x)


@rule_on(*FUNCTIONS, family="movement", examples=broadcast_operands)
def drop_broadcast_operand(n, view):
    """Element-wise operators broadcast by themselves."""
    for k, x in enumerate(n.args):
        if x.op == "broadcast":
            args = (*n.args[:k], x.args[0], *n.args[k + 1 :])
            if broadcast_shape(*(a.type.shape for a in args)) == n.type.shape:
                return node(n.op, *args)
    return "no operand is broadcast needlessly"


#: For each type, those that hold every one of its values.
_WIDER = {
    "bool": "u8 u16 u32 u64 i8 i16 i32 i64 f16 bf16 f32 f64",
    "u8": "u16 u32 u64 i16 i32 i64 f16 bf16 f32 f64",
    "i8": "i16 i32 i64 f16 bf16 f32 f64",
    "u16": "u32 u64 i32 i64 f32 f64",
    "i16": "i32 i64 f32 f64",
    "u32": "u64 i64 f64",
    "i32": "i64 f64",
    "f16": "f32 f64",
    "bf16": "f32 f64",
    "f32": "f64",
    "i2": "i4 i8 i16 i32 i64 f16 bf16 f32 f64",
    "u2": "i4 u4 i8 u8 i16 u16 i32 u32 i64 u64 f16 bf16 f32 f64",
    "i4": "i8 i16 i32 i64 f16 bf16 f32 f64",
    "u4": "i8 u8 i16 u16 i32 u32 i64 u64 f16 bf16 f32 f64",
    "f8e8m0": "bf16 f32 f64",
    **dict.fromkeys(sorted(MINIFLOATS - {"f8e8m0"}), "f16 bf16 f32 f64"),
}


def cast_twice(random):
    source = random.choice(list(_WIDER))
    middle = random.choice(_WIDER[source].split())
    wide = node("cast", given("x", *extents(random, 2), dtype=source), to=middle)
    yield node("cast", wide, to=source)
    if source in FLOATS:
        yield node("cast", wide, to="f64" if source == "f32" else "f32")


@rule_on("cast", family="movement", examples=cast_twice)
def join_casts(n, view):
    """A cast by way of a type that holds every value is one cast."""
    (x,) = n.args
    if x.op != "cast":
        return "its operand is no cast"
    source = x.args[0].type.dtype
    if x.type.dtype not in _WIDER.get(source, "").split():
        return f"{x.type.dtype} does not hold every {source}"
    return x.args[0] if source == n.type.dtype else node("cast", x.args[0], to=n.type.dtype)


def gathered_progressions(random):
    x = given("x", 3, random.randint(8, 9))
    start, step = random.choice([(0, 1), (1, 2), (6, -1), (-7, 1)])
    positions = np.array([[start, start + step], [start + 2 * step, start + 3 * step]])
    yield node("gather", x, constant(positions), axis=1)
    yield node("gather", x, constant(np.asarray(positions[1, 1])), axis=1)


@rule_on("gather", family="movement", examples=gathered_progressions)
def slice_instead_of_gathering(n, view):
    """Constant positions at equal distances are a slice."""
    x, positions = n.args
    axis = n.attributes["axis"]
    extent = x.type.shape[axis]
    if not positions.is_const or not positions.type.elements:
        return "the positions are not constant"
    flat = positions.value.reshape(-1).astype(np.int64)
    flat = np.clip(np.where(flat < 0, flat + extent, flat), 0, extent - 1)
    step = int(flat[1] - flat[0]) if len(flat) > 1 else 1
    if not step or (np.diff(flat) != step).any():
        return "the positions are at no equal distances"
    starts, steps, shape = [0] * x.type.rank, [1] * x.type.rank, list(x.type.shape)
    starts[axis], steps[axis], shape[axis] = int(flat[0]), step, len(flat)
    return reshaped(node("slice", x, starts=starts, steps=steps, shape=shape), n.type.shape)
