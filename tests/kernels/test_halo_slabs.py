"""Slabs of a halo: each of its elements once, and none of the value itself, for every padding of small shapes."""

from __future__ import annotations

from collections import Counter
from itertools import product
from types import SimpleNamespace

import pytest

from edgec.ir import expr as X
from edgec.schedule.attention.few_queries import _tile_rows
from edgec.schedule.halo_fill import _slab


@pytest.mark.parametrize("shape", [(1,), (5,), (3, 4), (2, 1, 3), (1, 1), (2, 3, 4)])
def test_loops_of_a_slab_are_those_of_its_box(shape: tuple[int, ...]) -> None:
    """Boxes at any place of a larger buffer, dimensions in any order: merged loops reach the same places."""
    full = [n + 2 for n in shape]
    for order in {tuple(range(len(shape))), tuple(reversed(range(len(shape))))}:
        strides, step = [0] * len(shape), 1
        for d in order:
            strides[d], step = step, step * full[d]
        view = SimpleNamespace(offset=7, strides=tuple(strides))
        for low in product(*([0, 1] for _ in shape)):
            slab = _slab(list(zip(low, shape)), view)  # type: ignore[arg-type]
            want = Counter(
                7 + sum((a + b) * s for a, b, s in zip(low, at, strides)) for at in product(*map(range, shape))
            )
            loops = [range(int(extent)) for extent, _ in slab.loops]
            got = Counter(
                int(slab.start) + sum(i * int(s) for i, (_, s) in zip(at, slab.loops)) for at in product(*loops)
            )
            assert got == want
            assert all(int(extent) > 1 for extent, _ in slab.loops) or slab.loops == ((1, 1),)


def test_rows_of_a_tile_hold_whole_groups_or_an_even_part() -> None:
    for group, most_rows in product(range(1, 20), range(1, 13)):
        rows = (X.var("q", group),) if group > 1 else ()
        found = _tile_rows(rows, most_rows)
        even = max(r for r in range(1, most_rows + 1) if r in [d * group for d in range(1, 13)] or not group % r)
        assert found == (even if 2 * even > most_rows else most_rows) and 1 <= found <= most_rows
