"""Slices move towards the inputs, so that less is computed: slice(f(x)) = f(slice(x)).

A classifier that reads one token of the last layer needs the last layer only at that token. A slice is moved only where
this reduces the arithmetic or the bytes.
"""

from edgec.ir.functions import FUNCTIONS
from edgec.ops import node
from edgec.rewrite import rule_on
from edgec.rewrite.sample import extents, given, permutation
from edgec.rewrite.shape import as_number, blocks


def _cut(n, x):
    """The slice ``n`` of an operand ``x`` that is broadcast to what is sliced: along the dimensions that it has."""
    a, extra = n.attributes, n.args[0].type.rank - x.type.rank
    starts, steps, shape = [], [], []
    for d, extent in enumerate(x.type.shape):
        whole = n.args[0].type.shape[d + extra]
        same = extent == whole
        starts.append(a["starts"][d + extra] if same else 0)
        steps.append(a["steps"][d + extra] if same else 1)
        shape.append(a["shape"][d + extra] if same else extent)
    if tuple(shape) == x.type.shape and set(starts) <= {0} and set(steps) <= {1}:
        return x
    return node("slice", x, starts=starts, steps=steps, shape=shape)


def sliced_sums(random):
    a, b, c = extents(random, 3)
    total = node("add", given("x", a, b + 1, c), given("y", b + 1, 1))
    yield node("slice", node("exp", total), starts=(0, 1, 0), steps=(1, 1, 1), shape=(a, b, c))
    yield node("slice", total, starts=(0, b, 0), steps=(1, -1, 1), shape=(a, b, c))


@rule_on("slice", family="hoisting", examples=sliced_sums)
def slice_before_function(n, view):
    """slice(f(x, y)) = f(slice(x), slice(y)): only what is taken is computed."""
    (f,) = n.args
    if f.op not in FUNCTIONS and f.op != "cast":
        return "its operand is no element-wise function"
    return node(f.op, *(_cut(n, x) for x in f.args), **f.attributes)


def sliced_totals(random):
    a, b = extents(random, 2)
    total = node("reduce", given("x", a + 1, b, 3), combine=random.choice(["add", "max"]), axes=(1,))
    yield node("slice", total, starts=(1, 0, 0), steps=(1, 1, 2), shape=(a, 1, 2))


@rule_on("slice", family="hoisting", numeric="reassociates", examples=sliced_totals)
def slice_before_reduction(n, view):
    """slice(reduce(x)) = reduce(slice(x)) along dimensions that are not reduced."""
    (r,) = n.args
    if r.op != "reduce" or not n.type.elements:
        return "its operand is no reduction"
    return node("reduce", _cut(n, r.args[0]), **r.attributes)


def sliced_products(random):
    m, k, c = extents(random, 3)
    product = node("matmul", given("x", 2, m + 1, k), given("w", k, c + 1))
    yield node("slice", product, starts=(1, 0, 1), steps=(1, 1, 1), shape=(1, m, c))
    picture = node("conv", given("p", 2, 3, 4, 4), given("v", 4, 3, 2, 2), strides=(1, 1), dilations=(1, 1))
    yield node("slice", picture, starts=(0, 1, 0, 0), steps=(1, 1, 1, 1), shape=(1, 2, 3, 3))


@rule_on("slice", family="hoisting", numeric="reassociates", examples=sliced_products)
def slice_before_product(n, view):
    """Rows of x@w are those of x times w, columns those of w; channels of a convolution are those of its weights."""
    (p,) = n.args
    if p.op == "matmul":
        x, w = p.args
        rank, a = n.type.rank, n.attributes
        found = []
        for k, factor in enumerate((x, w)):
            whole = factor.type.rank
            starts, steps, shape = [0] * whole, [1] * whole, list(factor.type.shape)
            for d in range(whole):
                out = rank - whole + d
                batch = d < whole - 2 and factor.type.shape[d] > 1
                own = d == whole - 2 if k == 0 else d == whole - 1
                if batch or own:
                    starts[d], steps[d], shape[d] = a["starts"][out], a["steps"][out], a["shape"][out]
            whole_factor = tuple(shape) == factor.type.shape and set(steps) == {1}
            found.append(factor if whole_factor else node("slice", factor, starts=starts, steps=steps, shape=shape))
        result = node("matmul", *found)
        return result if result.type == n.type else "a repeated dimension is cut"
    if p.op != "conv" or p.attributes["groups"] != 1:
        return "its operand is no product"
    x, w = p.args
    a = n.attributes
    if n.type.shape[2:] != p.type.shape[2:] or set(a["steps"][2:]) != {1}:
        return "it takes some of the positions"
    if not n.type.elements:
        return "it takes nothing"
    rest = w.type.rank - 1
    pictures = (a["starts"][0], *(0,) * (x.type.rank - 1)), (a["steps"][0], *(1,) * (x.type.rank - 1))
    kernels = (a["starts"][1], *(0,) * rest), (a["steps"][1], *(1,) * rest)
    x = node("slice", x, starts=pictures[0], steps=pictures[1], shape=(n.type.shape[0], *x.type.shape[1:]))
    w = node("slice", w, starts=kernels[0], steps=kernels[1], shape=(n.type.shape[1], *w.type.shape[1:]))
    return node("conv", x, w, **p.attributes)


def sliced_windows(random):
    attributes = {"strides": (1, random.randint(1, 2)), "dilations": (random.randint(1, 2), 1)}
    picture, weights = given("p", 2, 4, 7, 9), given("v", 6, 2, 2, 3)
    y = node("conv", picture, weights, groups=2, **attributes)
    yield node("slice", y, starts=(0, 0, 2, 1), steps=(1, 1, 1, 1), shape=(2, 6, 2, 2))
    pooled = node("pool", picture, combine=random.choice(["add", "max"]), kernel=(2, 3), **attributes)
    yield node("slice", pooled, starts=(0, 0, 1, 0), steps=(1, 1, 2, 1), shape=(2, 4, 2, 3))


@rule_on("slice", family="hoisting", examples=sliced_windows)
def slice_before_window(n, view):
    """Some windows of x are all windows of a part of x, further apart where the slice has steps."""
    (p,) = n.args
    if p.op not in ("conv", "pool"):
        return "its operand has no windows"
    x, a = p.args[0], p.attributes
    kernel = p.args[1].type.shape[2:] if p.op == "conv" else a["kernel"]
    lead, (starts, steps) = n.type.rank - len(kernel), (n.attributes["starts"], n.attributes["steps"])
    if n.type.shape[:lead] != p.type.shape[:lead] or set(steps[:lead]) != {1}:
        return "it takes some of the channels or pictures"
    if not n.type.elements or not n.type.is_fixed or not x.type.is_fixed or min(steps) < 1:
        return "it takes nothing, takes windows backwards, or their number is open"
    strides = tuple(s * t for s, t in zip(a["strides"], steps[lead:]))
    geometry = zip(n.type.shape[lead:], strides, kernel, a["dilations"])
    covered = (*x.type.shape[:lead], *((count - 1) * s + (k - 1) * d + 1 for count, s, k, d in geometry))
    first = (*(0,) * lead, *(start * s for start, s in zip(starts[lead:], a["strides"])))
    part = node("slice", x, starts=first, steps=(1,) * n.type.rank, shape=covered)
    return node(p.op, part, *p.args[1:], **{**a, "strides": strides})


def sliced_movements(random):
    a, b, c = extents(random, 3)
    x = given("x", a, b + 1, c)
    perm = permutation(random, 3)
    turned = node("transpose", x, perm=perm)
    at = perm.index(1)
    starts = [0, 0, 0]
    starts[at] = 1
    shape = list(turned.type.shape)
    shape[at] -= 1
    if tuple(perm) != (0, 1, 2):
        yield node("slice", turned, starts=starts, steps=(1, 1, 1), shape=shape)
    flat = node("reshape", x, shape=(a, b + 1, 1, c))
    yield node("slice", flat, starts=(0, 1, 0, 0), steps=(1, 1, 1, 1), shape=(a, b, 1, c))
    spread = node("broadcast", given("y", a, 1, 3), shape=(2, a, b + 1, 3))
    yield node("slice", spread, starts=(0, 0, 1, 1), steps=(1, 1, 1, 1), shape=(1, a, b, 2))


@rule_on("slice", family="hoisting", examples=sliced_movements)
def slice_before_movement(n, view):
    """slice(move(x)) = move(slice(x)) for a transpose, a broadcast, a reshape that keeps sliced dimensions apart."""
    (m,) = n.args
    a = n.attributes
    if m.op == "transpose":
        perm = m.attributes["perm"]
        back = {k: tuple(a[k][perm.index(d)] for d in range(n.type.rank)) for k in ("starts", "steps", "shape")}
        return node("transpose", node("slice", m.args[0], **back), perm=perm)
    if m.op == "broadcast":
        return node("broadcast", _cut(n, m.args[0]), shape=n.type.shape)
    if m.op != "reshape" or not n.type.elements:
        return "its operand is not moved"
    (x,) = m.args
    starts, steps, shape = (), (), ()
    for source, target in blocks(x.type.shape, m.type.shape) or ():
        whole = m.type.shape[target] == a["shape"][target] and set(a["steps"][target]) <= {1}
        if whole:
            starts += (0,) * len(x.type.shape[source])
            steps += (1,) * len(x.type.shape[source])
            shape += x.type.shape[source]
            continue
        outer = [d for d in range(target.start, target.stop) if m.type.shape[d] > 1]
        inner = [d for d in range(source.start, source.stop) if x.type.shape[d] > 1]
        if len(outer) != 1 or len(inner) != 1:
            return "it takes a part of what the reshape joins or takes apart"
        for d in range(source.start, source.stop):
            starts += (a["starts"][outer[0]] if d == inner[0] else 0,)
            steps += (a["steps"][outer[0]] if d == inner[0] else 1,)
            shape += (a["shape"][outer[0]] if d == inner[0] else 1,)
    return node("reshape", node("slice", x, starts=starts, steps=steps, shape=shape), shape=n.type.shape)


def last_of_prefix(random):
    a, b = extents(random, 2)
    reverse = random.random() < 0.5
    running = node("prefix", given("x", a, b + 1), combine="add", axis=1, reverse=reverse)
    yield node("slice", running, starts=(0, 0 if reverse else b), steps=(1, 1), shape=(a, 1))


@rule_on("slice", family="reduction", numeric="reassociates", examples=last_of_prefix)
def last_of_running_sum(n, view):
    """The last element of a running sum is the sum."""
    (p,) = n.args
    if p.op != "prefix" or p.attributes["exclusive"]:
        return "its operand is no running sum"
    axis = p.attributes["axis"]
    last = 0 if p.attributes["reverse"] else p.type.shape[axis] - 1
    rest = [d for d in range(n.type.rank) if d != axis]
    if n.attributes["starts"][axis] != last or n.type.shape[axis] != 1:
        return "it takes more than the last element"
    if any(n.type.shape[d] != p.type.shape[d] or n.attributes["steps"][d] != 1 for d in rest):
        return "it takes some of the sums"
    return node("reduce", *p.args, combine=p.attributes["combine"], axes=(axis,))


# ---- reductions of what was put together


def reduced_repetitions(random):
    a, b = extents(random, 2)
    spread = node("broadcast", given("x", a, 1), shape=(a, b + 1))
    yield node("reduce", spread, combine=random.choice(["add", "max", "min"]), axes=(1,))


@rule_on("reduce", family="reduction", numeric="reassociates", examples=reduced_repetitions)
def reduce_before_repeating(n, view):
    """The sum of what is repeated is that, as often; the greatest is that itself."""
    (m,) = n.args
    combine, axes = n.attributes["combine"], n.attributes["axes"]
    if m.op != "broadcast" or combine not in ("add", "max", "min") or not m.type.elements:
        return "it reduces nothing that is repeated"
    (x,) = m.args
    extra = m.type.rank - x.type.rank
    count, own = 1, []
    for d in axes:
        if d < extra or x.type.shape[d - extra] == 1:
            count *= m.type.shape[d]
        else:
            own.append(d - extra)
    if count == 1:
        return "the repeated dimensions are not reduced"
    y = node("reduce", x, combine=combine, axes=own) if own else x
    if combine == "add":
        y = node("mul", y, as_number(count, n.type.dtype))
    return y if y.type == n.type else node("broadcast", y, shape=n.type.shape)


def reduced_paddings(random):
    padded = node("pad", given("x", *extents(random, 2)), before=(0, 1), after=(0, 2), value=0.0)
    yield node("reduce", padded, combine="add", axes=(1,))


@rule_on("reduce", family="reduction", numeric="reassociates", examples=reduced_paddings)
def sum_before_padding(n, view):
    """The sum of what is padded with zeros is the sum of what was padded."""
    (p,) = n.args
    if p.op != "pad" or n.attributes["combine"] != "add" or p.attributes["value"] != 0:
        return "it sums nothing that is padded with zeros"
    sides = zip(p.attributes["before"], p.attributes["after"])
    if any(sum(side) and d not in n.attributes["axes"] for d, side in enumerate(sides)):
        return "a padded dimension is not summed"
    return node("reduce", *p.args, **n.attributes)


def concatenated_alike(random):
    a, b, c = extents(random, 3)
    perm = (2, 0, 1)
    parts = [node("transpose", given(name, a, b, c), perm=perm) for name in "xy"]
    yield node("concat", *parts, axis=random.randint(0, 2))


@rule_on("concat", family="transposition", examples=concatenated_alike)
def transpose_together(n, view):
    """Transposed parts side by side are the transpose of the parts side by side."""
    first = n.args[0]
    if first.op != "transpose" or any(p.op != "transpose" or p.attrs != first.attrs for p in n.args):
        return "the parts are not transposed alike"
    perm = first.attributes["perm"]
    joined = node("concat", *(p.args[0] for p in n.args), axis=perm[n.attributes["axis"]])
    return node("transpose", joined, perm=perm)
