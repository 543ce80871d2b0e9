"""Panels that are packed at run time beside one another: groups that whole row tiles pass over."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from compiled import program_of, target
from several_threads import hold_on_threads
from small_graphs import graph, transpose, value

from edgec import ops
from edgec.device.load import load_device
from edgec.ir.graph import Graph
from edgec.schedule.contract.contract import GROUPS, Contract
from edgec.schedule.contract.tiles import IN_PLACE_CYCLES, tile_costs, tile_shape

#: So large a second-level cache that small products have groups.
CACHE = 1 << 21


def product(m: int, n: int, k: int, turned: str = "", batch: int = 1, shared: bool = False) -> Graph:
    """A matrix product with what is added to it; factors that are turned have their names in ``turned``."""
    around = (batch,) if batch > 1 else ()
    a = value("a", *around, *((k, m) if "a" in turned else (m, k)))
    b = value("b", *(() if shared else around), *((n, k) if "b" in turned else (k, n)))
    last = (*range(len(around)), len(around) + 1, len(around))
    left = transpose(a, *last) if "a" in turned else a
    right = transpose(b, *(last if len(b.type.shape) == len(last) else (1, 0))) if "b" in turned else b
    return graph(ops.node("add", ops.node("matmul", left, right), value("c", n)))


def graphs() -> Iterator[tuple[str, Graph]]:
    yield "rows of panels", product(700, 1100, 40, "a")
    yield "one group", product(690, 530, 21, "a")
    yield "columns that end within a vector", product(333, 1103, 33)
    yield "terms that are neighbors", product(350, 700, 70, "b")
    yield "parts of a long sum", product(340, 611, 801, "a")
    yield "long, few rows", product(37, 1300, 790)
    yield "several of each", product(330, 520, 36, "a", batch=3)
    yield "one for several", product(130, 520, 36, batch=3, shared=True)
    yield "both turned", product(325, 515, 30, "ab")
    random = np.random.default_rng(17)
    for number in range(12):
        m, n, k = (int(random.integers(*ends)) for ends in ((5, 400), (513, 1300), (1, 900)))
        turned, batch = str(random.choice(["", "a", "b", "ab"])), int(random.choice([1, 1, 2]))
        yield f"drawn {number}: {m} x {n} x {k} {turned} {batch}", product(m, n, k, turned, batch)


CASES = dict(graphs())
#: Cases whose products need not have groups.
OTHERS = ("long, few rows", "one for several")


def schedules(g: Graph, device: str = "x86_64_avx2", cache: int = CACHE) -> list[Contract]:
    program = program_of(g, replace(target(device).device, l2_bytes=cache))
    return [k.schedule for k in program.kernels if isinstance(k.schedule, Contract)]


def test_results_and_bits_on_several_threads(tmp_path: Path) -> None:
    hold_on_threads(CASES, tmp_path, (2, 5), replace(load_device("host"), l2_bytes=CACHE))


@pytest.mark.parametrize("name", [name for name in CASES if name not in OTHERS and not name.startswith("drawn")])
def test_a_group_stays_in_its_share_of_the_cache(name: str) -> None:
    (found,) = schedules(CASES[name])
    assert found.l_mode == "gathered" and found.panel_group > 1 and found.panel_first
    assert 4 * found.panel_group * found.panel_floats <= CACHE // 4
    assert found.panel_groups * found.panel_group >= found.panels > (found.panel_groups - 1) * found.panel_group
    (near,) = schedules(CASES[name], cache=0)
    assert near.panel_group == 1


def test_threads_share_the_groups_of_few_rows() -> None:
    """Every thread packs a group that it computes with: with few rows that would be most of its work."""
    (few,) = schedules(product(64, 4000, 64))
    (many,) = schedules(product(640, 4000, 64))
    assert few.panel_groups >= GROUPS > many.panel_groups


def test_factors_are_packed_where_that_is_less_than_reading_them_from_far() -> None:
    """Rows a page apart share few sets of the nearest cache; near ones, and those of one tile, are read in place."""
    modes = {shape: schedules(product(*shape))[0].l_mode for shape in ((300, 900, 90), (300, 100, 90), (4, 900, 90))}
    assert modes == {(300, 900, 90): "gathered", (300, 100, 90): "direct", (4, 900, 90): "direct"}
    (uncached,) = schedules(product(300, 900, 90), "cortex_m4", cache=0)
    assert uncached.l_mode == "direct"
    (lines,) = schedules(product(300, 900, 90), "x86_64_avx512")  # a vector is a line of the cache
    assert lines.l_mode == "direct"


def test_the_first_rows_of_a_panel_wait_for_memory() -> None:
    """A factor in place that the second cache does not hold: eight of sixteen rows use a line well, six do not."""
    device = load_device("x86_64_avx512")
    sizes = {n: tile_shape(16, n, 1024, device, 4096, in_place=True) for n in (1024, 128)}
    assert sizes == {1024: (8, 3), 128: (6, 4)} and 4 * 128 * 1024 <= device.l2_bytes < 4 * 1024 * 1024
    far, near = (
        {t[3:]: t[0] for t in tile_costs(16, 1024, 1024, replace(device, l2_bytes=size), 4096, in_place=True)}
        for size in (device.l2_bytes, 0)
    )
    line = 64 / device.costs.kernel.memory_bytes
    assert far[6, 4] - near[6, 4] == pytest.approx(16 * 1024 * (4 * line - (6 * 4 / 2 + IN_PLACE_CYCLES * (6 + 4))))
