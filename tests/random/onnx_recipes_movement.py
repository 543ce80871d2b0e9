"""Recipes for data movement, and for tensors made of sizes."""

from __future__ import annotations

import numpy as np
from onnx import helper
from onnx_graphs import ANY, FLOAT, NUMBER, Maker, recipe
from onnx_recipes_elements import type_of
from onnx_reference import Rejected, Tensor

# ---- movement


@recipe("Reshape")
def reshape(m: Maker, op: str) -> None:
    x = m.operand(ANY)
    total, shape = x.array.size, []
    if not total:
        m.reshape(x, x.shape[::-1])
        return
    while total > 1 and len(shape) < 4:
        shape.append(m.pick([d for d in range(2, total + 1) if total % d == 0]))
        total //= shape[-1]
    shape += [total] if total > 1 else []
    if m.chance(3):
        shape.insert(m.number(0, len(shape)), 1)
    m.reshape(x, shape)


@recipe("Transpose", loose=True)
def transpose(m: Maker, op: str) -> None:
    x = m.operand(ANY)
    perm = {} if m.chance(4) else {"perm": [int(p) for p in m.random.permutation(x.rank)]}
    m.node(op, x, keeps=True, **perm)


@recipe("Flatten")
def flatten(m: Maker, op: str) -> None:
    x = m.operand(FLOAT)
    m.node(op, x, axis=m.number(0, x.rank), keeps=True)


@recipe("Unsqueeze")
def unsqueeze(m: Maker, op: str) -> None:
    x = m.operand(ANY, range(4))
    count = m.number(1, 2)
    axes = sorted(int(a) for a in m.random.permutation(x.rank + count)[:count])
    _axes(m, op, x, axes)


@recipe("Squeeze")
def squeeze(m: Maker, op: str) -> None:
    x = m.operand(ANY)
    ones = [k for k, e in enumerate(x.shape) if e == 1]
    if not ones:
        x = m.reshaped(x, min(5, x.rank + 1))
        ones = [k for k, e in enumerate(x.shape) if e == 1]
    _axes(m, op, x, [a for a in ones if m.chance(2)] or ones)


def _axes(m: Maker, op: str, x: Tensor, axes: list[int]) -> None:
    if m.since(op) >= 13:
        m.node(op, x, m.ints(axes), keeps=True)
    else:
        m.node(op, x, axes=axes, keeps=True)


@recipe("Expand")
def expand(m: Maker, op: str) -> None:
    x = m.operand(ANY)
    shape = [m.pick((1, 2, 3, 5)) if e == 1 else m.pick((1, e)) for e in x.shape]
    shape = [m.number(1, 3), *shape] if m.chance(3) and x.rank < 5 else shape[m.number(0, 1) :]
    m.node(op, x, m.ints(shape), keeps=True)


@recipe("Tile")
def tile(m: Maker, op: str) -> None:
    x = m.operand(ANY)
    repeats = [m.pick((1, 1, 2, 3, 0) if 0 in m.extents else (1, 1, 2, 3)) for _ in x.shape]
    m.node(op, x, m.ints(repeats), keeps=True)


@recipe("Concat")
def concat(m: Maker, op: str) -> None:
    x = m.operand(ANY, range(1, 6))
    axis = m.axis(x)
    parts = [x]
    for _ in range(m.number(0, 3)):
        shape = list(x.shape)
        if not m.chance(2):
            shape[axis] = m.shape(1)[0]
        parts.append(m.like(shape, x.dtype))
    m.node(op, *(parts[int(k)] for k in m.random.permutation(len(parts))), axis=axis, keeps=True)


@recipe("Split")
def split(m: Maker, op: str) -> None:
    x = m.operand(ANY, range(1, 6))
    axis = m.axis(x)
    extent, count = x.shape[axis], m.number(1, 3)
    cuts = sorted(m.number(0 if 0 in m.extents else min(1, extent), extent) for _ in range(count - 1))
    sizes = [b - a for a, b in zip([0, *cuts], [*cuts, extent])]
    if m.since(op) >= 18 and m.chance(2):
        m.node(op, x, outputs=count, axis=axis, num_outputs=count, keeps=True)
    elif m.since(op) >= 13:
        m.node(op, x, m.ints(sizes), outputs=count, axis=axis, keeps=True)
    else:
        m.node(op, x, outputs=count, axis=axis, split=sizes, keeps=True)


@recipe("Slice")
def slice_(m: Maker, op: str) -> None:
    x = m.operand(ANY, range(1, 6))
    axes = [d for d in range(x.rank) if m.chance(2)] or [0]
    starts = [m.number(-x.shape[a] - 1, x.shape[a]) for a in axes]
    ends = [m.pick((m.number(-x.shape[a], x.shape[a] + 1), 2**31)) for a in axes]
    if m.opset < 10:
        m.node(op, x, axes=axes, starts=starts, ends=ends, keeps=True)
        return
    steps = [m.pick((1, 1, 2, 3, -1, -2)) for _ in axes]
    ends = [-(2**31) if s < 0 and m.chance(2) else e for s, e in zip(steps, ends)]
    axes = [a - x.rank if m.chance(3) else a for a in axes]
    result = [len(range(*slice(s, e, t).indices(x.shape[a]))) for s, e, t, a in zip(starts, ends, steps, axes)]
    if 0 in result and 0 not in m.extents:
        raise Rejected("empty")
    m.node(op, x, *(m.ints(v) for v in (starts, ends, axes, steps)), keeps=True)


@recipe("Pad")
def pad(m: Maker, op: str) -> None:
    x = m.operand(FLOAT if m.opset < 13 else NUMBER, range(1, 5))
    mode = m.pick(("constant", "constant", "reflect", "edge", *(("wrap",) if m.opset >= 19 else ())))
    least = -1 if mode == "constant" and min(x.shape) > 2 and m.chance(3) else 0
    pads = [m.number(least, 2 if mode == "constant" else min(2, max(e - 1, 0))) for e in x.shape * 2]
    value = m.pick((0, 1, -2))
    if m.opset < 11:
        m.node(op, x, mode=mode, pads=pads, value=float(value), keeps=True)
    elif m.chance(2):
        m.node(op, x, m.ints(pads), m.leaf(np.asarray(value, x.dtype)), mode=mode, keeps=True)
    else:
        m.node(op, x, m.ints(pads), mode=mode, keeps=True)


@recipe("DepthToSpace", "SpaceToDepth")
def blocks(m: Maker, op: str) -> None:
    b, n, c = m.number(1, 3), m.number(1, 2), m.number(1, 3)
    h, w = m.number(1, 4), m.number(1, 4)
    if op == "SpaceToDepth":
        m.node(op, m.like((n, c, h * b, w * b)), blocksize=b, keeps=True)
    else:
        mode = {"mode": m.pick(("DCR", "CRD"))} if m.opset >= 11 else {}
        m.node(op, m.like((n, c * b * b, h, w)), blocksize=b, keeps=True, **mode)


@recipe("ReverseSequence")
def reverse_sequence(m: Maker, op: str) -> None:
    x = m.operand(FLOAT, range(2, 5), least=1)
    time = m.number(0, 1)
    lengths = m.uniform(1, x.shape[time] + 1, (x.shape[1 - time],), "int64")
    m.node(op, x, lengths, time_axis=time, batch_axis=1 - time, keeps=True)


@recipe("Trilu")
def trilu(m: Maker, op: str) -> None:
    x = m.operand(ANY, range(2, 5))
    m.node(op, x, *([m.constant(m.number(-3, 3), "int64")] if m.chance(2) else []), upper=m.number(0, 1), keeps=True)


@recipe("EyeLike")
def eye_like(m: Maker, op: str) -> None:
    m.node(op, m.operand(NUMBER, (2,)), k=m.number(-2, 2), **({"dtype": type_of("int64")} if m.chance(3) else {}))


# ---- sizes


@recipe("Shape", "Size", loose=True)
def shape(m: Maker, op: str) -> None:
    limits = {"start": m.number(-2, 1), "end": m.number(1, 3)} if op == "Shape" and m.opset >= 15 else {}
    m.node(op, m.operand(ANY), **limits)


@recipe("Constant")
def constant(m: Maker, op: str) -> None:
    array = m.values(m.shape(m.number(0, 3)), m.pick(ANY))
    m.node(op, value=helper.make_tensor("v", type_of(str(array.dtype)), array.shape, array.tobytes(), raw=True))


@recipe("ConstantOfShape")
def constant_of_shape(m: Maker, op: str) -> None:
    dtype = m.pick(("float32", "int64", "bool"))
    value = helper.make_tensor("v", type_of(dtype), [1], [m.number(0, 1)])
    extents = m.ints(m.shape(m.number(0, 3)))
    if m.chance(2) and m.results:
        extents = m.node("Shape", m.operand(ANY))[0]
    m.node(op, extents, value=value)


@recipe("Range")
def range_(m: Maker, op: str) -> None:
    dtype = m.pick(("float32", "int64", "int32"))
    first, step = m.number(-5, 5), m.pick((1, 2, -1, 3))
    last = first + step * m.number(0 if 0 in m.extents else 1, 9)
    m.node(op, *(m.constant(v, dtype) for v in (first, last, step)))
