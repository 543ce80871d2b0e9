"""Behavior of the planner, one constraint a file: a graph before, and the blocks with their verdicts after.

Prices are those of this module, so that no file depends on the model of a device.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, get_args

import pytest

from edgec.fuse import Block, plan
from edgec.fuse.choice import BlockCosts
from edgec.fuse.decisions import Constraint
from edgec.fuse.text import read_plan, write_plan
from edgec.ir import expr as X
from edgec.ir.text import parse, show
from edgec.resources import data_folder

FILES = sorted((Path(__file__).parent / "fuse").glob("*.txt"))
DOCS = data_folder("devices").parent / "docs"
#: The line with arguments of the planner, where it has others than a graph.
ARGUMENTS = re.compile(r"^# plan (\{.*\})$", re.MULTILINE)


def price(block: Block) -> float:
    """Seconds that grow with the square of a formula: what is computed again costs more than what is stored."""
    return len(list(X.walk(block.formula.body))) ** 2 * 1e-9


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_fuse(path: Path) -> None:
    before, after = path.read_text(encoding="utf-8").split("# becomes\n")
    graph = parse(before)
    given = ARGUMENTS.search(before)
    arguments: dict[str, Any] = json.loads(given[1]) if given else {}
    found = plan(graph, prices=BlockCosts(price), **arguments)
    assert path.stem.replace("_", " ") in {v.constraint for v in found.decisions.verdicts if not v.fused}
    written = write_plan(found).text
    assert written == f"{show(graph)}\n{after}"
    assert read_plan(written, {}) == found


def test_every_constraint_has_a_file() -> None:
    """Those that the planner knows, those that the documentation names, and the files are the same."""
    table = (DOCS / "design/fusion.md").read_text(encoding="utf-8").split("| constraint | meaning |\n")[1]
    rows = table.split("\n\n")[0].splitlines()[1:]
    named = {name for row in rows for name in re.findall(r"`([^`]+)`", row.split("|")[1])}
    assert named == set(get_args(Constraint)) == {p.stem.replace("_", " ") for p in FILES}
