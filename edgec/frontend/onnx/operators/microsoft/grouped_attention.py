"""Attention whose queries share keys and values in groups, over a cache of earlier ones."""

from __future__ import annotations

from edgec.frontend.onnx.call import Call
from edgec.frontend.onnx.operators.microsoft.attention import refuse_unless, scale_of
from edgec.frontend.onnx.operators.microsoft.domain import microsoft
from edgec.frontend.onnx.operators.microsoft.heads import attend, joined_heads, rotated, split_heads
from edgec.frontend.onnx.operators.microsoft.normalization import scaled_to_unit
from edgec.frontend.symbolic import known_elements
from edgec.frontend.values import Value, concat, constant, emit, iota, maximum, minimum, select, size
from edgec.ir.expr import Extent, plain
from edgec.ir.index import greater


@microsoft("GroupQueryAttention")
def group_query_attention(call: Call) -> list[Value | None]:
    """Attention in which groups of query heads share key heads.

    The length of each sequence may depend on the input (seqlens_k); the longest is known, or a run-time size.
    """
    heads, groups = call.required("num_heads"), call.required("kv_num_heads")
    smooth = call.attribute("smooth_softmax", -1) == 1
    refuse_unless(call, {"sliding_window_cache": 0, "kv_cache_bit_width": 0, "qk_output": 0}, 12, 13)
    q, k, v = _separate(call, heads, groups)
    batch, _, length, _ = q.shape
    longest = call.extents(6)[0]
    _check_lengths(call, longest, length)
    # The first prompt begins a sequence, padded behind its end; later calls append to what is there.
    start: Extent | None = 0
    before = constant(0, "i64")
    if longest != length:
        before = maximum(call[5].reshape(batch, 1).cast("i64") + 1 - size(length), 0)
        start = _start(before)
        before = before if start is None else size(start)
    places = before + iota(length, 1, 2)
    if call.attribute("do_rotary", 0):
        at = call.optional(9)
        at = places if at is None else at
        q, k = (rotated(x, call[7].gather(at, 0), call[8].gather(at, 0), bool(call.attribute("rotary_interleaved", 0)))
                for x in (q, k))  # fmt: skip
    k, v = (_appended(call.optional(j), x, before, start, longest) for j, x in ((3, k), (4, v)))
    scores = q.reshape(batch, groups, heads // groups, length, q.shape[3])
    keys = iota(k.shape[2], 2, 3)
    end = places.unsqueeze(2)  # [batch or 1, queries, 1]: the last key a query sees
    hidden = keys > (end if call.attribute("causal", 1) else end.reduce("max", [1]))
    window = call.attribute("local_window_size", -1)
    if window >= 0:
        hidden = hidden | (keys < end - (window - 1))
    bias = call.optional(10)
    sink = call.optional(11)
    if sink is not None:
        sink = sink.cast("f32").reshape(1, groups, heads // groups, 1, 1)
    y, _ = attend(
        scores, k.unsqueeze(2), v.unsqueeze(2), scale_of(call, q),
        None if bias is None else _by_groups(bias, groups), hidden.unsqueeze(1, 2), call.attribute("softcap", 0.0),
        constant(0.0, "f32") if smooth and sink is None else sink,
    )  # fmt: skip
    return [joined_heads(y.reshape(batch, heads, length, y.shape[4])), k, v]


def _check_lengths(call: Call, longest: Extent, length: Extent) -> None:
    """Lengths that are known are refused where onnxruntime refuses them."""
    past = call.optional(3)
    kept = past.shape[2] if past is not None else 0
    if all(isinstance(n, int) for n in (longest, length, kept)) and kept < longest != kept + length:
        hint = f"it is {kept + length}, or at most {kept} where the cache keeps its size"
        raise call.error(f"a length of {longest} with {kept} keys in the cache and {length} new ones", hint)
    ends = known_elements(call[5])
    outside = [n for n in ends or () if isinstance(n, int) and isinstance(longest, int) and not 0 <= n < longest]
    if outside:
        raise call.error(f"the last key of a sequence is {outside[0]}, of {longest}", "seqlens_k has lengths less 1")


def _separate(call: Call, heads: int, groups: int) -> tuple[Value, Value, Value]:
    """Queries, keys and values by heads, normalized where there are weights for it."""
    query = call[0]
    if groups < 1 or heads % groups:
        raise call.error(f"{heads} heads of queries and {groups} of keys", "the former are a multiple of the latter")
    if call.optional(1) is None:
        if query.shape[2] % (heads + 2 * groups):
            raise call.error(f"rows of {query.shape[2]} numbers are not {heads + 2 * groups} heads")
        width = query.shape[2] // (heads + 2 * groups)
        starts = [0, heads * width, (heads + groups) * width, (heads + 2 * groups) * width]
        parts = [query.part(2, starts[j], starts[j + 1]) for j in range(3)]
    else:
        parts = [query, call[1], call[2]]
    q, k, v = (split_heads(x, n) for x, n in zip(parts, (heads, groups, groups)))
    if call.optional(14) is not None:
        epsilon = call.attribute("qk_norm_epsilon", 1e-6)
        q = scaled_to_unit(q.cast("f32"), range(3, 4), epsilon)[0].cast(q.dtype) * call[14]
        k = scaled_to_unit(k.cast("f32"), range(3, 4), epsilon)[0].cast(k.dtype) * call[15]
    return q, k, v


def _start(before: Value) -> Extent | None:
    """The number of keys that every sequence has already, where constants and sizes decide it."""
    known = known_elements(before)
    return known[0] if known is not None and all(n == known[0] for n in known) else None


def _appended(past: Value | None, new: Value, before: Value, start: Extent | None, longest: Extent) -> Value:
    """The cache [batch, heads, places, size] with the new ones after the first ``before`` of each sequence, then 0.

    ``start`` is that number where it is the same for all and not data.
    """
    batch, length = new.shape[0], new.shape[2]
    kept = past.shape[2] if past is not None else 0
    room = greater(longest, kept)
    if past is None or start is not None:
        first = 0 if past is None or start is None else start
        whole = new if past is None else concat([past.part(2, 0, first), new], 2)
        return whole.pad((0,) * 4, (0, 0, plain(room - first - length), 0))
    places = iota(room, 1, 2)
    inside = places - before
    chosen = select(inside < 0, places, minimum(maximum(inside, 0), size(length) - 1) + size(kept))
    both = concat([past, new], 2).swap(1, 2)
    picked = emit("gather_nd", both, chosen.broadcast(batch, room).unsqueeze(2), batch=1).swap(1, 2)
    return select((inside >= size(length)).unsqueeze(1, 3), 0, picked)


def _by_groups(bias: Value, groups: int) -> Value:
    """[batch, heads, queries, keys] with the heads in groups."""
    batch, heads, queries, keys = bias.shape
    return bias.unsqueeze(1) if heads == 1 else bias.reshape(batch, groups, heads // groups, queries, keys)
