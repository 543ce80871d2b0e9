"""Taps that only read padding: windows without them."""

from edgec.ir.types import ends
from edgec.ops import node
from edgec.rewrite import rule_on
from edgec.rewrite.sample import fixed, given
from edgec.rewrite.taps import Part, combined, refusal, restricted, windows_of


def _around(random, x, spatial, value, most):
    """``x`` with random padding around its last dimensions."""
    lead = (0,) * (x.type.rank - spatial)
    before, after = (tuple(random.randint(0, most) for _ in range(spatial)) for _ in "ba")
    return node("pad", x, before=(*lead, *before), after=(*lead, *after), value=value)


def _drawn(random, make):
    """The first of random operators that has taps over padding alone."""
    while True:
        n = make(random)
        if n is None or not n.type.elements:
            continue
        found = windows_of(n)
        if not isinstance(found, str) and any(_short(axis) for axis in found.axes) and refusal(found) is None:
            return n


def _short(axis):
    live = axis.live()
    return live is None or len(live) < axis.taps


def _space(random, x, kernel):
    """Strides and dilations that leave a window in ``x``; None where the dilation drawn is too large."""
    strides = tuple(random.randint(1, 3) for _ in kernel)
    dilations = tuple(random.randint(1, 5) for _ in kernel)
    space = x.type.shape[x.type.rank - len(kernel) :]
    fits = all((k - 1) * d < n for k, d, n in zip(kernel, dilations, space))
    return {"strides": strides, "dilations": dilations} if fits else None


def _convolution(random):
    spatial, groups = random.randint(1, 3), random.randint(1, 2)
    space = [random.randint(1, 4) for _ in range(spatial)]
    kernel = [random.randint(1, 4) for _ in range(spatial)]
    dtype = random.choice(["f64", "i32"])
    value = random.choice([0, 0, 3, -2])
    x = given("x", 2, 2 * groups, *space, dtype="u8" if dtype == "i32" else dtype)
    padded = _around(random, x, spatial, abs(value) if dtype == "i32" else float(value), 9)
    read = node("cast", padded, to="i32") if dtype == "i32" else padded
    geometry = _space(random, read, kernel)
    weights = fixed(random, 2 * groups, 2, *kernel, dtype=dtype)
    return node("conv", read, weights, **geometry, groups=groups) if geometry else None


def _pool(random):
    spatial = random.randint(1, 3)
    kernel = tuple(random.randint(1, 4) for _ in range(spatial))
    combine, dtype = random.choice(["add", "max", "min"]), random.choice(["f64", "u8", "i32"])
    neutral = float("-inf") if dtype == "f64" else int(ends(dtype)[0])
    value = random.choice([neutral, 0, 2]) if combine == "max" else random.choice([0, 2])
    x = given("x", 2, *(random.randint(1, 4) for _ in range(spatial)), dtype=dtype)
    padded = _around(random, x, spatial, float(value) if dtype == "f64" else value, 9)
    geometry = _space(random, padded, kernel)
    return node("pool", padded, combine=combine, kernel=kernel, **geometry) if geometry else None


def windows_beyond_the_border(random):
    yield _drawn(random, _convolution)
    yield _drawn(random, _pool)


@rule_on("conv", "pool", family="padding", numeric="reassociates", examples=windows_beyond_the_border)
def drop_taps_over_padding(n, view):
    """Taps of a window that only ever read padding are left out; what they add is a constant."""
    w = windows_of(n)
    if isinstance(w, str):
        return w
    reason = refusal(w)
    if reason is not None:
        return reason
    live = [axis.live() for axis in w.axes]
    if None in live:
        return combined(w, None, ())
    if all(len(taps) == axis.taps for taps, axis in zip(live, w.axes)):
        return "every tap reads an element somewhere"
    kept = [Part(range(axis.positions), taps) for taps, axis in zip(live, w.axes)]
    return combined(w, restricted(w, kept), kept)
