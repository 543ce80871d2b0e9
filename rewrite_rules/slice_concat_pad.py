"""Slices, concatenations and paddings of one another: only what is needed is put together, in one step."""

from edgec.ops import node
from edgec.rewrite import rule_on
from edgec.rewrite.sample import extent, extents, given
from edgec.rewrite.shape import blocks, reshaped


def single_parts(random):
    x = given("x", *extents(random, 2))
    yield node("concat", x, axis=1)
    yield node("concat", x, given("y", x.type.shape[0], 0), axis=1)


@rule_on("concat", family="identity", examples=single_parts)
def drop_empty_parts(n, view):
    """Empty parts of a concatenation, and a concatenation of one part."""
    parts = [p for p in n.args if p.type.elements]
    if len(parts) == len(n.args) > 1:
        return "no part is empty"
    if not parts:
        return "every part is empty"
    return parts[0] if len(parts) == 1 else node("concat", *parts, **n.attributes)


def sliced_twice(random):
    x = given("x", extent(random, 8, 9), extent(random, 5, 6))
    first = node("slice", x, starts=(7, 1), steps=(-2, 1), shape=(4, 4))
    yield node("slice", first, starts=(0, 3), steps=(1, -1), shape=(3, 2))


@rule_on("slice", family="movement", examples=sliced_twice)
def join_slices(n, view):
    """A slice of a slice is one slice."""
    (x,) = n.args
    if x.op != "slice":
        return "its operand is no slice"
    inner, outer = x.attributes, n.attributes
    starts = tuple(i + s * o for i, s, o in zip(inner["starts"], inner["steps"], outer["starts"]))
    steps = tuple(s * t for s, t in zip(inner["steps"], outer["steps"]))
    return node("slice", x.args[0], starts=starts, steps=steps, shape=n.type.shape)


def _last(n):
    """The last index a slice takes along each dimension."""
    a = n.attributes
    return tuple(s + t * (e - 1) for s, t, e in zip(a["starts"], a["steps"], a["shape"]))


def sliced_padding(random):
    x = given("x", 3, extent(random, 4, 6))
    padded = node("pad", x, before=(1, 2), after=(0, 1), value=2.0)
    yield node("slice", padded, starts=(3, 2), steps=(-1, 2), shape=(2, 2))


@rule_on("slice", family="movement", examples=sliced_padding)
def slice_inside_padding(n, view):
    """A slice that takes nothing of a padding is a slice of what was padded."""
    (p,) = n.args
    if p.op != "pad" or not n.type.elements:
        return "its operand is no padding"
    x, before = p.args[0], p.attributes["before"]
    starts = tuple(s - b for s, b in zip(n.attributes["starts"], before))
    ends = tuple(e - b for e, b in zip(_last(n), before))
    if not all(0 <= i < extent for pair in (starts, ends) for i, extent in zip(pair, x.type.shape)):
        return "it takes some of the padding"
    return node("slice", x, starts=starts, steps=n.attributes["steps"], shape=n.type.shape)


def sliced_concatenation(random):
    parts = [given(name, 2, extent(random, 1, 4)) for name in "xyz"]
    joined = node("concat", *parts, axis=1)
    start = parts[0].type.shape[1]
    yield node("slice", joined, starts=(0, start), steps=(1, 1), shape=(2, parts[1].type.shape[1]))
    yield node("slice", joined, starts=(1, start), steps=(1, 1), shape=(1, 1))


@rule_on("slice", family="movement", examples=sliced_concatenation)
def slice_one_part(n, view):
    """A slice inside one part of a concatenation is a slice of that part."""
    (c,) = n.args
    if c.op != "concat" or not n.type.elements:
        return "its operand is no concatenation"
    axis = c.attributes["axis"]
    first, last = sorted((n.attributes["starts"][axis], _last(n)[axis]))
    offset = 0
    for part in c.args:
        extent = part.type.shape[axis]
        if offset <= first and last < offset + extent:
            starts = list(n.attributes["starts"])
            starts[axis] -= offset
            return node("slice", part, starts=starts, steps=n.attributes["steps"], shape=n.type.shape)
        offset += extent
    return "it takes of several parts"


def slices_of_assembled(random):
    a, b, c = (n + 1 for n in extents(random, 3))
    boxes = [given(f"box{k}", 1, a, c, k + 1) for k in range(2)]
    scores = [given(f"score{k}", 1, b, c, k + 1) for k in range(2)]
    levels = [node("concat", *pair, axis=1) for pair in zip(boxes, scores)]
    flat = [node("reshape", x, shape=(1, a + b, c * (k + 1))) for k, x in enumerate(levels)]
    everything = node("concat", *flat, axis=2)
    width = everything.type.shape[2]
    yield node("slice", everything, starts=(0, 0, 0), steps=(1, 1, 1), shape=(1, a, width))
    yield node("slice", everything, starts=(0, a, 0), steps=(1, 1, 1), shape=(1, b, width))


@rule_on("slice", family="movement", examples=slices_of_assembled)
def assemble_what_is_taken(n, view):
    """A slice that takes whole parts out of nested concatenations and reshapes: only those are put together."""
    if set(n.attributes["steps"]) - {1}:
        return "it takes every other element"
    found = _taken(n.args[0], n.attributes["starts"], n.type.shape)
    return found if found is not None else "it takes a part of something that is computed whole"


def _taken(x, starts, shape):
    """x from ``starts`` on, of ``shape``, without slicing anything; None where that is impossible."""
    if x.type.shape == shape:
        return x
    if x.op == "concat":
        axis = x.attributes["axis"]
        if shape[axis] == x.type.shape[axis]:
            parts = [_taken(p, starts, _with(shape, axis, p.type.shape[axis])) for p in x.args]
            return None if None in parts else node("concat", *parts, axis=axis)
        kept, offset = [], 0
        for p in x.args:
            extent = p.type.shape[axis]
            if offset < starts[axis] + shape[axis] and starts[axis] < offset + extent:
                first, last = max(starts[axis] - offset, 0), min(starts[axis] + shape[axis] - offset, extent)
                kept.append(_taken(p, _with(starts, axis, first), _with(shape, axis, last - first)))
            offset += extent
        if None in kept or not kept:
            return None
        return kept[0] if len(kept) == 1 else node("concat", *kept, axis=axis)
    if x.op == "reshape":
        (y,) = x.args
        inner_starts, inner_shape = (), ()
        for source, target in blocks(y.type.shape, x.type.shape) or ():
            if shape[target] == x.type.shape[target]:
                inner_starts += (0,) * len(y.type.shape[source])
                inner_shape += y.type.shape[source]
            elif y.type.shape[source] == x.type.shape[target]:
                inner_starts += starts[target]
                inner_shape += shape[target]
            else:
                return None
        inner = _taken(y, inner_starts, inner_shape)
        return None if inner is None else reshaped(inner, shape)
    return None


def _with(values, axis, value):
    return (*values[:axis], value, *values[axis + 1 :])


def concatenated_slices(random):
    x = given("x", 2, random.randint(4, 6))
    width = x.type.shape[1]
    cut = random.randint(1, width - 1)

    def part(start, stop):
        return node("slice", x, starts=(0, start), steps=(1, 1), shape=(2, stop - start))

    yield node("concat", part(0, cut), part(cut, width), axis=1)
    yield node("concat", given("y", 2, 1), part(0, 1), part(1, 3), axis=1)


@rule_on("concat", family="movement", examples=concatenated_slices)
def join_adjacent_slices(n, view):
    """Neighboring slices of one tensor, side by side, are one slice."""
    axis = n.attributes["axis"]
    parts = [n.args[0]]
    for p in n.args[1:]:
        joined = _joined(parts[-1], p, axis)
        parts[-1:] = [joined] if joined else [parts[-1], p]
    if len(parts) == len(n.args):
        return "no neighbors are slices of one tensor that follow one another"
    return parts[0] if len(parts) == 1 else node("concat", *parts, axis=axis)


def _joined(a, b, axis):
    if a.op != "slice" or b.op != "slice" or a.args != b.args:
        return None
    left, right = a.attributes, b.attributes
    starts = list(left["starts"])
    starts[axis] += left["steps"][axis] * a.type.shape[axis]
    if left["steps"] != right["steps"] or tuple(starts) != right["starts"]:
        return None
    shape = list(a.type.shape)
    shape[axis] += b.type.shape[axis]
    (x,) = a.args
    if tuple(shape) == x.type.shape and set(left["steps"]) == {1}:
        return x  # all of it: the slices may have other readers, and a new one would not be worth it
    return node("slice", x, starts=left["starts"], steps=left["steps"], shape=shape)


def nested_concatenation(random):
    x, y, z = (given(name, extent(random, 1, 3), 2) for name in "xyz")
    yield node("concat", x, node("concat", y, z, axis=0), axis=0)


@rule_on("concat", family="movement", examples=nested_concatenation)
def join_concatenations(n, view):
    """A concatenation inside a concatenation along the same dimension is one."""
    axis = n.attributes["axis"]
    nested = [p.op == "concat" and p.attributes["axis"] == axis for p in n.args]
    if not any(nested):
        return "no part is a concatenation along the same dimension"
    if any(inside and n.args.count(p) > 1 for p, inside in zip(n.args, nested)):
        return "a part stands there twice, and would be put together twice"
    parts = [q for p, inside in zip(n.args, nested) for q in (p.args if inside else (p,))]
    return node("concat", *parts, axis=axis)


def padded_twice(random):
    x = given("x", *extents(random, 2))
    first = node("pad", x, before=(1, 0), after=(0, 2), value=0.5)
    yield node("pad", first, before=(1, 1), after=(0, 1), value=0.5)


@rule_on("pad", family="movement", examples=padded_twice)
def join_paddings(n, view):
    """A padding of a padding with the same value is one padding."""
    (p,) = n.args
    if p.op != "pad" or repr(p.attributes["value"]) != repr(n.attributes["value"]):
        return "its operand is not padded with the same value"
    sides = {k: tuple(a + b for a, b in zip(p.attributes[k], n.attributes[k])) for k in ("before", "after")}
    return node("pad", p.args[0], **sides, value=n.attributes["value"])
