"""Places where every rule applies, among instances of its own and neighbors of these, and what it makes of them.

A line of ``rules/FILE.txt`` has a rule, a digit for each graph (the number of rewrites that it proposes there, ``x``
where numpy cannot fold the graph), a checksum of the rewrites and one of the costs of both sides. That a rule is right
is proved elsewhere (`tests/rules`); a guard that refuses more or less than before shows here, wrong or not.
``pytest tests/golden --update-golden`` writes the lines; look at those that changed before they are committed.
"""

from __future__ import annotations

import warnings
import zlib
from collections.abc import Callable
from pathlib import Path
from random import Random

import numpy as np
import pytest
from kept_graphs import shown

from benchmarks.rules.near import neighbors
from edgec.errors import EdgecError
from edgec.ir.graph import Graph, Node, topological
from edgec.resources import data_folder
from edgec.rewrite import Rule, rules_in
from edgec.rewrite.measure import total
from edgec.rewrite.prove import _PRICES, Instance, instances_of

RULES = rules_in(data_folder("rewrite_rules"))
FILES = sorted({Path(r.source.rpartition(":")[0]).stem for r in RULES})
FOLDER = Path(__file__).with_name("rules")
INSTANCES, NEIGHBORS = 10, 6


def graphs(rule: Rule) -> list[Node]:
    random = Random(f"where {rule.name}")
    own = list(dict.fromkeys(instances_of(rule, random)))[:INSTANCES]
    return [*own, *(near for node in own for near in neighbors(node, random, NEIGHBORS))]


def costs(node: Node) -> str:
    graph = Graph(tuple(n for n in topological([node]) if n.op == "input"), (("y", node),))
    return " ".join(str(total(graph, prices)) for prices in _PRICES)


def line(rule: Rule) -> str:
    counts, rewrites, measures = "", 0, 0
    for node in graphs(rule):
        try:
            found = [p for p in rule.propose(node, Instance(node)) if isinstance(p, Node)]
        except (EdgecError, ArithmeticError, LookupError, TypeError, ValueError, AssertionError):
            counts += "x"
            continue
        counts += str(min(len(found), 9))
        for side in (node, *found) if found else ():
            rewrites = zlib.crc32(shown(side).encode(), rewrites)
            measures = zlib.crc32(costs(side).encode(), measures)
    return f"{rule.name} {counts} {rewrites:08x} {measures:08x}"


def hold(folder: Path, file: str, line: Callable[[Rule], str], update: bool) -> None:
    """Compare a line for every rule of a file with those that are kept; with ``update``, keep them."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        lines = [line(r) for r in RULES if Path(r.source.rpartition(":")[0]).stem == file]
    kept = folder / f"{file}.txt"
    if update:
        folder.mkdir(exist_ok=True)
        kept.write_text("\n".join(lines) + "\n", encoding="utf-8")
    assert kept.read_text(encoding="utf-8").splitlines() == lines, "pytest tests/golden --update-golden"


@pytest.mark.parametrize("file", FILES)
def test_where_rules_apply(file: str, update_golden: bool) -> None:
    hold(FOLDER, file, line, update_golden)
