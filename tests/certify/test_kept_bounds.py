"""Bounds of the cases of ``test_operators`` and of whole networks, as lines of ``bounds.txt``.

That bounds hold is tested elsewhere, on inputs drawn inside; that they are no wider than they were shows here, and so
does a term that is too small for any draw to miss. A line has a case, a radius, the number of nodes, the widest range
and the largest rounding error of an output, and a checksum of the ranges, errors and rows of all nodes to four digits.
``pytest tests/certify --update-golden`` writes the lines; wider ones have to be worth it.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import small_graphs as g
from bounded import box, eye
from enclosed_networks import NETWORKS
from kept_graphs import hold, same_draws
from test_against import BENDS, _centers, _joint, _network, _pictures
from test_operators import CASES, centers

import edgec
from edgec.certify.network import Network
from edgec.device.load import load_device
from edgec.frontend.onnx import import_model
from edgec.frontend.onnx.export import to_onnx
from edgec.fuse import plan
from edgec.ir.graph import Graph
from edgec.schedule.build import schedule
from edgec.schedule.order import orders_of

KEPT = Path(__file__).with_name("bounds.txt")
#: Distances from a center, each with a device whose code adds in an order of its own; None: in any order.
RADII = ((0.0, "x86_64_avx2"), (1e-3, None), (0.1, "cuda_sm86"), (1.0, "cortex_m7"))


def networks() -> dict[str, Callable[[], Graph]]:
    every = {name: lambda made=made: g.graph(made()) for name, made in CASES.items()}  # type: ignore[misc]
    return every | {f"network {name}": lambda made=made: import_model(made) for name, made in NETWORKS.items()}  # type: ignore[misc]


def digits(value: object) -> str:
    """Numbers to four digits."""
    return " ".join(f"{v:.3e}" for v in np.asarray(value, np.float64).reshape(-1).tolist())


def facts(net: Network, eps: float, arrays: dict[str, np.ndarray]) -> Iterator[str]:
    """The widest range and the largest error of outputs, then everything that is known."""
    tight = net.bounds(box(net, arrays, eps), tighten=True)
    seen = [tight.seen[n] for n in net.outputs.values()]
    yield f"{max(float((r.high - r.low).max()) for r in seen):.3e}"
    yield f"{max(float(np.max(tight.noise.get(n, 0.0), initial=0)) for n in net.outputs.values()):.3e}"
    yield str([k for k, n in enumerate(net.order) if n in net._wanted])  # what is worth the time
    for found in (tight, net.bounds(box(net, arrays, eps), tighten=False)):
        for n in net.order:
            for part in (found.exact, found.seen):
                if n in part:
                    yield digits(np.stack([part[n].low, part[n].high]))
            yield digits(found.noise.get(n, 0.0))
        for n in net.outputs.values():
            least, rows = net.back({n: eye(n)}, found)
            yield digits(least)
            yield "".join(digits(r) for r in rows.values())


def line(name: str, graph: Graph, eps: float, device: str | None) -> str:
    planned = plan(graph)
    orders = None
    if device is not None:
        program = schedule(planned, load_device(device))
        orders = orders_of(program.kernels, program.views)
    net = Network(planned, orders)
    widest, error, *others = facts(net, eps, centers(graph))
    return f"{name} {eps:g} | {len(net.order)} {widest} {error} | {zlib.crc32(' '.join(others).encode()):08x}"


@pytest.mark.parametrize("name", networks())
def test_kept_bounds(name: str, update_golden: bool) -> None:
    same_draws()
    graph = networks()[name]()
    hold(KEPT, [line(name, graph, eps, device) for eps, device in RADII], update_golden)


def difference(name: str, graph: Graph, quantize: str) -> str:
    """The line of what code computes apart from its model: the widest difference and its checksum, pair by pair."""
    settings = {} if quantize == "none" else {"quantize": quantize, "calibrate": "random"}
    built = edgec.build(to_onnx(graph), compile=False, device="x86_64_avx2", **settings)
    given = _centers(graph)
    joint = _joint(built, given)
    parts = []
    for eps in (0.0, 0.02, 0.5):
        parts += [np.stack(d) for d in joint.differences(joint.bounds(box(joint, given[0], eps))).values()]
    widest = " ".join(f"{float(np.abs(p).max()):.3e}" for p in parts)
    return f"apart {name} {quantize} | {len(joint.pairs)} {widest} | {zlib.crc32(digits(np.stack(parts)).encode()):08x}"


@pytest.mark.parametrize("quantize", ["none", "int8"])
@pytest.mark.parametrize("name", [*BENDS, "pictures"])
def test_kept_differences(name: str, quantize: str, update_golden: bool) -> None:
    same_draws()
    graph = _pictures() if name == "pictures" else _network(BENDS[name])
    hold(KEPT, [difference(name, graph, quantize)], update_golden)
