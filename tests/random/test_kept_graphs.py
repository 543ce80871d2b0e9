"""Drawn graphs and networks, simplified and built for one of many devices, as lines of ``kept.txt``.

Results of these are right with most decisions; that one changed shows here. The draws are of numpy's generator, the
same in every run. A line has a graph, the rules that were applied with a checksum of what they left, and what
`built_lines` tells of the code. ``pytest tests/random --update-golden`` writes the lines; look at those that changed.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from built_lines import NUMERICS
from built_lines import line as built_line
from kept_graphs import hold, same_draws, shown
from large_graphs import LargeMaker
from open_graphs import OpenMaker
from random_graphs import GraphMaker
from random_networks import NetworkMaker

from edgec.ir.graph import Graph
from edgec.rewrite import simplify

KEPT = Path(__file__).with_name("kept.txt")
#: Graphs of a test, and tests; every third graph is a network, others have open sizes, or those of real networks.
EACH, TESTS, OPEN, LARGE = 6, 88, 180, 240


class _Dice:
    """Decisions by a generator of numpy, in the place of hypothesis."""

    dice: np.random.Generator

    def pick(self, choices: Sequence[Any]) -> Any:
        every = list(choices)
        return every[int(self.dice.integers(len(every)))]

    def number(self, low: int, high: int) -> int:
        return int(self.dice.integers(low, high + 1))


class Graphs(_Dice, GraphMaker):
    def __init__(self, seed: int) -> None:
        self.dice = np.random.default_rng(seed)
        super().__init__(lambda _: seed, seed % 7 == 1)


class Networks(_Dice, NetworkMaker):
    def __init__(self, seed: int) -> None:
        self.dice = np.random.default_rng(seed)
        super().__init__(lambda _: seed)


def drawn(seed: int) -> Graph:
    if seed >= LARGE:
        return LargeMaker(seed).graph()
    if seed >= OPEN:
        return OpenMaker(seed).graph(3 + seed % 6)
    while True:
        case = Networks(seed).network(3 + seed % 9) if seed % 3 == 0 else Graphs(seed).graph(3 + seed % 8)
        if case is not None:
            return case.graph
        seed += 100_000


def line(seed: int) -> str:
    same_draws()
    simple, applied = simplify(drawn(seed), numeric=NUMERICS[seed % 3])
    rules = zlib.crc32(" ".join(a.rule for a in applied).encode())
    nodes = zlib.crc32("\n".join(shown(n) for _, n in simple.outputs).encode())
    return built_line(f"{seed} | {len(applied)} {rules:08x} {nodes:08x}", simple, seed)


@pytest.mark.parametrize("first", range(0, EACH * TESTS, EACH))
def test_kept_graphs(first: int, update_golden: bool) -> None:
    hold(KEPT, [line(seed) for seed in range(first, first + EACH)], update_golden)
