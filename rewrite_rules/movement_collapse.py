"""Movement after movement: what a chain of them does to indices, a slice, a transpose and a broadcast do at once.

The index map is found by moving the numbers 0, 1, 2, ... through the chain, and read off as nested progressions.
"""

from functools import lru_cache
from math import prod

import numpy as np

from edgec.ops import node
from edgec.rewrite import rule_on
from edgec.rewrite.sample import extents, few, given, permutation, positions_in
from edgec.rewrite.shape import reshaped

#: Movements whose every element is one of the operand's.
_PICKING = ("reshape", "transpose", "broadcast", "slice")
#: Chains over more elements are left alone: their index maps would take long to look at.
_MOST_ELEMENTS = 1 << 22
#: How long a chain is looked at.
_LONGEST = 8


def moved_in_a_row(random):
    a, b, c = (e + 1 for e in extents(random, 3))
    x = given("x", 2 * a, 2 * b, c)
    turned = node("transpose", node("reshape", x, shape=(a, 2, b, 2, c)), perm=(2, 0, 1, 4, 3))
    flat = node("reshape", turned, shape=(b, 2 * a, 2 * c))
    again = node("reshape", node("transpose", flat, perm=(2, 0, 1)), shape=(c, 2, b, a, 2))
    yield node("transpose", again, perm=permutation(random, 5))
    channels = node("transpose", node("reshape", given("y", a, 6, b), shape=(a, 2, 3, b)), perm=(0, 2, 1, 3))
    yield node("slice", node("reshape", channels, shape=(a, 6, b)), starts=(0, 1, 0), steps=(1, 2, 1), shape=(a, 3, b))
    rows = node("broadcast", node("reshape", given("z", 1, a, b), shape=(1, a, 1, b)), shape=(1, a, 2, b))
    yield node("broadcast", node("reshape", rows, shape=(1, 2 * a, b, 1)), shape=(1, 2 * a, b, 3))


@rule_on("reshape", "transpose", "broadcast", "slice", family="movement", examples=moved_in_a_row)
def straighten_movement(n, view):
    """A chain of reshapes, transposes, broadcasts and slices is one of each at most, where indices are nested loops."""
    chain = [n]
    while chain[-1].args[0].op in _PICKING and len(chain) < _LONGEST:
        chain.append(chain[-1].args[0])
    if sum(m.op != "reshape" for m in chain) < 2:
        return "it is no movement of a movement"
    for length in range(len(chain), 1, -1):
        part = chain[:length]
        x = part[-1].args[0]
        if any(m.sizes for m in (x, *part)):  # positions are followed one by one
            continue
        moves = sum(m.op != "reshape" for m in part)
        if moves < 2 or not all(_is_small(m) for m in (x, *part)) or not n.type.elements:
            continue
        steps = _straight(x.type.shape, tuple((m.op, m.attrs) for m in reversed(part)))
        if steps is not None and sum(op != "reshape" for op, _ in steps) < moves:
            return _moved(x, steps)
    return "no part of the chain is simpler"


def _is_small(n):
    """Known beforehand, and few enough elements to look at one by one."""
    return all(isinstance(extent, int) for extent in n.type.shape) and n.type.elements <= _MOST_ELEMENTS


def _moved(x, steps):
    for op, attributes in steps:
        x = node(op, x, **dict(attributes))
    return x


def _positions(shape, steps):
    """Source position in a tensor of ``shape`` of each element after the steps."""
    at = np.arange(prod(shape), dtype=np.int32).reshape(shape)
    for op, attributes in steps:
        a = dict(attributes)
        if op == "reshape":
            at = at.reshape(a["shape"])
        elif op == "transpose":
            at = at.transpose(a["perm"])
        elif op == "broadcast":
            at = np.broadcast_to(at, a["shape"])
        else:
            for d, (start, step, extent) in enumerate(zip(a["starts"], a["steps"], a["shape"])):
                along = slice(start, start + step * extent, step) if step > 0 else start + step * np.arange(extent)
                at = at[(slice(None),) * d + (along,)]
    return at


@lru_cache(maxsize=10_000)
def _straight(shape, steps):
    """The shortest steps that do what ``steps`` do, as far as this finds them; repeated layers ask again and again."""
    return _steps(shape, _positions(shape, steps))


def _steps(shape, positions):
    """A slice, a transpose and a broadcast that bring elements to where ``positions`` has them; None where none do."""
    target = positions.shape
    steps = []
    taken = np.zeros(prod(shape), bool)
    taken[positions] = True
    used = np.count_nonzero(taken)
    if used < len(taken):
        there, dims = taken.reshape(shape), range(len(shape))
        ranges = [_range(np.flatnonzero(there.any(axis=tuple(k for k in dims if k != d)))) for d in dims]
        if None in ranges or prod(extent for _, _, extent in ranges) != used:
            return None
        starts, strides, shape = zip(*ranges)
        steps.append(("slice", (("shape", shape), ("starts", starts), ("steps", strides))))
        positions = (np.cumsum(taken, dtype=np.int32) - 1)[positions]
    loops = _progressions(positions.reshape(-1))
    if loops is None:
        return None
    moving = [k for k, (_, stride) in enumerate(loops) if stride]
    by_stride = sorted(moving, key=lambda k: -loops[k][1])
    perm = tuple(by_stride.index(k) for k in moving)
    if perm != tuple(range(len(perm))):
        steps.append(("reshape", (("shape", tuple(loops[k][0] for k in by_stride)),)))
        steps.append(("transpose", (("perm", perm),)))
    if len(moving) < len(loops):
        steps.append(("reshape", (("shape", tuple(extent if stride else 1 for extent, stride in loops)),)))
        steps.append(("broadcast", (("shape", tuple(extent for extent, _ in loops)),)))
    if not steps or steps[-1][0] != "slice" or shape != target:
        steps.append(("reshape", (("shape", target),)))
    return tuple(steps)


def _range(each):
    """(start, step, extent) of the numbers, or None where they are at no equal distances."""
    step = int(each[1] - each[0]) if len(each) > 1 else 1
    return None if (np.diff(each) != step).any() else (int(each[0]), step, len(each))


def _progressions(at):
    """(extent, stride) of the nested loops that run through ``at``, the outermost first; None where none do."""
    loops = []
    current = at
    while len(current) > 1:
        stride = int(current[1] - current[0])
        steady = np.flatnonzero(np.diff(current) != stride)
        extent = int(steady[0]) + 1 if len(steady) else len(current)
        if len(current) % extent:
            return None
        loops.insert(0, (extent, stride))
        current = current[::extent]
    if any(stride < 0 for _, stride in loops):
        return None
    whole = np.zeros((), at.dtype)
    for extent, stride in loops:
        whole = whole[..., None] + stride * np.arange(extent, dtype=at.dtype)
    kept = sorted(((stride, extent) for extent, stride in loops if stride))
    dense = 1
    for stride, extent in kept:
        if stride != dense:
            return None
        dense *= extent
    return loops if np.array_equal(whole.reshape(-1) + at[0], at) and at[0] == 0 else None


# ---- positions known beforehand


def repeated_positions(random):
    x = given("x", 2, random.randint(2, 4), 3)
    count = x.type.shape[1]
    from edgec.ir.graph import constant

    yield node("gather", x, constant(np.repeat(np.arange(count), random.randint(2, 3))), axis=1)
    yield node("gather", x, constant(np.tile(np.arange(count), random.randint(2, 3))), axis=1)


@rule_on("gather", family="movement", examples=repeated_positions)
def broadcast_instead_of_gathering(n, view):
    """Constant positions that repeat a progression are a slice that is broadcast, as in enlarging a picture."""
    x, positions = n.args
    axis = n.attributes["axis"]
    extent = x.type.shape[axis]
    if not positions.is_const or positions.type.rank != 1 or not 1 < positions.type.elements <= _MOST_ELEMENTS:
        return "the positions are not constant"
    at = positions.value.astype(np.int64)
    at = np.clip(np.where(at < 0, at + extent, at), 0, extent - 1)
    used = np.unique(at)
    step = int(used[1] - used[0]) if len(used) > 1 else 1
    if (np.diff(used) != step).any():
        return "the positions are at no equal distances"
    loops = _progressions(np.searchsorted(used, at))
    if loops is None or all(stride for _, stride in loops) or [s for _, s in loops if s] != [1] * (len(used) > 1):
        return "the positions do not repeat a progression"
    starts, steps, shape = [0] * x.type.rank, [1] * x.type.rank, list(x.type.shape)
    starts[axis], steps[axis], shape[axis] = int(used[0]), step, len(used)
    taken = x if len(used) == extent else node("slice", x, starts=starts, steps=steps, shape=shape)
    before, after = x.type.shape[:axis], x.type.shape[axis + 1 :]
    single = reshaped(taken, (*before, *(e if s else 1 for e, s in loops), *after))
    return reshaped(node("broadcast", single, shape=(*before, *(e for e, _ in loops), *after)), n.type.shape)


def gathered_twice(random):

    a, b, c, d = extents(random, 4)
    first, second = positions_in(random, b, c), positions_in(random, c, d)
    yield node("gather", node("gather", given("x", a, b), first, axis=1), second, axis=1)


@rule_on("gather", family="movement", examples=gathered_twice)
def join_gathers(n, view):
    """A gather of a gather at constant positions is one gather."""
    x, outer = n.args
    axis = n.attributes["axis"]
    if x.op != "gather" or x.attributes["axis"] != axis or x.args[1].type.rank != 1 or not x.args[1].is_const:
        return "its operand is no gather at constant positions"
    if not outer.is_const:
        return "the positions are not constant"
    return node("gather", x.args[0], node("gather", x.args[1], outer, axis=0), axis=axis)


# ---- slices side by side


def every_other_element(random):
    a, b, c = few(random, 3)
    x = given("x", a, 2 * b, 2 * c)

    def part(row, column):
        return node("slice", x, starts=(0, row, column), steps=(1, 2, 2), shape=(a, b, c))

    yield node("concat", part(0, 0), part(1, 0), part(0, 1), part(1, 1), axis=0)


@rule_on("concat", family="concatenation", examples=every_other_element)
def transpose_instead_of_slicing(n, view):
    """Slices that take every element of a tensor once, side by side, are a transpose: space becomes channels."""
    sources = {p.args[0] for p in n.args if p.op == "slice"}
    if len(sources) != 1 or any(p.op != "slice" for p in n.args) or len(n.args) < 2:
        return "the parts are not slices of one tensor"
    (x,) = sources
    if not _is_small(x) or x.type.elements != n.type.elements or x.type.elements < 2:
        return "the slices do not take every element once"
    parts = [_positions(x.type.shape, ((p.op, p.attrs),)) for p in n.args]
    at = np.concatenate(parts, axis=n.attributes["axis"])
    steps = _steps(x.type.shape, at) if len(np.bincount(at.reshape(-1), minlength=at.size)) == at.size else None
    if steps is None or any(op not in ("reshape", "transpose") for op, _ in steps):
        return "the slices do not take every element once, in an order that repeats"
    return _moved(x, steps)
