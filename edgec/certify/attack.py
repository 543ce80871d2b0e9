"""The search for inputs whose outputs meet a clause, by the gradient of its conditions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from edgec.certify.domain import Domain
from edgec.certify.network import Network
from edgec.certify.properties import Case, first_met
from edgec.certify.ranges import Array
from edgec.certify.spec import Spec
from edgec.ir.graph import Node
from edgec.ir.types import DTYPES, FLOATS

#: The compiled network: outputs by name from inputs by name.
Run = Callable[[Mapping[str, Array]], Mapping[str, Array]]
#: Starts of a search at a time, and its steps.
STARTS, STEPS = 24, 20


def rounded_into(case: Case, points: Mapping[Node, Array], k: int) -> dict[str, Array]:
    """Point ``k`` in the types of the inputs, and inside the case."""
    found = {}
    for n, values in points.items():
        name, dtype = str(n.attributes["name"]), DTYPES[n.type.dtype]
        low, high = case.low[name], case.high[name]
        x = np.clip(values[k], low, high)
        if n.type.dtype in FLOATS:
            near = x.astype(dtype)
            near = np.where(near > high, np.nextafter(near, dtype.type(-np.inf)), near)
            found[name] = np.where(near < low, np.nextafter(near, dtype.type(np.inf)), near).astype(dtype)
        else:
            found[name] = np.clip(np.rint(x), np.ceil(low), np.floor(high)).astype(dtype)
    return found


def inside(case: Case, arrays: Mapping[str, Array]) -> bool:
    """Are inputs as they are given to the code inside the case?"""
    wide = {name: a.astype(np.float64) for name, a in arrays.items()}
    if any((a < case.low[name]).any() or (a > case.high[name]).any() for name, a in wide.items()):
        return False
    if case.radius is None or case.center is None:
        return True
    return float(np.sqrt(sum(float(((a - case.center[name]) ** 2).sum()) for name, a in wide.items()))) <= case.radius


def met_by(case: Case, run: Run, points: Mapping[Node, Array], order: Sequence[int]) -> dict[str, Array] | None:
    """The first of these points, in the order of their numbers, at which the code meets a clause."""
    for k in order:
        arrays = rounded_into(case, points, k)
        if inside(case, arrays) and first_met(case.clauses, run(arrays)) is not None:
            return arrays
    return None


def values_at(network: Network, spec: Spec, points: Mapping[Node, Array]) -> tuple[Array, dict[Node, Array]]:
    """Values of the conditions at points, [points, conditions], and their gradients by the inputs."""
    found = network.bounds(Domain(points, points), tighten=False)
    return spec.least(network, found)


def attack(
    network: Network,
    case: Case,
    spec: Spec,
    run: Run,
    random: np.random.Generator,
    starts: Mapping[Node, Array] | None = None,
    reach: float = 0.5,
) -> dict[str, Array] | None:
    """Inputs inside the case at which the code meets a clause; None where none was found.

    Every clause is searched from points at random, or the ``starts`` that are given (Madry et al., 2018, with the sign
    of the gradient as the step). The first step is ``reach`` of the width of the box.
    """
    box, steps = case.domain(network.inputs), STEPS
    count = STARTS if starts is None else next(iter(starts.values())).shape[0]
    clauses = np.resize(np.arange(len(case.clauses)), max(count, len(case.clauses)))
    width = {n: box.high[n] - box.low[n] for n in box.low}
    if starts is None:
        points = {n: box.low[n] + width[n] * random.random((len(clauses), *width[n].shape[1:])) for n in width}
    else:
        points = {n: np.resize(x, (len(clauses), *x.shape[1:])) for n, x in starts.items()}
    for step in range(steps):
        values, gradients = values_at(network, spec, points)
        excess = values - spec.limits
        worst = spec.worst(excess, clauses)
        tried = np.argsort(np.where(np.isnan(worst), -np.inf, worst))
        close = [int(k) for k in tried[:3] if not worst[k] > 1e-3 * (1 + abs(worst[k]))] if step % 4 == 3 else []
        found = met_by(case, run, points, close)
        if found is not None:
            return found
        rows = spec.worst_row(excess, clauses)
        size = reach * (1 - step / steps) ** 2
        for n in points:
            slope = gradients[n][np.arange(len(rows)), rows] if n in gradients else np.zeros_like(points[n])
            move = np.sign(np.nan_to_num(slope)) * width[n] * size
            points[n] = np.clip(points[n] - move, box.low[n], box.high[n])
        if case.radius is not None and case.center is not None:
            points = _in_ball(points, case, network)
    values, _ = values_at(network, spec, points)
    order = np.argsort(spec.worst(values - spec.limits, clauses))
    return met_by(case, run, points, [int(k) for k in order[:8]])


def _in_ball(points: Mapping[Node, Array], case: Case, network: Network) -> dict[Node, Array]:
    """The points moved towards the center, into the ball."""
    assert case.center is not None and case.radius is not None
    centers = {n: np.asarray(case.center[name], np.float64)[None] for name, n in network.inputs.items()}
    squares = sum(((points[n] - c) ** 2).reshape(points[n].shape[0], -1).sum(1) for n, c in centers.items())
    scale = np.minimum(1.0, case.radius * (1 - 1e-6) / np.maximum(np.sqrt(squares), 1e-300))
    return {n: c + (points[n] - c) * scale.reshape(-1, *(1,) * (c.ndim - 1)) for n, c in centers.items()}
