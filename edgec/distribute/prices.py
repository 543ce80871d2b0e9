"""Prices of blocks and graphs on the workers: predicted seconds, scaled by those measured of the whole network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from edgec.fuse import Plan
from edgec.fuse.cost_model import CostModel
from edgec.ir.graph import Graph, Node
from edgec.options import Options
from edgec.pipeline.context import Context
from edgec.pipeline.run import run


@dataclass(frozen=True)
class Prices:
    """Seconds on every worker, in order. ``scales`` are factors of the predicted ones: 1 where nothing was measured."""

    options: tuple[Options, ...]
    scales: tuple[float, ...]

    def planned(self, graph: Graph, worker: int) -> Plan:
        """The plan of a graph on a worker's device. Nodes that only other parts hold are not asked for."""
        found: Plan = run(graph, Context(own(self.options[worker], graph)), "fuse", "fuse").result
        return found

    def of_blocks(self, plan: Plan) -> list[Mapping[Node, float]]:
        """Seconds of the blocks of a plan by their outputs, for every worker."""
        found: list[Mapping[Node, float]] = []
        for o, scale in zip(self.options, self.scales):
            model = CostModel(o.device, o.threads)
            found.append({b.output: scale * model(b) for b in plan.blocks})
        return found

    def of_graph(self, worker: int, graph: Graph) -> float:
        """Seconds of a graph on a worker."""
        o = self.options[worker]
        model = CostModel(o.device, o.threads)
        return self.scales[worker] * sum(map(model, self.planned(graph, worker).blocks))


def own(options: Options, graph: Graph) -> Options:
    """The options for a part of a network: those of them that name nodes, of its own nodes alone."""
    names = {name for n in graph.operations() for name in graph.names(n)}
    return replace(
        options,
        materialize=options.materialize & names,
        overrides={key: variant for key, variant in options.overrides.items() if key.partition(" ")[2] in names},
        tiles={name: tile for name, tile in options.tiles.items() if name in names},
    )


def speeds_beside(prices: Prices, plan: Plan) -> Sequence[float]:
    """The part of the network that each worker computes in a second."""
    return [1 / max(sum(p.values()), 1e-9) for p in prices.of_blocks(plan)]
