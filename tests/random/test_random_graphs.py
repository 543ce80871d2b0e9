"""Random graphs through every stage: each stage's result, executed, and the compiled C give what the graph means.

The graphs are the same in every run. ``EDGEC_RANDOM_GRAPHS`` asks for more of them, ``EDGEC_RANDOM_SEED`` for others.
A failure names the smallest part of the graph that fails, as text that ``edgec.ir.text.parse`` reads.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from pathlib import Path

import numpy as np
import pytest
from chance import GIVEN
from compiled import Compiled, compile_graphs, target
from emulated import Emulated, emulate
from hypothesis import HealthCheck, Phase, given, seed, settings
from opencl_networks import accepted, driver, joined, network
from random_graphs import cases
from random_networks import networks
from random_values import Case, arrays
from sanitized import ADDRESS_ALONE, run_sanitized
from small_graphs import doubled

from edgec.device.device import Device
from edgec.device.load import load_device
from edgec.execute.executor import run_plan, run_program
from edgec.execute.invariants import verify_plan, verify_program, warn_of_repeats
from edgec.fuse import plan
from edgec.ir import evaluate
from edgec.ir.graph import Graph
from edgec.ir.text import show
from edgec.rewrite import simplify
from edgec.schedule.build import schedule
from edgec.schedule.options import ScheduleOptions

COUNT = int(os.environ.get("EDGEC_RANDOM_GRAPHS", "60"))
BATCH = 60  # graphs to one compiler run
TOLERANCE = 2e-5  # of the largest value, where results are not exact
NOISES = 6  # times the noise of plain sums; Winograd's method has two to four times as much

Arrays = Mapping[str, np.ndarray]
#: Runs many graphs on the inputs beside them; a graph that cannot be run gives a text instead.
Runner = Callable[[Mapping[str, tuple[Graph, Arrays]]], Mapping[str, Arrays | str]]
Network = Callable[[Arrays], Arrays]


@cache
def drawn() -> list[Case]:
    found: list[Case] = []

    @settings(
        max_examples=COUNT, derandomize=GIVEN is None, database=None, deadline=None, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(cases() | networks())
    def collect(case: Case | None) -> None:
        if case is not None:
            found.append(case)

    (seed(int(GIVEN))(collect) if GIVEN is not None else collect)()
    return found


def noise(graph: Graph, inputs: Arrays, want: Arrays) -> dict[str, float]:
    """Error of fp32 relative to fp64 by itself: where large terms cancel, little else is left."""
    wide = {k: v.astype(np.float64) if v.dtype == np.float32 else v for k, v in inputs.items()}
    precise = evaluate.run(doubled(graph), wide)
    return {name: float(np.max(np.abs(precise[name] - array), initial=0)) for name, array in want.items()}


def difference(case: Case, got: Arrays | str, want: Arrays, slack: Mapping[str, float] | None = None) -> str | None:
    if isinstance(got, str):
        return got
    for name, array in want.items():
        result = np.asarray(got[name])
        if result.shape != array.shape or result.dtype != array.dtype:
            return f"{name} is {result.dtype}{result.shape}, not {array.dtype}{array.shape}"
        if name in case.exact:
            wrong = np.argwhere(result != array)
        else:
            distance = np.abs(result.astype(np.float64) - array.astype(np.float64))
            allowed = max(TOLERANCE * np.max(np.abs(array), initial=1e-3), NOISES * (slack or {}).get(name, 0.0))
            wrong = np.argwhere(~(distance <= allowed))
        if len(wrong):
            k = tuple(map(int, wrong[0]))
            return f"{name}: {len(wrong)} of {array.size} differ, first {list(k)}: {result[k]} for {array[k]}"
    return None


def smallest(case: Case, run: Runner, number: int) -> str:
    """The first value of a graph that comes out wrong when it is the only result."""
    parts = {f"n{k}": Graph(case.graph.inputs, (("y", n),)) for k, n in enumerate(case.graph.operations())}
    given = {name: (part, arrays(part, number)) for name, part in parts.items()}
    got = run(given)
    for name, (part, inputs) in given.items():
        want = evaluate.run(part, inputs)
        found = difference(Case(part, frozenset({"y"}) if case.exact else frozenset()), got[name], want)
        if found:
            return f"{found}\n{show(part)}"
    return f"only as a whole:\n{show(case.graph)}"


def check(run: Runner, share: int = 1) -> None:
    """Of every ``share`` graphs the first."""
    numbered = list(enumerate(drawn()))[::share]
    for start in range(0, len(numbered), BATCH):
        batch = {f"graph {k}": (c.graph, arrays(c.graph, k)) for k, c in numbered[start : start + BATCH]}
        got = run(batch)
        for k, case in numbered[start : start + BATCH]:
            graph, inputs = batch[f"graph {k}"]
            want = evaluate.run(graph, inputs)
            found = difference(case, got[f"graph {k}"], want)
            if found:
                found = difference(case, got[f"graph {k}"], want, noise(graph, inputs, want))
            assert found is None, f"graph {k}: {found}\n{smallest(case, run, k)}"


def one_by_one(run: Callable[[Graph, Arrays], Arrays]) -> Runner:
    return lambda batch: {name: run(graph, inputs) for name, (graph, inputs) in batch.items()}


def test_simplified() -> None:
    check(one_by_one(lambda graph, inputs: evaluate.run(simplify(graph)[0], inputs)))


@pytest.mark.parametrize("fuse", [True, False])
def test_planned(fuse: bool) -> None:
    def run(graph: Graph, inputs: Arrays) -> Arrays:
        planned = plan(graph, fuse)
        verify_plan(planned)
        return run_plan(planned, inputs)

    check(one_by_one(run))


@pytest.mark.parametrize("device", ["generic", "x86_64_avx512", "cortex_m7"])
def test_scheduled(device: str) -> None:
    def run(graph: Graph, inputs: Arrays) -> Arrays:
        program = schedule(plan(graph), load_device(device), ScheduleOptions(2))
        verify_program(program)
        warn_of_repeats(program)
        return run_program(program, inputs)

    check(one_by_one(run))


@pytest.fixture
def folders(tmp_path: Path) -> Iterator[Path]:
    def numbered() -> Iterator[Path]:
        for k in range(1000):
            folder = tmp_path / str(k)
            folder.mkdir()
            yield folder

    return numbered()


@pytest.mark.parametrize(
    "device, simplified, fuse", [("host", True, True), ("generic", False, True), ("host", False, False)]
)
def test_compiled(device: str, simplified: bool, fuse: bool, folders: Iterator[Path]) -> None:
    where = target(device)

    def run(batch: Mapping[str, tuple[Graph, Arrays]]) -> dict[str, Arrays | str]:
        graphs = {name: simplify(g)[0] if simplified else g for name, (g, _) in batch.items()}
        made = compile_graphs(graphs, next(folders), fuse, where.flags, where.device, threads=3)
        result: dict[str, Arrays | str] = {}
        for name, compiled in made.items():
            if not isinstance(compiled, Compiled):
                result[name] = str(compiled)
                continue
            try:
                result[name] = compiled(batch[name][1])
                shared = compiled(batch[name][1], 3)
                same = all(np.array_equal(shared[p], a, equal_nan=a.dtype.kind == "f") for p, a in result[name].items())
                result[name] = result[name] if same else "other results on 3 threads"
            except AssertionError as error:
                result[name] = str(error)
        return result

    check(run)


def test_inside_buffers(folders: Iterator[Path]) -> None:
    def run(batch: Mapping[str, tuple[Graph, Arrays]]) -> Mapping[str, Arrays | str]:
        graphs = {name: graph for name, (graph, _) in batch.items()}
        return run_sanitized(
            graphs, {n: x for n, (_, x) in batch.items()}, next(folders), target("host"), ADDRESS_ALONE
        )

    check(run)


def test_on_gpus(folders: Iterator[Path]) -> None:
    """CUDA's kernels on the processor, and OpenCL's where there is a driver; what has no kernel yet is refused."""

    def emulated(graph: Graph, device: Device) -> Network:
        made = emulate({"all": graph}, next(folders), device)["all"]
        assert isinstance(made, Emulated), made
        return made

    def driven(graph: Graph, device: Device) -> Network:
        def call(inputs: Arrays) -> Arrays:
            with network(graph, next(folders) / "net", device) as run:
                return run(inputs)

        return call

    ways = [("jetson", emulated), *([("host_pocl", driven)] if driver() else [])]
    for name, way in ways:
        check(partial(_together, load_device(name), way), 1 if COUNT > 60 else 3)


def _together(
    device: Device,
    way: Callable[[Graph, Device], Callable[[Arrays], Arrays]],
    batch: Mapping[str, tuple[Graph, Arrays]],
) -> dict[str, Arrays | str]:
    """All graphs that a GPU takes, as one network."""
    taken, wrong = accepted({name: graph for name, (graph, _) in batch.items()}, device)
    assert not wrong, wrong
    given = {f"{n}:{port}": x for n in taken for port, x in batch[n][1].items()}
    got = way(joined(taken), device)(given) if taken else {}
    return {
        n: {port: got[f"{n}:{port}"] for port, _ in graph.outputs} if n in taken else evaluate.run(graph, inputs)
        for n, (graph, inputs) in batch.items()
    }
