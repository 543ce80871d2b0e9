"""One walk over the calibration data: ranges, integers for the weights, and the error that each layer adds.

A layer is measured alone, on the operand that the network of floats gives it: how far are the products of bytes from
those of floats? The noise of a layer over its signal does not depend on what becomes of the others, and to the first
order the noises of layers add up on their way to the outputs (Lin et al. 2016), so one walk is enough to compare them.
Corrections are taken where they lower that noise on samples that they were not made from.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from edgec.compress import bias, gptq
from edgec.compress.layers import Arrays, Layer, Walk
from edgec.compress.observe import OBSERVERS, sampled, scale_and_zero
from edgec.errors import UsageError
from edgec.ir.graph import Graph, Node

Array = np.ndarray
#: Samples that layers are measured on, evenly spread, and the part of its noise that a correction has to save.
MEASURED, WORTH = 8, 0.02
#: The observer that is, for each tensor, the best of the others, and samples that they are judged on.
BEST, JUDGED = "best", 3


@dataclass(frozen=True, eq=False)
class Numbers:
    """A layer in int8: ``integers`` times ``scale`` for the weights, ``shift`` added to the result.

    ``noise`` is the mean square error over the mean square of the results; ``corrections`` say what was taken.
    """

    integers: Array
    scale: Array
    shift: Array | None
    noise: float
    corrections: tuple[str, ...] = ()


@dataclass(frozen=True)
class Calibration:
    """Scale and zero point of every tensor that layers read, and the numbers of every layer."""

    ranges: Mapping[Node, tuple[float, int]]
    numbers: Mapping[Layer, Numbers]
    expected: list[dict[str, Array]] = field(default_factory=list, repr=False)  # outputs of the floats


def calibrated(
    graph: Graph,
    layers: Sequence[Layer],
    samples: Iterable[Arrays],
    observer: str,
    corrections: Collection[str] = (),
) -> Calibration:
    """Everything that quantizing ``layers`` needs. Raises UsageError for samples that are none or make no numbers."""
    walk = Walk(graph, samples)
    if not walk.samples:
        raise UsageError("there are no calibration data", hint="give --calibrate an .npz that holds a sample or more")
    wanted = {layer.source for layer in layers}
    at = {layer.node: layer for layer in layers}
    ranges: dict[Node, tuple[float, int]] = {}
    numbers: dict[Layer, Numbers] = {}
    for n in walk:
        if n in wanted:
            own = [layer for layer in layers if layer.source is n]
            ranges[n] = observed(graph, n, walk[n], observer) if observer != BEST else _best(graph, n, own, walk[n])
        if n in at:
            layer, some = at[n], slice(None, None, -(-len(walk.samples) // MEASURED))
            operands, wanted_ones = walk[layer.operand][some], walk[n][some]
            numbers[layer] = _measured(layer, operands, wanted_ones, *ranges[layer.source], corrections)
    return Calibration(ranges, numbers, walk.outputs())


def _best(graph: Graph, n: Node, own: Sequence[Layer], values: Sequence[Array]) -> tuple[float, int]:
    """Scale and zero point by the observer with the least noise in the layers behind."""
    judged = values[:: -(-len(values) // JUDGED)]
    operands = {layer: [layer.operand_of(v) for v in judged] for layer in own}
    exact = {layer: [layer.computed(x, layer.weights) for x in operands[layer]] for layer in own}

    def error(pair: tuple[float, int]) -> float:
        got = {layer: [layer.computed(narrowed(x, *pair), layer.weights) for x in operands[layer]] for layer in own}
        return sum(noise(exact[layer], got[layer]) for layer in own)

    found = observed(graph, n, values, "minmax")
    least = (1 - WORTH) * error(found)
    for pair in dict.fromkeys(observed(graph, n, values, name) for name in OBSERVERS if name != "minmax"):
        if pair != found and (now := error(pair)) < least:
            found, least = pair, now
    return found


def observed(graph: Graph, n: Node, values: Sequence[Array], observer: str) -> tuple[float, int]:
    """Scale and zero point of a tensor."""
    together = np.concatenate([sampled(v) for v in values]).astype(np.float64)
    if not together.size or not np.isfinite(together).all():
        named = ", ".join(graph.names(n)) or n.op
        hint = "look for samples that are not prepared as the network's are, such as zeros that it divides by"
        raise UsageError("calibration data lead to infinities or no numbers", hint=hint, where=named)
    return scale_and_zero(*OBSERVERS[observer](together))


def narrowed(x: Array, scale: float, zero: int) -> Array:
    """A tensor rounded to int8, in f32."""
    s = np.float32(scale)
    q = np.clip(np.rint(x * np.float32(1 / np.float64(s))) + np.float32(zero), 0, 255) - np.float32(zero)
    return np.asarray(q * s, np.float32)


def weight_scale(layer: Layer) -> Array:
    """The step of each channel's weights: the largest is 127 of them."""
    scale = (np.abs(layer.weights.astype(np.float64)).max(axis=layer.summed, keepdims=True) / 127).astype(np.float32)
    return np.asarray(np.where(scale > 0, scale, np.float32(1)))


def nearest(layer: Layer, scale: Array) -> Array:
    return np.asarray(np.clip(np.rint(layer.weights.astype(np.float64) / scale), -127, 127))


def _measured(
    layer: Layer, operands: Sequence[Array], wanted: Sequence[Array], scale: float, zero: int, allowed: Collection[str]
) -> Numbers:
    x = [narrowed(a, scale, zero) for a in operands]
    own = weight_scale(layer)
    q = nearest(layer, own)
    got = _results(layer, x, q, own)
    taken: list[str] = []
    # Made from the first half, and judged by the other: neighbors are often alike.
    half = len(x) // 2
    fit, judge = (slice(None, half), slice(half, None)) if half else (slice(None), slice(None))
    if "gptq" in allowed:
        tried = gptq.rounded(layer, x[fit], own)
        if tried is not None:
            better = _results(layer, x[judge], tried, own)
            if noise(wanted[judge], better) < (1 - WORTH) * noise(wanted[judge], got[judge]):
                q, got = tried, _results(layer, x, tried, own)
                taken.append("gptq")
    shift = None
    if "bias" in allowed:
        tried = bias.shift(layer, wanted[fit], got[fit])
        moved = [g + tried for g in got[judge]]
        if noise(wanted[judge], moved) < (1 - WORTH) * noise(wanted[judge], got[judge]):
            shift = bias.shift(layer, wanted, got)
            got = [g + shift for g in got]
            taken.append("bias")
    return Numbers(q.astype(np.int8), own, shift, noise(wanted, got), tuple(taken))


def _results(layer: Layer, operands: Sequence[Array], q: Array, scale: Array) -> list[Array]:
    w = (q * scale).astype(np.float32)
    return [layer.computed(x, w) for x in operands]


def noise(wanted: Sequence[Array], got: Sequence[Array]) -> float:
    """The mean square of the differences over that of what was wanted; 0 where both are."""
    error, signal = sum(_square(w - g) for w, g in zip(wanted, got)), sum(map(_square, wanted))
    return error / signal if signal else float(error > 0)


def _square(values: Array) -> float:
    flat = values.reshape(-1)
    return float(np.dot(flat, flat))
