"""Results of all rules together on instances of each, and the names that are given to them.

A line of ``simplified/FILE.txt`` has a rule, the rules that were applied, the names of what is left and a checksum of
its operators. ``pytest tests/golden --update-golden`` writes the lines.
"""

from __future__ import annotations

import zlib
from pathlib import Path
from random import Random

import pytest
from test_where_rules_apply import FILES, hold, shown

from edgec.ir.graph import Graph, topological
from edgec.ops import node
from edgec.rewrite import Rule, simplify
from edgec.rewrite.names import cover
from edgec.rewrite.prove import instances_of

FOLDER = Path(__file__).with_name("simplified")
#: Instances of each rule; all of them are outputs of one graph.
INSTANCES = 8


def line(rule: Rule) -> str:
    own = list(dict.fromkeys(instances_of(rule, Random(f"simplified {rule.name}"))))[:INSTANCES]
    twice = [node("neg", n) if n.type.dtype in ("f32", "f64") else n for n in own]
    inputs = tuple(n for n in topological(own) if n.op == "input")
    graph, applied = simplify(Graph(inputs, tuple((f"y{k}", n) for k, n in enumerate(twice))), numeric="approximates")
    named = " ".join(n.name.replace(" ", "_") for n in cover(graph))
    checksum = zlib.crc32("\n".join(shown(n) for _, n in graph.outputs).encode())
    return f"{rule.name} | {' '.join(a.rule for a in applied)} | {named} | {checksum:08x}"


@pytest.mark.parametrize("file", FILES)
def test_simplified(file: str, update_golden: bool) -> None:
    hold(FOLDER, file, line, update_golden)
