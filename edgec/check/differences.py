"""Gradients beside differences of the loss in double precision, which no rule of a derivative goes into."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import inf, isfinite

import numpy as np

#: A loss at these weights, in double precision.
Loss = Callable[[Mapping[str, np.ndarray]], float]

#: Directions that a loss is followed in, the relative change of the loss in a step, and that of a weight at most.
DIRECTIONS, STEP, FARTHEST = 2, 1e-6, 1e-4
#: The relative rounding of a loss in double precision. Where gradients all but vanish, as behind a saturated softmax, a
#: step changes the loss by no more, and any slope is as good.
ROUNDING = 1e-13
#: The least norm of a gradient over the largest of all that a direction counts in full.
_LEAST = 1e-3
#: The part of a direction that is any other than the gradient's, whose length is 1.
_ASIDE = 0.5


def apart_from_differences(
    loss: Loss, weights: Mapping[str, np.ndarray], gradients: Mapping[str, np.ndarray], seed: int = 0
) -> float:
    """The difference between slopes of ``loss`` and those that ``gradients`` give, a part of what all weights together
    contribute.

    A direction goes forwards or backwards along the gradient of each weight, by as much for every weight, and a little
    aside: a weight whose gradient is wrong altogether gives 1 over the number of weights, or less where it is small
    itself and goes less far. Slopes are central differences; where they or gradients are no numbers, it is infinity.
    """
    norms = {n: float(np.linalg.norm(g.astype(np.float64))) for n, g in gradients.items()}
    begun = {n: w.astype(np.float64) for n, w in weights.items()}
    cost, found = max(abs(loss(begun)), 1e-3), 0.0
    if not all(map(isfinite, (cost, *norms.values()))):
        return inf
    least = _LEAST * max(norms.values(), default=0.0)
    if not least:
        return 0.0
    step, sizes = STEP * cost / len(norms), {n: float(np.linalg.norm(w[np.isfinite(w)])) for n, w in begun.items()}
    usual = float(np.median([s for s in sizes.values() if s] or [inf]))
    for number in range(DIRECTIONS):
        chance = np.random.default_rng([seed, number])
        ways: dict[str, np.ndarray] = {}
        for name, g in sorted(gradients.items()):
            scale, aside = 1 / max(norms[name], least), chance.standard_normal(g.shape)
            aside *= _ASIDE / max(float(np.linalg.norm(aside)), 1e-300)
            way = chance.choice((-1, 1)) * scale * (g / max(norms[name], 1e-300) + aside)
            far, length = FARTHEST * (sizes[name] or usual), step * float(np.linalg.norm(way))
            ways[name] = way * (far / length if far < length else 1.0)
        ahead, behind = (loss({n: begun[n] + sign * step * way for n, way in ways.items()}) for sign in (1, -1))
        slope = sum(float((gradients[n].astype(np.float64) * way).sum()) for n, way in ways.items())
        apart = abs((ahead - behind) / (2 * step) - slope) - ROUNDING * cost / step
        if not isfinite(apart):
            return inf
        found = max(found, apart / len(norms))
    return found
