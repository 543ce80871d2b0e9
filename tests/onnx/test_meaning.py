"""The node tests of the ONNX project by the definitions in numpy, without rules, kernels and a compiler: all of them.

`test_node_tests` runs a drawn part of them in C.
"""

from __future__ import annotations

from collections import defaultdict

import pytest
from node_tests import cases, operator, outcome


def by_operator() -> dict[str, list[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    for name, case in cases().items():
        found[operator(case)].append(name)
    return found


NAMES = by_operator()


@pytest.mark.filterwarnings("ignore:.*its bounds should be scalars")
@pytest.mark.parametrize("op", sorted(NAMES))
def test_meaning(op: str) -> None:
    found = {name: outcome(cases()[name]) for name in NAMES[op]}
    assert not {name: o.reason for name, o in found.items() if o.status == "failed"}
    assert not all(o.status == "refused" for o in found.values())
