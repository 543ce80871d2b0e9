"""The planner's record: a verdict on every pair of neighbors, written down where it was decided."""

from __future__ import annotations

from typing import get_args

import networks_here as networks
import pytest

from edgec.fuse import Plan, plan
from edgec.fuse.classify import Mapping
from edgec.fuse.decisions import Constraint
from edgec.fuse.modes import MODES
from edgec.fuse.table import TABLE, Color, markdown
from edgec.report import why
from edgec.resources import data_folder

DOCS = data_folder("devices").parent / "docs"


def planned(name: str, mode: str = "planner") -> Plan:
    graph = networks.graph(name)
    assert graph is not None
    return plan(graph, mode)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", networks.here())
def test_every_pair_of_neighbors_has_a_verdict(name: str, mode: str) -> None:
    found = planned(name, mode)
    index = why.Index(found)
    writers = {b.output: b for b in found.blocks}
    for block in found.blocks:
        for value in block.inputs:
            if value in writers and value.op != "copy":
                apart = [v for v in why.borders(index, block) if v.writer is value and not v.fused]
                assert apart, (value, block.output)
                assert all(v.constraint in get_args(Constraint) and v.why for v in apart)
                assert any(v in why.borders(index, writers[value]) for v in apart), "both sides tell it"


@pytest.mark.parametrize("name", networks.here())
def test_blocks_are_held_together_by_verdicts(name: str) -> None:
    found = planned(name)
    index = why.Index(found)
    for block in found.blocks:
        connected = {block.output}
        verdicts = why.held(index, block)
        for _ in block.nodes:
            for v in verdicts:
                if v.writer in connected or v.reader in connected:
                    connected |= {v.writer, v.reader}
        assert set(block.nodes) <= connected, [n.op for n in block.nodes if n not in connected]


def test_sentences_name_cell_and_constraint() -> None:
    found = planned("convnet")
    index = why.Index(found)
    told = [line for block in found.blocks for line in why.sentences(index, block)]
    assert any("still holds it" in line for line in told)
    assert any("[class; many-to-many into many-to-many: red]" in line for line in told)
    assert any("written where it belongs in the buffer of concat" in line for line in told)


def test_the_table() -> None:
    """13 pairs are fused without asking, 10 by price, 2 never; and the documentation shows this very table."""
    colors = [cell.color for cell in TABLE.values()]
    assert [colors.count(c) for c in Color] == [13, 10, 2] and len(TABLE) == len(Mapping) ** 2
    assert all((cell.result is None) == (cell.color is Color.RED) for cell in TABLE.values())
    assert markdown() in (DOCS / "design/fusion.md").read_text(encoding="utf-8")
