"""Recurrences whose every step is shared by threads, where the batch has too few rows for all of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from chance import RANDOM
from compiled import Compiled, compile_graphs, program_of, target
from drawn import part
from procedure_cases import CELLS, recurrence
from sanitized import ADDRESS, THREAD, run_sanitized
from saved_cases import check_program
from small_graphs import graph

from edgec.execute.executor import ProgramRun, run_graph
from edgec.execute.kernels import Kernels
from edgec.ir.graph import Graph
from edgec.ir.sizes import Dimension
from edgec.ir.types import DTYPES
from edgec.schedule.procedure import ProcedureCall
from edgec.schedule.program import Program

Arrays = dict[str, np.ndarray]
HOST = target("host")
_COSTS = HOST.device.costs
#: Barriers that cost nothing: sharing always pays.
_FREE = replace(_COSTS, threads=replace(_COSTS.threads, barrier=0.0))
EAGER = replace(HOST, device=replace(HOST.device, costs=_FREE))
THREADS = 3
GRAPHS: dict[str, Graph] = {}
for name, kind in CELLS.items():
    for steps, batch, hidden in ((5, 1, 16), (3, 5, 7), (1, 8, 50), (4, 2, 33)):
        GRAPHS[f"{name} {steps}x{batch}x{hidden}"] = graph(recurrence(kind, steps, batch, hidden))
    GRAPHS[f"{name} of sequences"] = graph(recurrence(kind, 4, 6, 12, lengths=True, backwards=True))
    GRAPHS[f"{name} of any length"] = graph(recurrence(kind, Dimension("steps", 1, 6).extent, 2, 20, backwards=True))


def drawn(graph: Graph) -> Arrays:
    found: Arrays = {}
    for n in graph.inputs:
        shape = [k if isinstance(k, int) else 5 for k in n.type.shape]
        values = RANDOM.integers(0, 5, shape) if n.type.dtype == "i64" else RANDOM.standard_normal(shape)
        found[str(n.attributes["name"])] = values.astype(DTYPES[n.type.dtype])
    return found


FED = {name: drawn(graph) for name, graph in GRAPHS.items()}


def shared(program: Program) -> list[bool]:
    return [k.schedule.in_rounds for k in program.kernels if isinstance(k.schedule, ProcedureCall)]


def test_any_number_of_threads_gives_the_bits_of_one(tmp_path: Path) -> None:
    """Also those of the kernel that takes a row through all steps."""
    for folder in ("shared", "alone"):
        (tmp_path / folder).mkdir()
    some = {name: GRAPHS[name] for name in part(GRAPHS, "steps")}
    together = compile_graphs(some, tmp_path / "shared", True, EAGER.flags, EAGER.device, threads=THREADS)
    alone = compile_graphs(some, tmp_path / "alone", True, HOST.flags, HOST.device, threads=1)
    for name, one in some.items():
        network, other = together[name], alone[name]
        assert isinstance(network, Compiled) and isinstance(other, Compiled)
        assert any(shared(network.program)) and not any(shared(other.program)), name
        want, exact = other(FED[name]), run_graph(one, FED[name])
        for threads in (None, 2, THREADS):
            got = network(FED[name], threads)
            assert all(np.array_equal(got[key], want[key]) for key in want), (name, threads)
        for key, value in exact.items():
            assert np.abs(want[key] - value).max(initial=0) <= 1e-5 * max(1, np.abs(value).max(initial=0)), name


@pytest.mark.parametrize("sanitizer", [ADDRESS, THREAD])
def test_threads_keep_apart_and_inside(sanitizer: list[str], tmp_path: Path) -> None:
    some = {name: GRAPHS[name] for name in ("lstm with peepholes 3x5x7", "gru 4x2x33", "gru of sequences")}
    got = run_sanitized(some, FED, tmp_path, EAGER, sanitizer, THREADS if sanitizer is THREAD else 1)
    for name, one in some.items():
        for key, value in run_graph(one, FED[name]).items():
            assert np.abs(got[name][key] - value).max() <= 1e-5 * np.abs(value).max(), name


@pytest.mark.parametrize(
    ("batch", "hidden", "threads", "is_shared"),
    [(1, 512, 2, True), (1, 512, 1, False), (1, 32, 2, False), (8, 512, 2, False), (8, 512, 4, True)],
)
def test_sharing_is_for_long_steps_of_few_rows(batch: int, hidden: int, threads: int, is_shared: bool) -> None:
    device = target("x86_64_avx2").device
    program = program_of(graph(recurrence(CELLS["lstm"], 20, batch, hidden)), device, threads=threads)
    assert any(shared(program)) == is_shared
    check_program(program, device)


def test_a_kernel_called_by_itself_goes_through_all_steps(tmp_path: Path) -> None:
    """Profiles and searches for the first wrong kernel call it so."""
    one = graph(recurrence(CELLS["gru"], 6, 2, 40))
    network = compile_graphs({"gru": one}, tmp_path, True, EAGER.flags, EAGER.device, threads=THREADS)["gru"]
    assert isinstance(network, Compiled) and any(shared(network.program))
    kernels = Kernels(network.program, tmp_path / "all.so", "g0")
    fed = drawn(one)
    meant, real = (ProgramRun(network.program, fed) for _ in range(2))
    for execution in (meant, real):
        kernels.lend(execution)
    for k, kernel in enumerate(network.program.kernels):
        assert kernels.beside(k, meant, real)
        want, got = meant.elements(kernel.writes), real.elements(kernel.writes)
        assert np.abs(got - want).max() <= 1e-5 * np.abs(want).max()
