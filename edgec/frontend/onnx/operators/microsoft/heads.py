"""Attention over heads [batch, heads, length, size], and rotary positions."""

from __future__ import annotations

from edgec.frontend.values import Value, concat, constant, emit, full, iota, maximum, select, size
from edgec.ir.expr import Extent, plain


def split_heads(x: Value, heads: int) -> Value:
    """[batch, length, heads * size] as [batch, heads, length, size]."""
    batch, length, width = x.shape
    return x.reshape(batch, length, heads, width // heads).swap(1, 2)


def joined_heads(x: Value) -> Value:
    """[batch, heads, length, size] as [batch, length, heads * size]."""
    batch, heads, length, size = x.shape
    return x.swap(1, 2).reshape(batch, length, heads * size)


def with_past(past: Value | None, new: Value) -> Value:
    return new if past is None else concat([past, new], 2)


def attend(
    q: Value,
    k: Value,
    v: Value,
    scale: float,
    bias: Value | None = None,
    hidden: Value | None = None,
    softcap: float = 0.0,
    sink: Value | None = None,
) -> tuple[Value, Value]:
    """The values weighted by softmax(q k^T * scale + bias), and what the softmax is of.

    ``hidden`` [.., q length, k length] is true where a key may not be seen, ``softcap`` bounds the scores smoothly,
    ``sink`` is the score of one more key, whose value is 0.
    """
    dtype = q.dtype
    scores = (q @ k.swap(-2, -1)).cast("f32") * scale
    if softcap:
        scores = emit("tanh", scores / softcap) * softcap
    if bias is not None:
        scores = scores + bias.cast("f32")
    seen = scores if hidden is None else select(hidden, float("-inf"), scores)
    greatest = seen.reduce("max", [-1])
    if sink is not None:
        greatest = maximum(greatest, sink)
    powers = emit("exp", seen - greatest)
    total = powers.sum([-1])
    if sink is not None:
        total = total + emit("exp", sink - greatest)
    return (powers / total).cast(dtype) @ v, scores


def later(queries: Extent, keys: Extent, past: Extent) -> Value:
    """True at [query, key] where the key stands after the query, which ``past`` keys precede.

    The last query sees all keys, also where keys of another sequence are more than the queries.
    """
    hidden = iota(keys, 1, 2) > iota(queries, 0, 2) + size(plain(past))
    if plain(keys - past) == queries:
        return hidden
    return hidden & (iota(queries, 0, 2) < size(plain(queries - 1)))


def rotated(x: Value, cos: Value, sin: Value, interleaved: bool) -> Value:
    """Pairs of the first elements of every head turned by their position's angle.

    x [batch, heads, length, size], cos and sin [batch or 1, length, pairs]; a pair is two neighbors where
    ``interleaved``, else an element of the first half and its partner in the second.
    """
    pairs = cos.shape[-1]
    cos, sin = cos.unsqueeze(1), sin.unsqueeze(1)
    turned, rest = x.part(3, 0, 2 * pairs), x.part(3, 2 * pairs, x.shape[3])
    if interleaved:
        a, b = turned.part(3, 0, 2 * pairs, 2), turned.part(3, 1, 2 * pairs, 2)
        real, imaginary = (a * cos - b * sin).unsqueeze(-1), (a * sin + b * cos).unsqueeze(-1)
        y = concat([real, imaginary], 4).reshape(*turned.shape)
    else:
        a, b = turned.part(3, 0, pairs), turned.part(3, pairs, 2 * pairs)
        y = concat([a * cos - b * sin, a * sin + b * cos], 3)
    return concat([y, rest], 3) if rest.shape[3] else y


def key_mask(mask: Value, batch: int, keys: int, value: float) -> Value:
    """Key mask to be added to scores [batch, heads, queries, keys]: ``value`` where keys are padding.

    A mask is [batch, keys] or [batch, queries, keys] with 0 for padding, [batch] lengths, or [2 * batch] ends and
    starts.
    """
    if mask.rank == 1:
        places = iota(keys, 1, 2, mask.dtype)
        padding = places >= mask.part(0, 0, batch).unsqueeze(1)
        if mask.shape[0] == 2 * batch:
            padding = padding | (places < mask.part(0, batch, 2 * batch).unsqueeze(1))
        padding = padding.unsqueeze(1, 2)
    else:
        padding = (mask <= 0).unsqueeze(*((1, 2) if mask.rank == 2 else (1,)))
    return select(padding, constant(value, "f32"), full((), 0.0, "f32"))
