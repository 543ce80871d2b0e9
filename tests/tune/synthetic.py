"""Products whose variants take made-up times, for tests of tuning without a stopwatch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import exp

import numpy as np
import onnx
from small_models import model, node, tensor_input, weights

import edgec
from edgec.options import resolve
from edgec.schedule.program import Program
from edgec.schedule.variants import Product
from edgec.tune.local import trials_of
from edgec.tune.search import Trial

#: The variants are the same on every machine.
DEVICE = "x86_64_avx2"
#: Channels, side, channels of the result and taps of the convolutions.
SHAPES = ((8, 14, 32, 1), (32, 14, 24, 3), (24, 20, 40, 1), (16, 30, 16, 3), (64, 12, 20, 1), (48, 9, 48, 3))


def convolutions(shapes: Sequence[tuple[int, int, int, int]] = SHAPES) -> onnx.ModelProto:
    """Convolutions beside each other."""
    rng = np.random.default_rng(0)
    nodes = [
        node("Conv", [f"x{k}", f"w{k}"], [f"y{k}"], f"conv{k}", pads=[taps // 2] * 4)
        for k, (_, _, _, taps) in enumerate(shapes)
    ]
    kernels = [
        weights(f"w{k}", rng.standard_normal((wide, channels, taps, taps)).astype(np.float32))
        for k, (channels, _, wide, taps) in enumerate(shapes)
    ]
    inputs = [tensor_input(f"x{k}", [1, channels, side, side]) for k, (channels, side, _, _) in enumerate(shapes)]
    return model(nodes, inputs, tuple(f"y{k}" for k in range(len(shapes))), kernels, opset=17)


def products() -> dict[str, Product]:
    """The products of these convolutions by their keys."""
    context = edgec.build(convolutions(), compile=False, variants={}, device=DEVICE).stages.context
    assert context.variants is not None
    return context.variants.seen


def spaces() -> dict[str, list[Trial]]:
    """Their variants."""
    options = resolve({"device": DEVICE})
    return {key: trials_of(key, product, options) for key, product in products().items()}


def seconds_of(trial: Trial) -> float:
    """A time with what no formula has: wide tiles and unrolled sums take longer, panels outside less."""
    assert trial.features is not None
    f = trial.features
    beyond = 1.2 * (f["vectors"] - 1) + 0.7 * f["unrolled"] - 0.5 * f["panel_first"] + 0.3 * f["chunk"] / 4
    return float(2 ** f["cycles"] * 1e-9 * exp(beyond))


class Clock:
    """A clock that goes on when it is told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Stopwatch:
    """Stands for `measured`: every kernel takes what its record says, and measuring it so many seconds."""

    def __init__(self, clock: Clock, each: float = 0.5) -> None:
        self.clock, self.each, self.calls = clock, each, 0

    def __call__(self, programs: Sequence[Program | None], *given: object) -> list[float | None]:
        self.calls += 1
        self.clock.now += self.each * len(programs)
        return [None if p is None else 1e-6 * (1 + len(str(p.kernels[0].schedule.variant)) % 7) for p in programs]


def by_name(of: Mapping[str, Sequence[Trial]]) -> dict[str, float]:
    """Times of everything."""
    return {t.name: seconds_of(t) for t in trials(of) if t.features is not None}


def trials(of: Mapping[str, Sequence[Trial]]) -> Iterator[Trial]:
    for space in of.values():
        yield from space
