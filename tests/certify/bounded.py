"""Graphs beside their bounds: what the tests of certification share."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from chance import RANDOM
from compiled import Compiled

from edgec.certify.bounds import Bounds
from edgec.certify.domain import Domain
from edgec.certify.network import Network
from edgec.execute.executor import run_graph
from edgec.fuse import plan
from edgec.ir.graph import Graph, Node
from edgec.ir.types import DTYPES, FLOATS
from edgec.schedule.order import orders_of

Arrays = dict[str, np.ndarray]
Run = Callable[[Arrays], Mapping[str, np.ndarray]]


def network(graph: Graph) -> Network:
    return Network(plan(graph))


def network_of(made: Compiled, fuse: bool = True) -> Network:
    """The network of compiled code, with the order of its sums."""
    return Network(plan(made.program.graph, fuse), orders_of(made.program.kernels, made.program.views))


def box(net: Network, centers: Arrays, eps: float) -> Domain:
    """One box around arrays by input name."""
    low = {n: (centers[k].astype(np.float64) - eps)[None] for k, n in net.inputs.items()}
    high = {n: (centers[k].astype(np.float64) + eps)[None] for k, n in net.inputs.items()}
    return Domain(low, high)


def eye(n: Node) -> np.ndarray:
    """Rows of every element and of its negative, for one box."""
    count = n.type.elements
    return np.concatenate([np.eye(count), -np.eye(count)]).reshape(1, 2 * count, *n.type.shape)


def output_bounds(net: Network, found: Bounds) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Bounds of every output by rows."""
    bounds = {}
    for name, n in net.outputs.items():
        least, _ = net.back({n: eye(n)}, found)
        bounds[name] = (
            least[0, : n.type.elements].reshape(n.type.shape),
            -least[0, n.type.elements :].reshape(n.type.shape),
        )
    return bounds


def drawn(net: Network, domain: Domain, corner: bool) -> Arrays:
    """Inputs inside the box: any, or at a corner."""
    arrays = {}
    for name, n in net.inputs.items():
        low, high, dtype = domain.low[n][0], domain.high[n][0], DTYPES[n.type.dtype]
        part = RANDOM.integers(0, 2, low.shape) if corner else RANDOM.uniform(0, 1, low.shape)
        x = low + part * (high - low)
        if n.type.dtype in FLOATS:
            near = x.astype(dtype)
            near = np.where(near > high, np.nextafter(near, dtype.type(-np.inf)), near)
            near = np.where(near < low, np.nextafter(near, dtype.type(np.inf)), near)
        else:
            near = np.clip(np.rint(x), np.ceil(low), np.floor(high))
        arrays[name] = near.astype(dtype)
    return arrays


def left_by(
    graph: Graph, centers: Arrays, eps: float, count: int = 200, run: Run | None = None, net: Network | None = None
) -> list[str]:
    """Bounds that drawn inputs leave: those of an output by rows or by ranges, or a row as a function of the inputs."""
    net = net or network(graph)
    domain, faults = box(net, centers, eps), []
    given = [drawn(net, domain, k % 2 == 0) for k in range(count)]
    results = [(run or (lambda a: run_graph(graph, a)))(x) for x in given]
    for tighten in (False, True):
        found = net.bounds(domain, tighten=tighten)
        for name, n in net.outputs.items():
            least, rows = net.back({n: eye(n)}, found)
            constant = least - domain.least(rows, least.shape)
            ends = (found.seen[n].low[0].reshape(-1), -found.seen[n].high[0].reshape(-1))
            ranges = np.nan_to_num(np.concatenate(ends), nan=-np.inf)
            for x, y in zip(given, results):
                got = y[name].astype(np.float64).reshape(-1)
                got = np.concatenate([got, -got])
                parts = [r[0].reshape(len(got), -1) @ x[k].reshape(-1) for k, r in _by_name(net, rows).items()]
                line = sum(parts, constant[0])
                slack = 1e-12 * (1 + np.abs(line) + np.abs(constant[0]))
                kinds = {"rows": np.nan_to_num(least[0], nan=-np.inf), "range": ranges, "line": line - slack}
                faults += [
                    f"{name} leaves its {kind} by {(low - got).max():.3g} (tighten={tighten})"
                    for kind, low in kinds.items()
                    if (got < low).any()
                ]
    return faults


def _by_name(net: Network, rows: Mapping[Node, np.ndarray]) -> dict[str, np.ndarray]:
    return {name: rows[n] for name, n in net.inputs.items() if n in rows}


def widths(graph: Graph, centers: Arrays, eps: float) -> dict[str, float]:
    """The widest bounds of every output."""
    net = network(graph)
    found = net.bounds(box(net, centers, eps))
    return {name: float((high - low).max()) for name, (low, high) in output_bounds(net, found).items()}
