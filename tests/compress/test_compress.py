"""A network is another one than the model as soon as one of three things was done to it."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from small_graphs import graph, value

from edgec.compress.compress import Compressed
from edgec.ops import node


@pytest.mark.parametrize("report, pruned, rounded", list(product((None, "some"), (None, "some"), (False, True))))
def test_any_change_is_one(report: Any, pruned: Any, rounded: bool) -> None:
    plain = graph(node("neg", value("x", 4)))
    found = Compressed(plain, report, pruned=pruned, has_rounded_weights=rounded)
    assert found.is_changed == bool(report or pruned or rounded)
