"""The places of a window, as parts of the operand."""

from __future__ import annotations

from itertools import product

from edgec.ir.graph import Node

Part = tuple[slice, ...]


def window_parts(n: Node) -> list[Part]:
    """For every place in a window of a reduction or a pool, the elements of the operand that are there: of the shape
    of the result."""
    extents = n.args[0].type.shape
    if n.op == "reduce":
        axes = n.attributes["axes"]
        places = product(*(range(extents[a]) for a in axes))
        at = (dict(zip(axes, place)) for place in places)
        return [tuple(slice(p[d], p[d] + 1) if d in p else slice(None) for d in range(len(extents))) for p in at]
    kernel, strides, dilations = (n.attributes[k] for k in ("kernel", "strides", "dilations"))
    lead = len(extents) - len(kernel)
    found = []
    for place in product(*(range(k) for k in kernel)):
        inner = (
            slice(t * d, t * d + (count - 1) * s + 1, s)
            for t, d, s, count in zip(place, dilations, strides, n.type.shape[lead:])
        )
        found.append((*(slice(None),) * lead, *inner))
    return found
