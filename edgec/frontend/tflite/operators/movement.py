"""Operators that move elements. Quantized operands of a scale of their own are brought to the result's first."""

from __future__ import annotations

from itertools import accumulate
from math import ceil, prod

import numpy as np

from edgec.errors import ModelError
from edgec.frontend.onnx.operators.quantization import saturated
from edgec.frontend.tflite.call import TfliteCall, tflite
from edgec.frontend.tflite.integer import activated, is_quantized, rounded_away
from edgec.frontend.tflite.layout import axis_first, by_channels_first, channels_first, channels_last, is_turned
from edgec.frontend.values import Value, check_table, concat, constant, emit, full, normalize_axis, numbers
from edgec.ir.types import DTYPES


@tflite("RESHAPE")
def reshape(call: TfliteCall) -> Value:
    """The shape is the second operand, or an option in old files; -1 stands for what is left."""
    x = call[0]
    if call.optional(1) is not None:
        wanted = list(call.ints(1))
    else:
        wanted = list(call.option("new_shape", call.result().shape))
    if wanted.count(-1) > 1 or any(d < -1 for d in wanted):
        raise ModelError(f"{wanted} is no shape")
    wanted += [2] if call.is_complex else []
    if -1 in wanted:
        rest = prod(d for d in wanted if d != -1)
        wanted[wanted.index(-1)] = x.node.type.elements // rest if rest else 0
    return x.reshape(*wanted)


@tflite("SQUEEZE")
def squeeze(call: TfliteCall) -> Value:
    x = call[0]
    rank = x.rank - call.is_complex
    axes = call.option("squeeze_dims", ()) or [d for d, n in enumerate(x.shape[:rank]) if n == 1]
    return x.squeeze(*(normalize_axis(int(a), rank) for a in axes))


@tflite("EXPAND_DIMS")
def expand_dims(call: TfliteCall) -> Value:
    rank = call[0].rank - call.is_complex + 1
    return call[0].unsqueeze(*(normalize_axis(a, rank) for a in call.ints(1)))


@tflite("TRANSPOSE")
def transpose(call: TfliteCall) -> Value:
    return call[0].transpose(*(normalize_axis(a, call[0].rank) for a in call.ints(1)))


@tflite("CONCATENATION")
def concatenation(call: TfliteCall) -> Value:
    parts = [_rescaled(call, k) for k in range(len(call.inputs))]
    axis = normalize_axis(int(call.option("axis", 0)), parts[0].rank)
    if any(map(is_turned, parts)):
        turned = concat([channels_first(p) for p in parts], axis_first(axis, parts[0].rank))
        return activated(call, channels_last(turned))
    return activated(call, concat(parts, axis))


@tflite("PACK")
def pack(call: TfliteCall) -> Value:
    parts = [call[k] for k in range(len(call.inputs))]
    axis = normalize_axis(int(call.option("axis", 0)), parts[0].rank + 1)
    return concat([p.unsqueeze(axis) for p in parts], axis)


def _rescaled(call: TfliteCall, k: int) -> Value:
    """Operand k in the scale of the result."""
    x, result = call[k], call.result()
    if not is_quantized(result) or not is_quantized(call.tensor(k)):
        return x
    mine, wanted = call.quantization(k), result.quantized
    if mine.scale == wanted.scale and mine.zero == wanted.zero:
        return x
    scale = np.float32(mine.scale * (np.float32(1) / wanted.scale))
    y = rounded_away(x.cast("f32") * float(scale) + float(np.float32(-mine.zero * scale)))
    return saturated(y + float(wanted.zero), result.dtype)


@tflite("UNPACK")
def unpack(call: TfliteCall) -> list[Value]:
    x = call[0]
    axis = normalize_axis(int(call.option("axis", 0)), x.rank)
    if len(call.operator.outputs) != x.shape[axis]:
        raise ModelError(f"{len(call.operator.outputs)} results of a dimension of {x.shape[axis]}")
    return [x.part(axis, k, k + 1).squeeze(axis) for k in range(x.shape[axis])]


@tflite("SPLIT")
def split(call: TfliteCall) -> list[Value]:
    (axis,) = call.ints(0)
    x, count = call[1], len(call.operator.outputs)
    axis = normalize_axis(axis, x.rank)
    if not count or x.shape[axis] % count:
        raise ModelError(f"a dimension of {x.shape[axis]} cannot be split in {count}")
    size = x.shape[axis] // count
    return [x.part(axis, k * size, (k + 1) * size) for k in range(count)]


@tflite("SPLIT_V")
def split_v(call: TfliteCall) -> list[Value]:
    x, sizes, (axis,) = call[0], list(call.ints(1)), call.ints(2)
    axis = normalize_axis(axis, x.rank)
    if -1 in sizes:
        sizes[sizes.index(-1)] = x.shape[axis] - sum(s for s in sizes if s != -1)
    if any(s < 0 for s in sizes) or sum(sizes) != x.shape[axis]:
        raise ModelError(f"a dimension of {x.shape[axis]} cannot be split in {sizes}")
    ends = accumulate(sizes)
    return [x.part(axis, end - size, end) for end, size in zip(ends, sizes)]


@tflite("SLICE")
def slice_(call: TfliteCall) -> Value:
    """A size of -1 is all that is left."""
    x, begin, size = call[0], call.ints(1), call.ints(2)
    if not len(begin) == len(size) == x.rank:
        raise ModelError(f"slice of {len(begin)} dimensions of shape {list(x.shape)}")
    shape = [n - b if s == -1 else s for n, b, s in zip(x.shape, begin, size)]
    return x.slice(begin, [1] * x.rank, shape)


@tflite("STRIDED_SLICE")
def strided_slice(call: TfliteCall) -> Value:
    """begin:end:stride a dimension; bits of masks say what is left out, new, or an index that drops the dimension."""
    x, begin, end, stride = call[0], call.ints(1), call.ints(2), call.ints(3)
    ellipsis, new, shrink = (int(call.option(f"{m}_mask", 0)) for m in ("ellipsis", "new_axis", "shrink_axis"))
    open_begin, open_end = int(call.option("begin_mask", 0)), int(call.option("end_mask", 0))
    if not len(begin) == len(end) == len(stride) or call.option("offset", False):
        raise ModelError("begin, end and strides are not of one length, or relative, which is not supported")
    consumed = sum(1 for k in range(len(begin)) if not (ellipsis >> k & 1 or new >> k & 1))
    starts: list[int] = []
    steps: list[int] = []
    shape: list[int] = []
    final: list[int] = []
    for k in range(len(begin)):
        d = len(starts)
        if ellipsis >> k & 1:
            for _ in range(x.rank - consumed):
                starts, steps = [*starts, 0], [*steps, 1]
                shape.append(x.shape[len(shape)])
                final.append(shape[-1])
            continue
        if new >> k & 1:
            final.append(1)
            continue
        if d >= x.rank:
            raise ModelError(f"slice of more dimensions than shape {list(x.shape)} has")
        places = range(x.shape[d])
        if shrink >> k & 1:
            starts, steps = [*starts, places[begin[k]] if not open_begin >> k & 1 else 0], [*steps, 1]
            shape.append(1)
            continue
        chosen = places[
            slice(None if open_begin >> k & 1 else begin[k], None if open_end >> k & 1 else end[k], stride[k])
        ]
        starts, steps = [*starts, chosen[0] if len(chosen) else 0], [*steps, stride[k]]
        shape.append(len(chosen))
        final.append(len(chosen))
    rest = x.shape[len(starts) :]
    y = x.slice([*starts, *[0] * len(rest)], [*steps, *[1] * len(rest)], [*shape, *rest])
    return y.reshape(*final, *rest)


@tflite("PAD", "PADV2")
def pad(call: TfliteCall) -> Value:
    """With the value of the third operand, else 0 (of integers: the zero point)."""
    x, amounts = call[0], call.constant(1).reshape(-1, 2)
    if len(amounts) != x.rank or (amounts < 0).any():
        raise ModelError(f"padding {amounts.tolist()} of shape {list(x.shape)}")
    value: float = 0
    if call.optional(2) is not None:
        value = call.constant(2).reshape(-1)[0].item()
    elif is_quantized(call.result()):
        value = call.result().quantized.zero
    before, after = amounts.T.tolist()
    if is_turned(x):
        return channels_last(channels_first(x).pad(by_channels_first(before), by_channels_first(after), value))
    return x.pad(before, after, value)


@tflite("MIRROR_PAD")
def mirror_pad(call: TfliteCall) -> Value:
    """Mirrored at the border element (mode 0), or behind it."""
    x, amounts = call[0], call.constant(1).reshape(-1, 2)
    mode = "symmetric" if call.option("mode", 0) else "reflect"
    for axis, (before, after) in enumerate(amounts.tolist()):
        if before or after:
            check_table(x.shape[axis] + before + after)
            x = x.gather(np.pad(numbers(x.shape[axis]), (before, after), mode=mode), axis)  # type: ignore[call-overload]
    return x


@tflite("TILE")
def tile(call: TfliteCall) -> Value:
    x, times = call[0], call.ints(1)
    if len(times) != x.rank or any(t < 0 for t in times):
        raise ModelError(f"{list(times)} repetitions of shape {list(x.shape)}")
    for axis, t in enumerate(times):
        if t != 1:
            check_table(x.shape[axis], t)
            x = x.gather(np.tile(np.arange(x.shape[axis]), t), axis)
    return x


@tflite("BROADCAST_TO")
def broadcast_to(call: TfliteCall) -> Value:
    return call[0].broadcast(*call.ints(1))


@tflite("DEPTH_TO_SPACE")
def depth_to_space(call: TfliteCall) -> Value:
    x, block = call[0], int(call.option("block_size"))
    n, h, w, c = x.shape
    split = x.reshape(n, h, w, block, block, c // block**2)
    return split.transpose(0, 1, 3, 2, 4, 5).reshape(n, h * block, w * block, c // block**2)


@tflite("SPACE_TO_DEPTH")
def space_to_depth(call: TfliteCall) -> Value:
    x, block = call[0], int(call.option("block_size"))
    n, h, w, c = x.shape
    split = x.reshape(n, h // block, block, w // block, block, c)
    return split.transpose(0, 1, 3, 2, 4, 5).reshape(n, h // block, w // block, c * block**2)


@tflite("SPACE_TO_BATCH_ND")
def space_to_batch(call: TfliteCall) -> Value:
    """Every block of the padded space becomes batch elements: how dilated convolutions used to be written."""
    x, block = call[0], call.ints(1)
    amounts = call.constant(2).reshape(-1, 2)
    count, rest = len(block), x.rank - 1 - len(block)
    value = call.result().quantized.zero if is_quantized(call.result()) else 0
    x = x.pad([0, *amounts[:, 0].tolist(), *[0] * rest], [0, *amounts[:, 1].tolist(), *[0] * rest], value)
    n, space, tail = x.shape[0], x.shape[1 : 1 + count], x.shape[1 + count :]
    outer = [s // b for s, b in zip(space, block)]
    split = x.reshape(n, *(v for pair in zip(outer, block) for v in pair), *tail)
    perm = [*range(2, 2 * count + 1, 2), 0, *range(1, 2 * count + 1, 2), *range(2 * count + 1, split.rank)]
    return split.transpose(*perm).reshape(n * prod(block), *outer, *tail)


@tflite("BATCH_TO_SPACE_ND")
def batch_to_space(call: TfliteCall) -> Value:
    x, block = call[0], call.ints(1)
    crops = call.constant(2).reshape(-1, 2).tolist()
    count = len(block)
    n, space, tail = x.shape[0] // prod(block), x.shape[1 : 1 + count], x.shape[1 + count :]
    split = x.reshape(*block, n, *space, *tail)
    perm = [count, *(a for d in range(count) for a in (count + 1 + d, d)), *range(2 * count + 1, split.rank)]
    whole = split.transpose(*perm).reshape(n, *(s * b for s, b in zip(space, block)), *tail)
    sizes = [s * b - sum(c) for s, b, c in zip(space, block, crops)]
    starts = [0, *(c[0] for c in crops), *[0] * len(tail)]
    return whole.slice(starts, [1] * whole.rank, [n, *sizes, *tail])


@tflite("REVERSE_V2")
def reverse(call: TfliteCall) -> Value:
    return call[0].flip(*(normalize_axis(a, call[0].rank) for a in call.ints(1)))


@tflite("GATHER")
def gather(call: TfliteCall) -> Value:
    if call.option("batch_dims", 0):
        raise ModelError("gathering with batch dimensions is not supported")
    return call[0].gather(call[1], normalize_axis(int(call.option("axis", 0)), call[0].rank))


@tflite("GATHER_ND")
def gather_nd(call: TfliteCall) -> Value:
    return emit("gather_nd", call[0], call[1])


@tflite("EMBEDDING_LOOKUP")
def embedding_lookup(call: TfliteCall) -> Value:
    if call[1].dtype != call.result().dtype:
        raise ModelError("quantized tables of embeddings are not supported")
    return call[1].gather(call[0], 0)


@tflite("SHAPE")
def shape(call: TfliteCall) -> Value:
    return constant(np.asarray(call[0].shape), call.result().dtype)


@tflite("RANK")
def rank(call: TfliteCall) -> Value:
    return constant(call[0].rank, "i32")


@tflite("FILL")
def fill(call: TfliteCall) -> Value:
    return call[1].reshape().broadcast(*call.ints(0))


@tflite("ZEROS_LIKE")
def zeros_like(call: TfliteCall) -> Value:
    return full(call[0].shape, 0, call[0].dtype)


@tflite("RANGE")
def range_(call: TfliteCall) -> Value:
    start, limit, step = (call.constant(k).reshape(-1)[0] for k in range(3))
    check_table(max(ceil((float(limit) - float(start)) / float(step)), 0))
    return constant(np.arange(start, limit, step).astype(DTYPES[call.result().dtype]))
