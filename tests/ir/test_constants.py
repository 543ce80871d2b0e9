"""Constants are one node where their content is equal, and hashed only where somebody asks for a hash."""

from __future__ import annotations

import numpy as np
import pytest

from edgec.ir import graph
from edgec.ir.graph import Array, constant
from edgec.ops import node

LONG = np.arange(5000, dtype=np.int64)


def test_keys_are_those_of_locks_of_before() -> None:
    assert constant(np.arange(6, dtype=np.float32).reshape(2, 3)).key == "15ddf50eca325f834b4e955b"
    assert constant(LONG).key == "9337500c5d4f63c97b1791c3"


@pytest.mark.parametrize("place", [0, 1, 77, 2500, 4999])
def test_an_element_anywhere_makes_another_constant(place: int) -> None:
    other = LONG.copy()
    other[place] += 1
    assert constant(LONG) is constant(LONG.copy()) is not constant(other)
    assert Array(LONG) == Array(LONG.copy()) != Array(other)
    assert constant(LONG).key != constant(other).key


@pytest.mark.parametrize("size", [6, 5000])
def test_types_and_shapes_tell_constants_apart(size: int) -> None:
    zeros = np.zeros(size, np.int32)
    alike = [zeros, zeros.reshape(2, -1), zeros.view(np.float32), zeros.view(np.uint32), -zeros.astype(np.float32)]
    assert len({constant(a) for a in alike}) == len({Array(a) for a in alike}) == len(alike)


def test_constants_of_other_content_are_not_hashed(monkeypatch: pytest.MonkeyPatch) -> None:
    def hashed(*given: object, **named: object) -> None:
        raise AssertionError("a hash that nobody asked for")

    monkeypatch.setattr(graph, "blake2b", hashed)
    rng = np.random.default_rng(0)
    made = [node("neg", constant(rng.standard_normal(5000))) for _ in range(10)]
    assert len(set(made)) == len(made)
    with pytest.raises(AssertionError, match="nobody"):
        _ = made[0].key


def test_keys_of_long_chains() -> None:
    end = constant(np.ones(3, np.float32))
    for _ in range(3000):
        end = node("neg", end)
    assert end.key != end.args[0].key and len(end.key) == 24
