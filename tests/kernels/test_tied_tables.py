"""Tables in the panels of a product: only where its columns are the rows of the table, all of them and in order."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from edgec.ir import expr as X
from edgec.ir.graph import constant
from edgec.schedule.contract.lookup import in_panels

TABLE = constant(np.zeros((6, 64), np.int8))
N, GROUPS, INSIDE = X.fresh(6), X.fresh(4), X.fresh(16)
PLACE = N * 64 + GROUPS * 16 + INSIDE


def schedule(**changed: Any) -> Any:
    usual = {"panel_outer": (), "packed": "words", "place": PLACE, "n": N, "k": (GROUPS, INSIDE), "group": 16,
             "k_extent": 64}  # fmt: skip
    return SimpleNamespace(**{**usual, **changed})


@pytest.mark.parametrize(
    ("changed", "is_there"),
    [
        ({}, True), ({"panel_outer": (X.fresh(2),)}, False), ({"packed": None}, False), ({"place": PLACE + 64}, True),
        ({"place": N * 32 + GROUPS * 16 + INSIDE}, False), ({"place": N * 64 + GROUPS + INSIDE * 4}, False),
        ({"k_extent": 32}, False), ({"n": X.fresh(5)}, False), ({"k": (INSIDE, GROUPS)}, False), ({"group": 8}, False),
        ({"k": (X.const(0), INSIDE), "place": N * 64 + INSIDE}, True),
        ({"n": X.fresh(5), "k_extent": 32}, False),
    ],
    ids=str,
)  # fmt: skip
def test_columns_that_are_rows(changed: dict[str, Any], is_there: bool) -> None:
    if "n" in changed and "place" not in changed:
        changed = {**changed, "place": X.substitute(PLACE, {N: changed["n"]})}
    assert in_panels(TABLE, schedule(**changed)) == is_there


def test_either_alone_is_not_enough() -> None:
    """As many rows, or as long ones."""
    for shape, is_there in (((6, 64), True), ((7, 64), False), ((6, 32), False)):
        assert in_panels(constant(np.zeros(shape, np.int8)), schedule(k_extent=64)) == is_there
    assert not in_panels(constant(np.zeros((5, 64), np.int8)), schedule())
