"""Reasons, prices and code of the kernel tests' graphs, each built for one of many devices.

A decision stays the same while a price is wrong, up to a network where it matters; and code that a drawn test does not
run may be anything. A line of ``built/GROUP.txt`` has a graph, a device with its precision, the number of verdicts on
fusion, of choices, of lines on prices and of functions, and a checksum of each: of the verdicts, of the choices, of the
prices to four digits, of the code. Devices, precisions and threads come in turns. ``pytest tests/golden
--update-golden`` writes the lines; look at those that changed before they are committed (``built_lines.built``
returns all that the checksums are of).
"""

from __future__ import annotations

from pathlib import Path

import pytest
from built_lines import line
from kept_graphs import same_draws
from kernel_cases import GROUPS

FOLDER = Path(__file__).with_name("built")


@pytest.mark.parametrize("group", GROUPS)
def test_built_graphs(group: str, update_golden: bool) -> None:
    same_draws()
    lines = [line(name, graph, k) for k, (name, graph) in enumerate(GROUPS[group]())]
    kept = FOLDER / f"{group}.txt"
    if update_golden:
        FOLDER.mkdir(exist_ok=True)
        kept.write_text("\n".join(lines) + "\n", encoding="utf-8")
    assert kept.read_text(encoding="utf-8").splitlines() == lines, "pytest tests/golden --update-golden"
