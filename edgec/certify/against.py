"""Bounds of the difference between what is built and the model that it was built of, for all inputs near given ones."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from pathlib import Path

import numpy as np

from edgec.build import Built
from edgec.certify.attack import inside, rounded_into
from edgec.certify.joint import Joint
from edgec.certify.properties import Case, around, read_number
from edgec.certify.ranges import Array
from edgec.certify.verdict import Status, Verdict
from edgec.check.float64 import exact_results
from edgec.check.network import inputs_for
from edgec.device.compilers import runs_here
from edgec.errors import UsageError
from edgec.execute.executor import run_graph
from edgec.ir.graph import Node
from edgec.progress import Progress
from edgec.schedule.order import Order
from edgec.text import printable

#: Samples at which bends are paired, and inputs of each box at which the difference is measured.
SAMPLES, DRAWN = 8, 16


@dataclass(frozen=True)
class Difference:
    """Bounds of an output less the model's, for every input of a box: it is between ``low`` and ``high``.

    ``met`` is the greatest difference, as a magnitude, that was met at inputs of the box.
    """

    name: str
    low: Array
    high: Array
    met: float

    @property
    def most(self) -> float:
        """The greatest magnitude that the bounds leave."""
        return float(np.maximum(np.abs(self.low), np.abs(self.high)).max(initial=0.0))


@dataclass(frozen=True)
class Apart:
    """The differences of all outputs over one box, and the verdict on them."""

    verdict: Verdict
    differences: tuple[Difference, ...]


def read_box(text: str, where: str) -> tuple[Path, str]:
    """The file and the distance of FILE:DISTANCE. Raises UsageError for another text."""
    file, colon, distance = text.rpartition(":")
    if not colon or not file:
        raise UsageError(f"'{printable(text)}' is no box of inputs", hint="write x.npz:2/255", where=where)
    read_number(distance, where)
    return Path(file), distance


def apart(
    built: Built,
    inputs: str | Path | Mapping[str, Array],
    eps: float,
    norm: str,
    within: tuple[float, float] | None,
    limit: float | None,
    orders: Mapping[Node, Order],
    seconds: float,
    seed: int,
    progress: Progress,
) -> list[Apart]:
    """The differences for all inputs near each sample, in ``seconds`` for each; ``limit`` is the most that is allowed.

    ``orders`` are those of sums. Raises ModelError for operators without bounds, by name.
    """
    if built.stages.given is not None:
        raise UsageError("the build began behind its model", hint="build the model itself")
    plan, reference = built.stages.plan, built.stages.graph
    assert plan is not None
    sets = inputs_for(built.graph, inputs, 1, seed)
    progress("certify", "pairs of bends")
    network = Joint(plan, reference, sets[:SAMPLES], orders)
    types = {name: n.type for name, n in network.inputs.items()}
    runs = built.compiler is not None and runs_here(built.options.device, built.compiler)
    found = []
    for k, arrays in enumerate(sets):
        progress("certify", f"input {k + 1} of {len(sets)}", k / len(sets))
        begun = time.perf_counter()
        case = around(arrays, types, eps, norm, within)
        network.until = begun + seconds / 2  # the rest is for rows of outputs, which pass everything
        ranges = network.bounds(case.domain(network.inputs))
        network.until = max(begun, time.perf_counter() - seconds / 2) + seconds
        bounds = network.differences(ranges)
        met: dict[str, float] = dict.fromkeys(bounds, 0.0)
        wrong: dict[str, Array] | None = None
        for given in _drawn(network, case, np.random.default_rng(seed + k)):
            got = built.run(given) if runs else run_graph(built.graph, given)
            real = exact_results(reference, given)
            for name in met:
                far = float(np.abs(np.asarray(got[name], np.float64) - real[name]).max(initial=0.0))
                met[name] = max(met[name], far)
                if limit is not None and wrong is None and not far <= limit:
                    wrong = given
        differences = tuple(Difference(name, low, high, met[name]) for name, (low, high) in bounds.items())
        most = max((d.most for d in differences), default=0.0)
        status, why = _judged(most, limit, wrong is not None)
        margin = limit - most if limit is not None else 0.0
        found.append(Apart(Verdict(status, margin, time.perf_counter() - begun, 1, wrong, why), differences))
    return found


def _judged(most: float, limit: float | None, is_wrong: bool) -> tuple[Status, str]:
    """The verdict on differences of at most ``most``, and why it is unknown."""
    if is_wrong:
        return "violated", ""
    if not most < inf:
        return "unknown", "there are inputs of which nothing is known"
    return ("holds", "") if limit is None or most <= limit else ("unknown", "bounds leave more than the limit")


def _drawn(network: Joint, case: Case, random: np.random.Generator) -> list[dict[str, Array]]:
    """The middle of a box, corners and inputs between them."""
    points = {}
    for name, n in network.inputs.items():
        low, high = case.low[name], case.high[name]
        part = random.uniform(0, 1, (DRAWN, *low.shape))
        part[1::2] = np.rint(part[1::2])
        part[0] = 0.5
        points[n] = low + part * (high - low)
    drawn = [rounded_into(case, points, k) for k in range(DRAWN)]
    return [arrays for arrays in drawn if inside(case, arrays)]
