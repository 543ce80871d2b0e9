"""Every kernel template on shapes around its edges, held against the formulas it was made from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from chance import SEED
from compiled import Compiled, compile_graphs, program_of, target
from drawn import part
from kernel_cases import cases
from sanitized import ADDRESS, THREAD, run_sanitized
from small_graphs import arrays, doubled
from test_few_queries import attention
from test_shared_steps import EAGER, GRAPHS, THREADS

from edgec.device.load import load_device
from edgec.emit.registry import choose, templates
from edgec.emit.source import generate
from edgec.emit.views import View
from edgec.emit.views.chain import ChainView
from edgec.ir import evaluate
from edgec.ir.graph import Graph
from edgec.schedule.program import Kernel, Program

TOLERANCE = 1e-5  # of the largest value

BY_GROUP = cases()
CASES = {name: graph for graphs in BY_GROUP.values() for name, graph in graphs.items()}
Arrays = Mapping[str, np.ndarray]


@cache
def expected(name: str) -> tuple[Arrays, Arrays]:
    """Inputs of a case and its outputs: floats in double precision."""
    given = arrays(CASES[name], SEED)
    wide = {k: v.astype(np.float64) if v.dtype == np.float32 else v for k, v in given.items()}
    return given, evaluate.run(doubled(CASES[name]), wide)


def difference(got: np.ndarray, want: np.ndarray, slack: float = 0.0) -> str | None:
    """Description of the error of a result, or None; ``slack`` is an error that is always allowed."""
    if got.shape != want.shape:
        return f"its shape is {got.shape}, not {want.shape}"
    if got.dtype.kind != "f":
        wrong = np.argwhere(got != want)
        return (
            f"{len(wrong)} differ, first {wrong[0]}: {got[tuple(wrong[0])]} for {want[tuple(wrong[0])]}"
            if len(wrong)
            else None
        )
    with np.errstate(all="ignore"):
        rounded = want.astype(got.dtype)
        same = (got == rounded) | (np.isnan(got) & np.isnan(rounded))
        finite = np.isfinite(got) & np.isfinite(rounded)
        most = np.max(np.abs(want[finite]), initial=np.finfo(np.float32).tiny)
        close = finite & (np.abs(got - want) <= TOLERANCE * most + slack)
    wrong = np.argwhere(~(same | close))
    if not len(wrong):
        return None
    k = tuple(wrong[0])
    return f"{len(wrong)} of {got.size} differ, first {list(map(int, k))}: {got[k]} for {want[k]} (largest {most:.3g})"


def check(name: str, got: Arrays) -> None:
    given, want = expected(name)
    for port, array in want.items():
        # One number may be what is left when a whole tensor cancels: it is off by roundings of what was added up.
        added = sum(float(np.abs(x).sum()) for x in given.values() if x.dtype == np.float32)
        wrong = difference(got[port], array, added * 2.0**-22 if array.size == 1 else 0.0)
        assert wrong is None, f"{name} {port}: {wrong} (seed {SEED})"


def some(group: str, use: str) -> dict[str, Graph]:
    """A drawn share of the cases of a group, another for every use."""
    return {name: BY_GROUP[group][name] for name in part(BY_GROUP[group], f"{use} {group}")}


def compiled(
    name: str, graphs: Mapping[str, Graph], folder: Path, fuse: bool = True, threads: int = 3
) -> dict[str, Compiled]:
    where = target(name)
    made = compile_graphs(graphs, folder, fuse, where.flags, where.device, threads=threads)
    assert all(isinstance(c, Compiled) for c in made.values()), made
    return {n: c for n, c in made.items() if isinstance(c, Compiled)}


def test_every_template_is_rendered() -> None:
    """Also the ones that are added later: each needs a case here. So does every way a contraction finds its lanes."""
    programs = [program_of(graph) for graph in (*CASES.values(), attention("f32", 1, 3, 16, 2, 300))]
    small = load_device("cortex_a55")  # runs instructions in order
    for device in (small, replace(small, precision="fp16")):
        programs += [program_of(graph, device) for graph in BY_GROUP["contractions"].values()]
    programs += [program_of(GRAPHS["lstm 5x1x16"], EAGER.device, threads=THREADS)]  # steps that threads share
    views = [pair for p in programs for v, k in called(p) for pair in steps(v, k)]
    rendered = {choose(k.template, view, "c").kernel for view, k in views}
    assert rendered == {t.kernel for t in templates("c")}
    modes = {k.schedule.l_mode for _, k in views if k.template == "contract"}
    assert modes == {"packed", "direct", "gathered"}
    for name, graph in BY_GROUP["attentions"].items():
        made = {k.template for k in program_of(graph).kernels}
        assert ("attention" in made) == (name != "no attention"), name


def steps(view: View, kernel: Kernel) -> list[tuple[View, Kernel]]:
    """The kernels of a call: a chain and the kernels it consists of."""
    inner = zip(view.steps, kernel.schedule.steps) if isinstance(view, ChainView) else ()
    return [(view, kernel), *((s.view, k) for s, k in inner)]


def called(program: Program) -> list[tuple[View, Kernel]]:
    return [(c.view, c.kernel) for c in generate(program, "net").calls]


@pytest.fixture(scope="module", params=sorted(BY_GROUP))
def group(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_on_this_machine(group: str, tmp_path: Path) -> None:
    """Right alone, and to the last bit the same on 1, 2, 3 and 5 threads."""
    for name, network in compiled("host", BY_GROUP[group], tmp_path).items():
        given, _ = expected(name)
        alone = network(given)
        check(name, alone)
        for threads in (1, 2, 3, 5):  # of which the program uses 3
            shared = network(given, threads)
            assert all(np.array_equal(alone[p], shared[p], equal_nan=alone[p].dtype.kind == "f") for p in alone), (
                f"{name} on {threads} threads (seed {SEED})"
            )


@pytest.mark.parametrize("joined", ["borders", "chains"])
def test_for_one_thread(joined: str, tmp_path: Path) -> None:
    """One thread waits for nobody: more becomes one call."""
    for name, network in compiled("host", BY_GROUP[joined], tmp_path, threads=1).items():
        check(name, network(expected(name)[0]))


@pytest.mark.parametrize("device", ["generic", "x86_64_avx2"])
def test_for_other_instruction_sets(device: str, group: str, tmp_path: Path) -> None:
    for name, network in compiled(device, some(group, device), tmp_path).items():
        check(name, network(expected(name)[0]))


def test_unfused(group: str, tmp_path: Path) -> None:
    """Of bytes, each is widened by a kernel of its own, and what multiplies is of 32 bits in all."""
    for name, network in compiled("host", some(group, "unfused"), tmp_path, fuse=False).items():
        check(name, network(expected(name)[0]))


def test_stays_inside_its_buffers(group: str, tmp_path: Path) -> None:
    graphs = some(group, "addresses")
    got = run_sanitized(graphs, {n: expected(n)[0] for n in graphs}, tmp_path, target("host"), ADDRESS)
    for name, outputs in got.items():
        check(name, outputs)


def test_threads_do_not_race(group: str, tmp_path: Path) -> None:
    graphs = some(group, "races")
    got = run_sanitized(graphs, {n: expected(n)[0] for n in graphs}, tmp_path, target("host"), THREAD, threads=3)
    for name, outputs in got.items():
        check(name, outputs)
