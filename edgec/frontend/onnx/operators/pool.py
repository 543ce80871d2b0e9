"""Pooling: windows of an ordinary reduction over a padded input."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, prod
from typing import Any

import numpy as np

from edgec.frontend.onnx.call import Call, onnx
from edgec.frontend.onnx.operators.conv import Window, check_fits, pad_space, window
from edgec.frontend.onnx.operators.reduction import is_extreme
from edgec.frontend.onnx.operators.windows import windows
from edgec.frontend.values import Value, check_table, constant, emit, full, iota, numbers, select, size
from edgec.ir import expr as X
from edgec.ir.expr import Expr, Extent
from edgec.ir.index import greater
from edgec.ir.types import DTYPES


def _pooled_window(call: Call, x: Value) -> tuple[Window, tuple[Any, ...]]:
    """The window, with padding at the end for exactly the required positions, and their numbers."""
    space = x.shape[2:]
    win = window(call, space, call.required("kernel_shape"))
    if any(p >= k for p, k in zip((call.attribute("pads") or ()), win.kernel * 2)):
        told = f"pads {list(call.attribute('pads'))} as large as the kernel {list(win.kernel)}"
        raise call.error(told, "a window of padding alone has no elements: give smaller pads, or pad by a node before")
    check_fits(call, win, space, 2)  # one step too long leaves no position, as in onnxruntime
    sizes = []
    for n, b, a, s, span in zip(space, win.before, win.after, win.strides, win.spans):
        free = n + b + a - span
        count = (-(-free // s) if call.attribute("ceil_mode", 0) else free // s) + 1
        # A window that begins in the padding after the end does not count.
        if call.attribute("ceil_mode", 0) and (count - 1) * s >= n + b:
            count -= 1
        sizes.append(max(count, 0))
    after = tuple(
        greater((m - 1) * s + span - n - b, a if not call.attribute("ceil_mode", 0) else 0)
        for m, s, span, n, b, a in zip(sizes, win.strides, win.spans, space, win.before, win.after)
    )
    return Window(win.kernel, win.strides, win.dilations, win.before, after), tuple(sizes)


def _pool(x: Value, win: Window, combine: str) -> Value:
    return emit("pool", x, combine=combine, kernel=win.kernel, strides=win.strides, dilations=win.dilations)


def _cut(y: Value, sizes: tuple[Extent, ...]) -> Value:
    return y.slice((0,) * y.rank, (1,) * y.rank, (*y.shape[:2], *sizes))


@onnx("MaxPool")
def max_pool(call: Call) -> Value | tuple[Value, Value]:
    x = call[0]
    win, sizes = _pooled_window(call, x)
    least = -inf if x.is_float else int(np.iinfo(DTYPES[x.dtype]).min)
    y = _cut(_pool(pad_space(x, win.before, win.after, least), win, "max"), sizes)
    if not call.wants(1):
        return y
    return y, _indices(call, x, y, win)


def _indices(call: Call, x: Value, y: Value, win: Window) -> Value:
    """Flat index in the whole input of each window's maximum: the first of equal ones."""
    candidates = windows(x, win, y.shape[2:], -inf if x.is_float else int(np.iinfo(DTYPES[x.dtype]).min))
    places = windows(
        _positions(x, bool(call.attribute("storage_order", 0))), win, y.shape[2:], int(np.iinfo(np.int64).max)
    )
    hit = is_extreme(candidates, y.unsqueeze(-1))
    return select(hit, places, int(np.iinfo(np.int64).max)).reduce("min", [-1], keep=False)


def _positions(x: Value, turned: bool) -> Value:
    """Flat index of each element; ``turned``: in column-major order, with the first spatial dimension the fastest."""
    if any(isinstance(n, Expr) for n in x.shape):
        space = [prod(x.shape[2:d]) if turned else prod(x.shape[d + 1 :]) for d in range(2, x.rank)]
        strides = (prod(x.shape[1:]), prod(x.shape[2:]), *space)
        parts = [iota(n, d, x.rank) * size(X.plain(s)) for d, (n, s) in enumerate(zip(x.shape, strides))]
        return sum(parts[1:], parts[0]).broadcast(*x.shape)
    check_table(x.node.type.elements)
    positions = np.arange(x.node.type.elements, dtype=np.int64).reshape(x.shape)
    if turned:
        lead = x.shape[0] * x.shape[1]
        order = numbers(prod(x.shape[2:])).reshape(x.shape[2:], order="F")
        positions = (np.arange(lead).reshape(*x.shape[:2], *[1] * (x.rank - 2)) * order.size) + order
    return constant(positions)


@onnx("AveragePool")
def average_pool(call: Call) -> Value:
    """A sum over windows times one over the number of elements in them, which may differ near the border."""
    x = call[0]
    win, sizes = _pooled_window(call, x)
    total = _cut(_pool(pad_space(x, win.before, win.after), win, "add"), sizes)
    include = call.attribute("count_include_pad", 0)
    if any(isinstance(n, Expr) for n in (*x.shape[2:], *sizes)):
        return total / _counted(x, win, sizes, window(call, x.shape[2:], win.kernel).after if include else None)
    check_table(*sizes)
    counts: np.ndarray = np.ones((), np.int64)
    declared = window(call, x.shape[2:], call.required("kernel_shape"))
    for n, b, a, k, s, d, m in zip(
        x.shape[2:], win.before, declared.after, win.kernel, win.strides, win.dilations, sizes
    ):
        low, high = (0, n + b + a) if include else (b, b + n)
        first, end = (np.clip(-((np.arange(m) * s - border) // d), 0, k) for border in (low, high))
        counts = counts[..., None] * (end - first)
    factors = (1.0 / np.maximum(counts, 1)).astype(DTYPES[x.dtype])
    if factors.size and (factors == factors.reshape(-1)[0]).all():
        return total * constant(factors.reshape(-1)[0])
    return total * constant(factors)


def _counted(x: Value, win: Window, sizes: tuple[Extent, ...], padding: Sequence[Extent] | None) -> Value:
    """Number of elements of every window, where it is known only at run time; ``padding`` is counted when given."""
    if not any(win.before) and all(isinstance(a, int) and a == 0 for a in win.after):
        return constant(prod(win.kernel), x.dtype)
    ones = full((1, 1, *x.shape[2:]), 1, x.dtype)
    if padding is not None:
        ones = pad_space(ones, win.before, padding, 1)
        win = Window(win.kernel, win.strides, win.dilations, (0,) * len(win.before), _less(win.after, padding))
    return _cut(_pool(pad_space(ones, win.before, win.after), win, "add"), sizes)


def _less(all_: Sequence[Extent], some: Sequence[Extent]) -> tuple[Extent, ...]:
    return tuple(X.plain(a - b) for a, b in zip(all_, some))


@onnx("LpPool")
def lp_pool(call: Call) -> Value:
    x, p = call[0], int(call.attribute("p", 2))
    win, sizes = _pooled_window(call, x)
    powers = x * x if p == 2 else emit("pow", emit("abs", x), float(p))
    total = _cut(_pool(pad_space(powers, win.before, win.after), win, "add"), sizes)
    return emit("sqrt", total) if p == 2 else emit("pow", total, 1.0 / p)


@onnx("GlobalAveragePool")
def global_average_pool(call: Call) -> Value:
    return call[0].mean(range(2, call[0].rank))


@onnx("GlobalMaxPool")
def global_max_pool(call: Call) -> Value:
    return call[0].reduce("max", range(2, call[0].rank))


@onnx("GlobalLpPool")
def global_lp_pool(call: Call) -> Value:
    x, p = call[0], float(call.attribute("p", 2))
    return emit("pow", emit("pow", emit("abs", x), p).sum(range(2, x.rank)), 1 / p)
