"""Attention whose projections are inside, and attention of separate queries, keys and values."""

from __future__ import annotations

from math import sqrt

from edgec.frontend.onnx.call import Call
from edgec.frontend.onnx.indices import require_inside
from edgec.frontend.onnx.operators.linear import matmul_of
from edgec.frontend.onnx.operators.microsoft.domain import microsoft
from edgec.frontend.onnx.operators.microsoft.heads import (
    attend,
    joined_heads,
    key_mask,
    later,
    rotated,
    split_heads,
    with_past,
)
from edgec.frontend.values import Value, concat, iota
from edgec.ir.expr import Extent


@microsoft("Attention")
def attention(call: Call) -> list[Value | None]:
    bias = call.optional(2)
    projected = matmul_of(call[0], call[1])
    refuse_unless(call, {"do_rotary": 0, "past_present_share_buffer": 0}, 6)
    return self_attention(call, projected if bias is None else projected + bias, call.optional(3), call.optional(4), 5)


def self_attention(
    call: Call, projected: Value, mask: Value | None, past: Value | None, extra: int
) -> list[Value | None]:
    """Attention of a sequence to itself, from its projections side by side; operand ``extra`` is added to scores."""
    heads = call.required("num_heads")
    width = projected.shape[2] // 3
    sizes = list(call.attribute("qkv_hidden_sizes") or (width,) * 3)
    starts = [sum(sizes[:k]) for k in range(4)]
    q, k, v = (split_heads(projected.part(2, starts[j], starts[j + 1]), heads) for j in range(3))
    if past is not None:
        if past.shape[0] != 2:
            raise call.error(f"a past of shape {list(past.shape)}", "it begins with 2: keys and values")
        k, v = (with_past(past.part(0, j, j + 1).squeeze(0), new) for j, new in ((0, k), (1, v)))
    bias = _biases(call, q, k, mask, call.optional(extra))
    y, _ = attend(q, k, v, scale_of(call, q), bias, _hidden(call, q, k, 0 if past is None else past.shape[3]))
    present = concat([k.unsqueeze(0), v.unsqueeze(0)], 0) if call.wants(1) else None
    return [joined_heads(y), present]


@microsoft("MultiHeadAttention")
def multi_head_attention(call: Call) -> list[Value | None]:
    heads = call.required("num_heads")
    refuse_unless(call, {}, 8, 9)
    q, k, v = _separate(call, heads)
    past = call.optional(6)
    k, v = with_past(past, k), with_past(call.optional(7), v)
    bias = _biases(call, q, k, call.optional(4), call.optional(5))
    hidden = _hidden(call, q, k, 0 if past is None else past.shape[2])
    y, scores = attend(q, k, v, scale_of(call, q), bias, hidden)
    return [joined_heads(y), k, v, scores]


def _separate(call: Call, heads: int) -> tuple[Value, Value, Value]:
    """Queries, keys and values by heads, with their biases: given one by one, packed, or already by heads."""
    query, key, bias = call[0], call.optional(1), call.optional(3)
    if query.rank == 5:  # [batch, length, heads, 3, size]
        parts = [_unpacked(query, j) for j in range(3)]
    elif key is not None and key.rank == 5:  # [batch, length, heads, 2, size]
        parts = [query, _unpacked(key, 0), _unpacked(key, 1)]
    else:
        parts = [query, call[1], call[2]]
    sizes = [p.shape[2] if p.rank == 3 else p.shape[1] * p.shape[3] for p in parts]
    starts = [sum(sizes[:j]) for j in range(4)]
    split = []
    for j, p in enumerate(parts):
        if p.rank == 4:  # keys and values of another sequence, projected before
            split.append(p)
            continue
        own = None if bias is None else bias.part(0, starts[j], starts[j + 1])
        split.append(split_heads(p if own is None else p + own, heads))
    return split[0], split[1], split[2]


def _unpacked(x: Value, j: int) -> Value:
    batch, length, heads, _, size = x.shape
    return x.part(3, j, j + 1).reshape(batch, length, heads * size)


def refuse_unless(call: Call, defaults: dict[str, int], *operands: int) -> None:
    """Raise for attributes that are not at their default, and operands that are there: they need what is not done."""
    for name, default in defaults.items():
        if call.attribute(name, default) != default:
            raise call.error(f"attribute {name} is not supported", "export the model without shared buffers")
    for k in operands:
        if call.optional(k) is not None:
            raise call.error(f"operand {k} is not supported", "export the model without shared buffers")


def scale_of(call: Call, q: Value) -> float:
    return float(call.attribute("scale", 0.0) or 1 / sqrt(q.shape[3]))


def _biases(call: Call, q: Value, k: Value, mask: Value | None, extra: Value | None) -> Value | None:
    """Terms added to the scores: the padding mask, and a bias of the model."""
    if mask is None:
        return extra
    batch, keys = q.shape[0], k.shape[2]
    if mask.rank == 4 or (mask.rank == 1 and mask.shape[0] not in (batch, 2 * batch)):
        raise call.error(f"a mask of shape {list(mask.shape)} is not supported", "use a mask [batch, keys]")
    added = key_mask(mask, batch, keys, call.attribute("mask_filter_value", -10000.0))
    return added if extra is None else added + extra


def _hidden(call: Call, q: Value, k: Value, past: Extent) -> Value | None:
    return later(q.shape[2], k.shape[2], past) if call.attribute("unidirectional", 0) else None


@microsoft("RotaryEmbedding")
def rotary_embedding(call: Call) -> Value:
    """Positions are given one by one, or as that of the first token."""
    x, positions, cos, sin = call[0], call[1], call[2], call[3]
    if call.attribute("is_packed_batching", 0) or call.attribute("scale", 1.0) != 1.0:
        raise call.error("packed batches and scaled rotations are not supported", "export the model without them")
    heads = call.attribute("num_heads", 0)
    if x.rank == 3 and not heads:
        heads = x.shape[2] // (2 * cos.shape[1])
    by_heads = split_heads(x, heads) if x.rank == 3 else x
    if positions.rank == 1 and positions.shape[0] == 1:
        positions = positions.reshape(1, 1) + iota(by_heads.shape[2], 1, 2, positions.dtype)
    require_inside(call, positions, cos.shape[0], 0)
    y = rotated(by_heads, cos.gather(positions, 0), sin.gather(positions, 0), call.attribute("interleaved", 0))
    return joined_heads(y) if x.rank == 3 else y
