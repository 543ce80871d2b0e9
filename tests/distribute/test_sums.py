"""Sums of partial values: added once, by the coordinator, in the order of the workers."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_models import model, node, tensor_input, weights
from test_tensor_networks import SUMS, carried_twice, drawn, shared

import edgec
from edgec.distribute.build import BuiltParts
from edgec.distribute.check import check_over
from edgec.distribute.choose import jobs_of
from edgec.distribute.manifest import Tensor
from edgec.distribute.sums import Sum
from edgec.errors import UsageError
from edgec.ir.dtypes import DTYPES

NAMES = ("a", "b", "c")


@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16", "f64", "i32"])
def test_any_order_of_arrival_gives_the_same_bits(dtype: str) -> None:
    random = np.random.default_rng(2)
    terms = {n: (random.standard_normal(1000) * 10.0 ** random.integers(-3, 4, 1000)).astype(DTYPES[dtype])
             for n in NAMES}  # fmt: skip
    found = set()
    for order in permutations(NAMES):
        own = Sum(Tensor("y", dtype, (1000,), NAMES))
        totals = [own.take(n, terms[n].copy()) for n in order]
        assert totals[0] is None and totals[1] is None and totals[2] is not None
        found.add(totals[2].tobytes())
    wide = np.float32 if dtype in ("f16", "bf16") else DTYPES[dtype]
    a, b, c = (terms[n].astype(wide) for n in NAMES)
    assert found == {((a + b) + c).astype(DTYPES[dtype]).tobytes()}
    if dtype != "i32":
        other = (a + c) + b if wide is DTYPES[dtype] else (terms["a"] + terms["b"]) + terms["c"]
        assert other.tobytes() not in found, "order and rounding make no difference here"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> BuiltParts:
    return shared(tmp_path_factory.mktemp("sums"), carried_twice(), 3, shard=SUMS["carried"])


def test_a_reader_receives_one_value(built: BuiltParts) -> None:
    m = built.manifest
    sums = [t for t in m.tensors.values() if t.terms]
    assert [len(t.terms) for t in sums] == [3, 3] and sums[-1].name in m.outputs
    assert len(m.parts) == 6, "an output that is a sum needs no part"
    value = sums[0].bytes
    second = [p for p in m.parts if sums[0].name in {r.tensor for r in p.reads}]
    assert len(second) == 3
    with edgec.Several(built.folder) as network:
        network.run({"x": np.ones((5, 48), np.float32)})
        assert network.moved == [(2 * value, 2 * value)] * 3
        results = {network.run({"x": np.full((5, 48), 0.3, np.float32)})["y"].tobytes() for _ in range(10)}
        assert len(results) == 1
    assert m.bytes_a_frame == 12 * value


def test_prices_count_one_value_and_the_additions(built: BuiltParts) -> None:
    jobs = jobs_of(built.choice.division)
    value = 5 * 48 * 4
    assert all((j.bytes_in, j.bytes_out) == (value, value) for j in jobs)
    assert [j.bytes_added for j in jobs] == [0, value, value, 0, value, value]
    assert [j.after for j in jobs] == [()] * 3 + [(0, 1, 2)] * 3


def test_an_output_that_others_are_made_of(tmp_path: Path) -> None:
    nodes = [
        node("MatMul", ["x", "w0"], ["a"], "up"),
        node("Relu", ["a"], ["b"], "relu"),
        node("MatMul", ["b", "w1"], ["c"], "down"),
        node("Add", ["x", "c"], ["y"], "carried"),
        node("Neg", ["y"], ["z"], "negative"),
    ]
    made = model(
        nodes, [tensor_input("x", [5, 48])], ["y", "z"],
        [weights("w0", drawn(48, 33)), weights("w1", drawn(33, 48))],
    )  # fmt: skip
    found = shared(tmp_path, made, 2, shard=["up=1"])
    assert [t.name for t in found.manifest.tensors.values() if t.terms] == ["y"]
    with edgec.Several(found.folder) as network:
        got = network.run({"x": np.ones((5, 48), np.float32)})
        assert list(got) == ["y", "z"] and np.array_equal(got["z"], -got["y"])
        assert check_over(network).ok


def _sum(found: dict[str, Any]) -> dict[str, Any]:
    return next(t for t in found["tensors"] if t["terms"])


def _append(found: dict[str, Any], name: str) -> None:
    _sum(found)["terms"].append(name)


DAMAGES: dict[str, Callable[[dict[str, Any]], None]] = {
    "a term of nobody": lambda m: _append(m, "other"),
    "a term twice": lambda m: _append(m, _sum(m)["terms"][0]),
    "itself": lambda m: _append(m, _sum(m)["name"]),
    "an input": lambda m: _append(m, m["inputs"][0]),
    "an output": lambda m: m["outputs"].append(_sum(m)["terms"][0]),
    "one term": lambda m: _sum(m).update(terms=_sum(m)["terms"][:1]),
    "a term fewer": lambda m: _sum(m)["terms"].pop(),
    "another shape": lambda m: _sum(m).update(shape=[48, 5]),
    "another type": lambda m: _sum(m).update(dtype="i32"),
    "no names": lambda m: _sum(m).update(terms=[1, 2]),
    "none at all": lambda m: _sum(m).pop("terms"),
    "a part that reads a term": lambda m: m["parts"][3]["reads"][0].update(tensor=_sum(m)["terms"][0]),
    "a part that gives a sum": lambda m: m["parts"][0].update(writes=[_sum(m)["name"]]),
    "an input that is a sum": lambda m: m["inputs"].append(_sum(m)["name"]),
    "a part before the last term": lambda m: m["parts"][2]["reads"][0].update(tensor=_sum(m)["name"]),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_sum_is_refused(built: BuiltParts, tmp_path: Path, name: str) -> None:
    for k in range(6):
        (tmp_path / f"part{k}").symlink_to(built.folder / f"part{k}")
    found = json.loads((built.folder / "edgec-divided.json").read_text())
    DAMAGES[name](found)
    (tmp_path / "edgec-divided.json").write_text(json.dumps(found))
    with pytest.raises(UsageError, match="is no manifest that edgec writes"):
        edgec.Several(tmp_path)
