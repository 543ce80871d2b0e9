"""The conditions of several clauses as rows of outputs, bounded together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from edgec.certify.bounds import Bounds, Shares
from edgec.certify.network import Network
from edgec.certify.properties import Clause
from edgec.certify.ranges import Array
from edgec.ir.graph import Node


@dataclass(frozen=True)
class Spec:
    """All conditions: ``weights`` [conditions, elements...] by output, ``limits``, and where each clause's begin."""

    weights: Mapping[str, Array]
    limits: Array
    starts: Array

    @staticmethod
    def of(clauses: Sequence[Clause]) -> Spec:
        """The conditions of clauses, one after the other."""
        names = dict.fromkeys(name for c in clauses for name in c.weights)
        weights = {}
        for name in names:
            like = next(c.weights[name] for c in clauses if name in c.weights)
            parts = [c.weights.get(name, np.zeros((len(c.limits), *like.shape[1:]))) for c in clauses]
            weights[name] = np.concatenate(parts)
        starts = np.cumsum([0, *(len(c.limits) for c in clauses[:-1])])
        return Spec(weights, np.concatenate([c.limits for c in clauses]), starts)

    def rows(self, network: Network, boxes: int) -> dict[Node, Array]:
        """The conditions as rows of nodes, for every box."""
        wide = {name: np.broadcast_to(w, (boxes, *w.shape)) for name, w in self.weights.items() if w.any()}
        return network.output_rows(wide)

    def least(self, network: Network, found: Bounds, shares: Shares | None = None) -> tuple[Array, dict[Node, Array]]:
        """Lower bounds of all conditions, [boxes, conditions], and what they are of the inputs."""
        return network.back(self.rows(network, found.domain.boxes), found, shares)

    def refuted(self, least: Array) -> Array:
        """[boxes, clauses]: clauses of which one condition is not met by any input of a box."""
        return np.asarray(self.margins(least) > 0)

    def margins(self, least: Array) -> Array:
        """[boxes, clauses]: by how much the best condition of each clause is missed at least."""
        above = np.nan_to_num(least - self.limits, nan=-np.inf)
        return np.maximum.reduceat(above, self.starts, axis=1)

    @property
    def ends(self) -> Array:
        """The condition behind the last one of each clause."""
        return np.append(self.starts[1:], len(self.limits))

    @property
    def spans(self) -> list[tuple[int, int]]:
        """The first condition of each clause, and the one behind its last."""
        return [(int(a), int(b)) for a, b in zip(self.starts, self.ends)]

    def conditions(self, clauses: Array) -> Array:
        """The numbers of the conditions of clauses, [clauses, most of one]; the last one is repeated where there are
        fewer."""
        most = int((self.ends - self.starts).max())
        return np.asarray(np.minimum(self.starts[clauses][:, None] + np.arange(most), self.ends[clauses][:, None] - 1))

    def rows_of(self, network: Network, conditions: Array) -> dict[Node, Array]:
        """Conditions by their numbers [boxes, rows], as rows of nodes."""
        return network.output_rows({name: w[conditions] for name, w in self.weights.items() if w.any()})
