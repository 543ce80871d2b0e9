"""Division of kernels among threads, by counting: the work of every thread, from the tasks of a schedule."""

from __future__ import annotations

from functools import singledispatch
from math import prod
from pathlib import Path

import numpy as np
import pytest
from compiled import program_of, target
from several_threads import hold_on_threads
from small_graphs import conv, gelu, graph, pad, relu, transpose, value, weights
from sweep_cases import of_taps
from winograd_cases import image

from edgec import ops
from edgec.ir.graph import Graph
from edgec.ir.nest import most
from edgec.schedule.contract.contract import Contract
from edgec.schedule.contract.winograd import Winograd
from edgec.schedule.division import is_worth, most_even, parts, shares, uneven
from edgec.schedule.program import Schedule
from edgec.schedule.sweep import Sweep
from edgec.schedule.transpose import Transpose
from edgec.schedule.window import Window

DEVICES = ("x86_64_avx512", "x86_64_avx2", "neoverse_v1")


def product(m: int, n: int, k: int, batch: tuple[int, ...] = ()) -> Graph:
    return graph(gelu(ops.node("matmul", value("x", *batch, m, k), weights(*batch, k, n))))


def layer(into: int, out: int, size: int, batch: int = 1) -> Graph:
    """A convolution of 3 x 3 taps by constants."""
    return graph(relu(conv(pad(image(into, size, size, batch=batch), 1, 1), weights(out, into, 3, 3))))


def trained(into: int, out: int, size: int) -> Graph:
    """The same by weights of a run."""
    return graph(relu(conv(pad(image(into, size, size), 1, 1), value("w", out, into, 3, 3))))


def depthwise(channels: int, size: int, kernel: int) -> Graph:
    x = pad(image(channels, size, size), kernel // 2, kernel // 2)
    return graph(relu(conv(x, weights(channels, 1, kernel, kernel), groups=channels)))


def taps(channels: int, size: int) -> Graph:
    return graph(of_taps(pad(value("x", 1, channels, size, size), 1, 1), value("g", 1, channels, size, size)))


#: Graphs with the kind of the kernel that is meant, and the longest share over the mean on two to four threads: where
#: there are few vectors or lines of the cache, none is cut. With tasks that are best on one thread it is longer.
CASES: dict[str, tuple[Graph, type[Schedule], float]] = {
    "rows of a product": (product(197, 192, 768), Contract, 1.03),
    "panels of a product": (product(128, 1200, 312), Contract, 1.03),
    "panels of a row": (product(1, 1000, 2048), Contract, 1.03),
    "panels of a short row": (product(1, 160, 2048), Contract, 1.21),
    "panels of few pixels": (layer(256, 144, 10), Winograd, 1.34),
    "one block of tiles": (layer(80, 80, 20), Winograd, 1.1),
    "few blocks of tiles": (layer(64, 64, 20), Winograd, 1.1),
    "weights of a run": (trained(64, 64, 16), Winograd, 1.13),
    "taps of 96 channels": (taps(96, 56), Sweep, 1.34),
    "taps of 144 channels": (taps(144, 28), Sweep, 1.34),
    "rows of a window": (depthwise(96, 28, 5), Window, 1.03),
    "few rows of a window": (depthwise(1152, 7, 5), Window, 1.03),
    "pairs of rows of a window": (depthwise(480, 14, 5), Window, 1.03),
    "rows of a transpose": (graph(transpose(value("x", 2100, 80), 1, 0)), Transpose, 1.02),
}


@singledispatch
def tasks_of(s: Schedule) -> np.ndarray:
    """Results of each task of a kernel, in the order of its tasks."""
    raise TypeError(s.describe)


@tasks_of.register
def _(s: Contract) -> np.ndarray:
    around = prod(most(v) for v in s.outer if v not in s.panel_outer)
    rows, columns = np.tile(parts(most(s.m), s.tile_chunk * s.rows), around), parts(most(s.n), s.width * s.panel_group)
    each = np.outer(columns, rows) if s.panel_first else np.outer(rows, columns)
    return np.tile(each.ravel(), prod(map(most, s.panel_outer)))


@tasks_of.register
def _(s: Winograd) -> np.ndarray:
    return np.outer(parts(s.tiles, s.block), parts(-(-most(s.n) // s.lanes), s.vectors)).ravel()


@tasks_of.register
def _(s: Sweep) -> np.ndarray:
    tiles = prod(most(v) for v in s.loops) // s.at_once
    return np.tile(parts(-(-most(s.n) // s.lanes), s.vectors), tiles)


@tasks_of.register
def _(s: Window) -> np.ndarray:
    *around, last = [most(v) for v in s.loops]
    rows = np.tile(parts(last, s.deep), prod(around))
    vectors = -(-most(s.n) // s.lanes)
    each = np.outer(rows, parts(vectors, s.columns // s.lanes or vectors))
    return (each.T if s.columns_first else each).ravel()


@tasks_of.register
def _(s: Transpose) -> np.ndarray:
    each = np.outer(parts(most(s.n), s.columns), parts(most(s.m), s.chunk))
    return np.tile(each.ravel(), prod(map(most, s.loops)))


def shares_of(name: str, device: str, built: int, threads: int) -> list[float]:
    """The longest share over the mean of the kernel that a case is about, as it is ``built`` for a number of threads;
    none where the device computes it otherwise."""
    made, kind, _ = CASES[name]
    kernels = (k.main.schedule for k in program_of(made, target(device).device, threads=built).kernels)
    return [uneven(tasks_of(s), threads) for s in kernels if isinstance(s, kind)][-1:]


@pytest.mark.parametrize("name", CASES)
def test_shares_are_even(name: str) -> None:
    several = [(device, threads) for device in DEVICES for threads in (2, 3, 4)]
    found = [share for device, threads in several for share in shares_of(name, device, threads, threads)]
    before = [share for device, threads in several for share in shares_of(name, device, 1, threads)]
    assert found and max(found) <= CASES[name][-1], found
    assert sum(found) < sum(before), before


def test_shares_of_threads() -> None:
    """As the templates divide: consecutive tasks, all of them once, and nothing for threads beyond the tasks."""
    assert shares(7, 3) == [(0, 2), (2, 4), (4, 7)] and shares(1, 2) == [(0, 0), (0, 1)] and shares(0, 2)[1] == (0, 0)
    assert uneven([1, 1, 1], 2) == pytest.approx(4 / 3) and uneven([3, 1, 2], 2) == 1.0
    assert uneven([5], 1) == uneven([], 2) == 1.0 and uneven(np.ones(100_001), 2) == 1.0
    assert parts(10, 4).tolist() == [4, 4, 2] and parts(8, 4).tolist() == [4, 4]


def test_tasks_are_as_large_as_even_shares_allow() -> None:
    def chosen(extent: int, most_of_task: int, threads: int) -> int:
        return most_even(((size, parts(extent, size)) for size in range(most_of_task, 0, -1)), threads)

    assert chosen(64, 16, 2) == 16  # even as it is
    assert chosen(24, 7, 2) == 6 and chosen(15, 5, 3) == 5 and chosen(22, 6, 2) == 1
    assert chosen(1, 1, 4) == 1


def test_short_kernels_are_left_as_one_thread_has_them() -> None:
    device = target("x86_64_avx512").device
    barrier = device.costs.threads.barrier
    assert is_worth(2.1 * barrier, device, 2) and not is_worth(1.9 * barrier, device, 2)
    assert not is_worth(1e9, device, 1)
    small = graph(transpose(value("x", 80, 40), 1, 0))
    alone, shared = (program_of(small, device, threads=t).kernels[0].schedule for t in (1, 2))
    assert isinstance(alone, Transpose) and isinstance(shared, Transpose)
    assert (alone.chunk, alone.columns) == (shared.chunk, shared.columns)


#: Cases whose tasks are parts of what they are on one thread, further ones around the ends of vectors and rows, and
#: those with longer sums.
CUT = {
    "windows": ["rows of a window", "few rows of a window", "pairs of rows of a window", "rows of a transpose"],
    "sums": ["taps of 96 channels", "few blocks of tiles", "weights of a run", "rows of a product", "panels of a row"],
}


@pytest.mark.parametrize("group", CUT)
def test_cut_kernels_compute_the_same(group: str, tmp_path: Path) -> None:
    """Right, and the same bits on any number of threads."""
    cases = {name: CASES[name][0] for name in CUT[group]}
    if group == "windows":
        cases |= {"tail": depthwise(87, 15, 5), "one row": depthwise(700, 1, 5)}
    hold_on_threads(cases, tmp_path, (2, 3, 4, 5))
