"""Violations searched by gradients with momentum from many inputs at once, in single precision.

Points move against the signs of gradients by steps that get shorter (Madry et al., "Towards Deep Learning Models
Resistant to Adversarial Attacks", 2018; Dong et al., "Boosting Adversarial Attacks with Momentum", 2018). Before,
those that are drawn move so that outputs change, for each in a direction of its own (Tashiro et al., "Diversity Can Be
Transferred: Output Diversification for White- and Black-box Attacks", 2020).
"""

from __future__ import annotations

import time
from collections.abc import Mapping

import numpy as np

from edgec.certify.attack import Run, met_by
from edgec.certify.domain import Domain
from edgec.certify.properties import Case
from edgec.certify.ranges import Array
from edgec.certify.single import SINGLE, Single, flat
from edgec.certify.slopes import Goal
from edgec.certify.spec import Spec
from edgec.ir.graph import Node

#: Steps, the first and the last of them as a part of the box, and the part of a direction that goes on.
STEPS, FIRST, LAST, MOMENTUM = 40, 0.25, 0.01, 0.75
#: Steps that go apart, and points that are drawn.
APART, DRAWN = 10, 512
#: Points of a step that are run in the code, those nearest to a violation.
RUN = 4


class Momentum:
    """Searches in the box of a case, of networks that are linear but for choices."""

    def __init__(self, single: Single, case: Case, spec: Spec, run: Run, domain: Domain) -> None:
        self.single, self.case, self.spec, self.run = single, case, spec, run
        self.network, self.sites = single.network, {s.node: s for s in single.sites}
        self.goal = Goal.of(self.network, spec)
        self.low, self.high = ({n: flat(x) for n, x in part.items()} for part in (domain.low, domain.high))

    @staticmethod
    def of(single: Single, case: Case, spec: Spec, run: Run, domain: Domain) -> Momentum | None:
        """The search; None where the set is a ball, or an operator is not linear."""
        chosen = {s.node for s in single.sites}
        if domain.radius is not None or not all(single.is_step(n) or n in chosen for n in single.network.rules):
            return None
        return Momentum(single, case, spec, run, domain)

    def draw(self, random: np.random.Generator, end: float) -> dict[str, Array] | None:
        """Inputs at which the code meets a clause, from points of the box of which half are corners."""
        points, directions = {}, {}
        for n, low in self.low.items():
            part = random.random((DRAWN, low.shape[1]), SINGLE)
            part[::2] = np.rint(part[::2])
            points[n] = low + part * (self.high[n] - low)
        for n, rows in self.goal.rows.items():
            directions[n] = random.standard_normal((DRAWN, rows.shape[1]), SINGLE)
        for _ in range(APART):
            if time.perf_counter() > end:
                return None
            _, slopes = self._at(points)
            for n, row in self._gradient(directions, slopes).items():
                points[n] = self._moved(n, points[n], row, FIRST)
        return self.search(points, end)

    def search(self, points: Mapping[Node, Array], end: float) -> dict[str, Array] | None:
        """Inputs at which the code meets a clause, near some of these points [points, elements]."""
        points, speed = dict(points), {n: np.zeros_like(x) for n, x in points.items()}
        for step in range(STEPS + 1):
            values, slopes = self._at(points)
            excess = self.goal.excess(values)
            margins = np.maximum.reduceat(excess, self.spec.starts, axis=1)
            near = np.argsort(margins.min(axis=1))[:RUN]
            wide = {n: x.reshape(len(x), *n.type.shape) for n, x in points.items()}
            found = met_by(self.case, self.run, wide, [int(k) for k in near if margins[k].min() <= 0])
            if found is not None or step == STEPS or time.perf_counter() > end:
                return found
            clause = margins.argmin(axis=1)
            conditions = self.spec.conditions(clause)
            lane = np.arange(len(conditions))
            condition = conditions[lane, np.take_along_axis(excess, conditions, 1).argmax(axis=1)]
            for n, row in self._gradient({n: r[condition] for n, r in self.goal.rows.items()}, slopes).items():
                size = np.maximum(np.abs(row).mean(axis=1, keepdims=True), SINGLE(1e-30))
                speed[n] = SINGLE(MOMENTUM) * speed[n] + row / size
                points[n] = self._moved(n, points[n], speed[n], FIRST * (LAST / FIRST) ** (step / STEPS))
        return None

    def _moved(self, n: Node, x: Array, slope: Array, length: float) -> Array:
        move = SINGLE(length) * (self.high[n] - self.low[n]) * np.sign(slope)
        return np.asarray(np.clip(x - move, self.low[n], self.high[n]))

    def _at(self, points: Mapping[Node, Array]) -> tuple[dict[Node, Array], dict[Node, Array]]:
        """Values of all nodes, and the slopes of choices."""
        values, slopes = dict[Node, Array](), dict[Node, Array]()
        for n in self.network.order:
            if n.op == "input":
                values[n] = points[self.network.input_of(n)]
            elif n in self.sites:
                site, x = self.sites[n], values[n.args[0]]
                level = SINGLE(0) if site.level is None else site.level
                values[n] = np.maximum(x, level) if site.sign > 0 else np.minimum(x, level)
                slopes[n] = x > level if site.sign > 0 else x < level
            elif n not in self.network.fixed:
                values[n] = self.single.value(n, [values[n.args[k]] for k in self.network.rules[n].operands])
        return values, slopes

    def _gradient(self, rows: Mapping[Node, Array], slopes: Mapping[Node, Array]) -> dict[Node, Array]:
        waiting, reached = dict(rows), dict[Node, Array]()
        for n in reversed(self.network.order):
            if n not in waiting or n in self.network.fixed:
                continue
            here = waiting.pop(n)
            if n.op == "input":
                into = self.network.input_of(n)
                reached[into] = reached[into] + here if into in reached else here
                continue
            parts = {0: here * slopes[n]} if n in self.sites else self.single.back(n, here)[0]
            for k, row in parts.items():
                waiting[n.args[k]] = waiting[n.args[k]] + row if n.args[k] in waiting else row
        return reached
