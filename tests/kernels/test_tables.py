"""Gathers whose indices are constants: positions become tables, and lanes run along what the tables choose."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from chance import RANDOM
from compiled import Compiled, compile_graphs, program_of, target

from edgec import ops
from edgec.emit.source import generate
from edgec.frontend.onnx.operators.reduction import arg_extreme
from edgec.frontend.values import Value
from edgec.ir import evaluate
from edgec.ir import expr as X
from edgec.ir.graph import Graph, Node, constant, placeholder
from edgec.ir.types import DTYPES, Type
from edgec.ir.vector import LANES
from edgec.schedule.map import Map

#: Extents of the dimension that is read, and numbers of indices, with less and more than whole vectors.
EXTENTS, COUNTS = (1, 7, 40), (1, 5, 37, 64)


def chosen(x: Node, count: int) -> Node:
    """Elements along the last dimension at drawn places, some counted from the end."""
    extent = int(x.type.shape[-1])
    places = RANDOM.integers(-extent, extent, count)
    return ops.node("gather", x, constant(places), axis=x.type.rank - 1)


def drawn(dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    return (RANDOM.standard_normal(shape) * 50).astype(DTYPES[dtype])


def graph_of(dtype: str, extent: int, count: int) -> Graph:
    x = placeholder("x", Type(dtype, (3, 2, extent)))
    one, other = chosen(x, count), chosen(x, count)
    both = ops.node("or" if dtype == "bool" else "max", one, other)
    return Graph((x,), (("y", both),))


@pytest.mark.parametrize("device", ["host", "generic"])
def test_agrees_with_the_formula(device: str, tmp_path: Path) -> None:
    where = target(device)
    sizes = [(n, m) for n in EXTENTS for m in COUNTS]
    graphs = {f"{t}_{n}_{m}": graph_of(t, n, m) for t in (*LANES, "i64", "f64") for n, m in sizes}
    given = {name: {"x": drawn(g.inputs[0].type.dtype, g.inputs[0].type.shape)} for name, g in graphs.items()}
    for name, network in compile_graphs(graphs, tmp_path, flags=where.flags, device=where.device).items():
        assert isinstance(network, Compiled)
        want = evaluate.run(graphs[name], given[name])["y"]
        assert np.array_equal(network(given[name])["y"], want), name


@pytest.mark.parametrize("device", ["host", "generic"])
def test_neighbors_are_loaded_at_once(device: str, tmp_path: Path) -> None:
    """Rows that begin or end with edges, reflections, or elements in disorder between ends that are neighbors."""
    inside = np.arange(40)
    tables = {
        "edges": np.concatenate(([0] * 3, inside, [39] * 5)),
        "reflected": np.concatenate(([3, 2, 1], inside, [38, 37, 36])),
        "disorder": np.concatenate(([0, 2, 1, *range(3, 16)], inside)),  # of 4, and of more
        "backwards": inside[::-1].copy(),
    }
    where = target(device)
    x = placeholder("x", Type("f32", (3, 2, 40)))
    graphs = {n: Graph((x,), (("y", ops.node("gather", x, constant(t), axis=2)),)) for n, t in tables.items()}
    given = {"x": drawn("f32", (3, 2, 40))}
    for name, network in compile_graphs(graphs, tmp_path, flags=where.flags, device=where.device).items():
        assert isinstance(network, Compiled)
        assert np.array_equal(network(given)["y"], given["x"][:, :, tables[name]]), name
    found = {name: "ec_pick_run" in generate(program_of(g), "net").functions[0].text for name, g in graphs.items()}
    assert found == {"edges": True, "reflected": True, "disorder": False, "backwards": False}


def test_places_of_the_greatest_are_found_on_lanes() -> None:
    """Along channels that are not contiguous: lanes of results, in 32 bits, which a store widens."""
    x = Value(placeholder("x", Type("f32", (1, 21, 8, 9))))
    g = Graph((x.node,), (("y", arg_extreme(x, 1, "max").node),))
    (kernel,) = program_of(g).kernels
    assert isinstance(kernel.schedule, Map) and kernel.schedule.lane is not None
    assert kernel.schedule.store.dtype == "i64" and kernel.schedule.body.dtype == "i32"


def test_lanes_run_along_a_table_of_32_bits() -> None:
    (kernel,) = program_of(graph_of("f32", 40, 64)).kernels
    assert isinstance(kernel.schedule, Map) and kernel.schedule.lane is not None
    tables = {e.value for load in X.loads(kernel.schedule.body) for e in X.loads(load.args[0])}
    assert len(tables) == 2 and {t.dtype for t in tables} == {"i32"}
    assert all(t.data.min() >= 0 and t.data.max() < 40 for t in tables)


def test_indices_that_come_at_run_time_stay_what_they_are() -> None:
    x, places = placeholder("x", Type("f32", (3, 40))), placeholder("i", Type("i64", (64,)))
    y = ops.node("neg", ops.node("gather", x, places, axis=1))
    (kernel,) = program_of(Graph((x, places), (("y", y),))).kernels
    assert isinstance(kernel.schedule, Map) and kernel.schedule.lane is None


def test_places_counted_from_an_open_end_are_computed() -> None:
    """The operand depends on a run-time size: no table."""
    n = X.size("n", 7, 13)
    x = placeholder("x", Type("f32", (3, n)))
    g = Graph((x,), (("y", ops.node("gather", x, constant(np.array([[-4, -5, 3]])), axis=1)),))
    (kernel,) = program_of(g).kernels
    loads = X.loads(kernel.schedule.body)
    assert all(e.value.dtype != "i32" for load in loads for e in X.loads(load.args[0]))


@pytest.mark.parametrize("device", ["host", "generic"])
def test_places_of_32_bits_are_read_on_lanes(device: str, tmp_path: Path) -> None:
    """Some places count from the end, and some are outside."""
    x, places = placeholder("x", Type("f32", (3, 70))), placeholder("p", Type("i32", (3, 41)))
    graph = Graph((x, places), (("y", ops.node("gather_elements", x, places, axis=1)),))
    where = target(device)
    (kernel,) = program_of(graph, device=where.device).kernels
    assert isinstance(kernel.schedule, Map) and kernel.schedule.lane is not None
    given = {"x": drawn("f32", (3, 70)), "p": RANDOM.integers(-90, 90, (3, 41)).astype(np.int32)}
    given["p"][0, :3] = np.iinfo(np.int32).min, np.iinfo(np.int32).max, -1
    network = compile_graphs({"net": graph}, tmp_path, flags=where.flags, device=where.device)["net"]
    assert isinstance(network, Compiled)
    assert np.array_equal(network(given)["y"], evaluate.run(graph, given)["y"])
