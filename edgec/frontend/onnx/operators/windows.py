"""All windows of a tensor written side by side."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod

from edgec.frontend.onnx.operators.conv import Window, pad_space
from edgec.frontend.values import Scalar, Value, check_table, concat


def windows(x: Value, win: Window, sizes: Sequence[int], padding: Scalar) -> Value:
    """[.., sizes.., K]: the K elements of the window at every position, in row-major order of the kernel."""
    x = pad_space(x, win.before, win.after, padding)
    lead = x.rank - len(sizes)
    check_table(1000 * prod(win.kernel))  # every tap is a node
    parts = []
    for tap in product(*(range(k) for k in win.kernel)):
        starts = [0] * lead + [t * d for t, d in zip(tap, win.dilations)]
        parts.append(x.slice(starts, [1] * lead + list(win.strides), [*x.shape[:lead], *sizes]).unsqueeze(-1))
    return concat(parts, x.rank)
