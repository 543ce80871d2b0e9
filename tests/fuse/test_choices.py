"""Choices by price: the model where nobody measured, the database where somebody did, the lock whatever is known."""

from __future__ import annotations

import json
from pathlib import Path

import networks_here as networks
import numpy as np
import pytest
from small_models import model, node, tensor_input, weights

import edgec
from edgec import ops
from edgec.artifact.folder import read_lock
from edgec.check.compare import compare_all
from edgec.device.load import load_device
from edgec.errors import UsageError
from edgec.execute.executor import run_graph, run_plan
from edgec.execute.samples import random_inputs
from edgec.fuse import Block, Plan, plan
from edgec.fuse.choice import BlockCosts, fingerprint
from edgec.fuse.cost_model import CostModel, work
from edgec.ir.graph import Graph, Node, constant, placeholder
from edgec.ir.types import Type
from edgec.options import resolve
from edgec.tune.database import Measured, Profiles, Target, target_of
from edgec.tune.known import prices_for, target
from edgec.tune.local import describe


@pytest.fixture
def database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Profiles:
    monkeypatch.setenv("EDGEC_PROFILES", str(tmp_path / "profiles.sqlite"))
    return Profiles()


def value(name: str, *shape: int) -> Node:
    return placeholder(name, Type("f32", shape))


def two_readers(n: int = 4096) -> Graph:
    """An exponential that two reductions read."""
    x = value("x", 4, n)
    e = ops.node("exp", x)
    rows = [ops.node("reduce", ops.node("mul", e, s), combine="add", axes=(1,)) for s in (x, e)]
    return Graph((x,), tuple((f"y{k}", r) for k, r in enumerate(rows)))


def planned(graph: Graph, **prices: float) -> Plan:
    """A plan by prices that are given by the kind of a block; everything else is a second."""
    return plan(graph, True, BlockCosts(lambda block: prices.get(block.kind, 1.0)))


# ---- prices decide


def test_the_cheaper_way_is_taken_and_right() -> None:
    graph = two_readers()
    inputs = random_inputs(graph, 0)
    want = run_graph(graph, inputs)
    stored, again = planned(graph, map=0.01), planned(graph, map=5.0)
    assert (len(stored.blocks), len(again.blocks)) == (3, 2)
    for found in (stored, again):
        (choice,) = found.decisions.choices
        assert choice.kind == "recompute" and choice.source == "model" and len(choice.others) == 1
        assert choice.taken.seconds < choice.others[0].seconds * 1.2
        assert all(d.within(1e-5) for d in compare_all(run_plan(found, inputs), want))


def test_attention_is_a_choice_below_a_size_and_none_above() -> None:
    for length, asked in ((64, True), (300, False)):
        graph = edgec.load(networks.attention(length)).graph
        for price, taken in ((0.001, "attention"), (9.0, "products and softmax apart")):
            found = planned(graph, attention=price)
            names = [c.taken.name for c in found.decisions.choices if c.kind == "attention"]
            assert names == ([taken] if asked else [])
            kinds = [b.kind for b in found.blocks]
            assert ("attention" in kinds) == (taken == "attention" or not asked)


def test_pooling_in_registers_is_a_choice_and_right_both_ways() -> None:
    x, w = value("x", 1, 5, 9, 8), constant(np.random.default_rng(3).standard_normal((16, 5, 3, 3), np.float32))
    sums = ops.node("conv", x, w, strides=(1, 1), dilations=(1, 1), groups=1)
    graphs = [
        Graph((x,), (("y", ops.node("pool", sums, combine="max", kernel=(2, 2), strides=(s, s), dilations=(1, 1))),))
        for s in (2, 1)
    ]
    inputs = random_inputs(graphs[0], 0)
    whole = planned(graphs[0])
    (choice,) = whole.decisions.choices
    assert (choice.kind, choice.taken.name, len(whole.blocks)) == ("pool", "pooled in registers", 1)
    frozen = {choice.key: "stored, then pooled"}
    apart = plan(graphs[0], True, BlockCosts(lambda block: 1.0, frozen=frozen))
    assert [b.kind for b in apart.blocks] == ["contract", "window"]
    assert any(v.constraint == "price" and v.choice is not None for v in apart.decisions.verdicts)
    for found in (whole, apart):
        assert all(d.within(1e-5) for d in compare_all(run_plan(found, inputs), run_graph(graphs[0], inputs)))
    overlapping = planned(graphs[1])
    assert [b.kind for b in overlapping.blocks] == ["contract", "window"] and not overlapping.decisions.choices


def test_work_on_rows_is_counted_once() -> None:
    """A softmax of n elements is a few operations each, though its formula has a sum inside its sum's terms."""
    x = value("x", 40, 50)
    e = ops.node("exp", ops.node("sub", x, ops.node("reduce", x, combine="max", axes=(1,))))
    (block,) = plan(Graph((x,), (("y", ops.node("div", e, ops.node("reduce", e, combine="add", axes=(1,)))),))).blocks
    assert 4 * 2000 <= work(block) <= 40 * 2000


def test_verdicts_hold_the_prices() -> None:
    for price in (0.01, 5.0):
        found = planned(two_readers(), map=price)
        told = [v for v in found.decisions.verdicts if v.choice is not None]
        assert len(told) == 2 and all(v.fused == (price > 1) for v in told)


def test_the_model_knows_what_costs() -> None:
    """More work, more bytes, and weaker vectors cost more."""
    graph = networks.graph("attention")
    assert graph is not None
    blocks = plan(graph).blocks
    small, large = load_device("cortex_m4"), load_device("x86_64_avx512")
    for block in blocks:
        assert CostModel(small)(block) > CostModel(large)(block) > 0
    by_length = [
        sum(map(CostModel(large), plan(edgec.load(networks.attention(n)).graph).blocks)) for n in (32, 64, 128)
    ]
    assert by_length == sorted(by_length)


# ---- fingerprints


def blocks_of(graph: Graph) -> list[Block]:
    return list(plan(graph).blocks)


def test_equal_blocks_of_different_networks_have_one_fingerprint() -> None:
    def graph(name: str, n: int, factor: float) -> Graph:
        x = value(name, 3, n)
        return Graph((x,), ((f"of {name}", ops.node("mul", ops.node("exp", x), constant(np.float32(factor)))),))

    (a,), (b,), (c,), (d,) = (blocks_of(graph(*g)) for g in (("x", 5, 2), ("other", 5, 2), ("x", 6, 2), ("x", 5, 3)))
    assert fingerprint(a) == fingerprint(b)
    assert len({fingerprint(block) for block in (a, c, d)}) == 3


# ---- the database


def entry(block: str, seconds: float, device: str = "here") -> Measured:
    return Measured(block, Target(f"target of {device}", device, "cc 1"), seconds, f"map: {block}")


def test_database_keeps_replaces_exports_and_forgets(database: Profiles, tmp_path: Path) -> None:
    assert database.entries() == [] and database.known(entry("a", 1).target) == {} and not database.path.exists()
    database.put([entry("a", 1e-6), entry("b", 2e-6), entry("a", 3e-6, "there")])
    database.put([entry("a", 4e-6)])
    assert database.known(entry("a", 1).target) == {"a": 4e-6, "b": 2e-6}
    other = Profiles(tmp_path / "other.sqlite")
    assert other.import_(json.loads(json.dumps(database.exported())), "x") == 3
    assert other.entries() == database.entries()
    assert database.clear() == 3 and database.entries() == []


@pytest.mark.parametrize("data", [[], {}, {"edgec_profiles": 2, "times": []}, {"edgec_profiles": 1, "times": [{}]}])
def test_what_is_no_export_is_refused(database: Profiles, data: object) -> None:
    with pytest.raises(UsageError, match="no export of profiles"):
        database.import_(data, "x.json")
    assert database.entries() == []


def test_a_file_that_is_no_database_is_refused(database: Profiles) -> None:
    database.path.write_text("something else entirely, longer than a header of sqlite is, which has 100 bytes" * 4)
    with pytest.raises(UsageError, match="no profile database"):
        database.entries()


def test_targets_differ_by_device_compiler_and_templates(tmp_path: Path) -> None:
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "mine.c.jinja").write_text("x")
    host, other = load_device("host"), load_device("arm64")
    targets = [target_of(host, "gcc 1"), target_of(other, "gcc 1"), target_of(host, "gcc 2"),
               target_of(host, "gcc 1", [tmp_path])]  # fmt: skip
    assert len({t.fingerprint for t in targets}) == 4


# ---- tuning and locks


def masked(features: int = 24) -> object:
    """Two kernels read one gate; rows are gathered before a normalization."""
    table = weights("table", np.random.default_rng(0).standard_normal((50, features)).astype(np.float32))
    nodes = [
        node("Gather", ["table", "ids"], ["rows"], "rows"),
        node("LayerNormalization", ["rows", "scale"], ["normal"], "normal"),
        node("Sigmoid", ["g"], ["gate"], "gate"),
        node("Mul", ["normal", "gate"], ["a"]),
        node("ReduceMean", ["a"], ["mean"], keepdims=0, axes=[1]),
        node("Add", ["normal", "gate"], ["b"]),
        node("Softmax", ["b"], ["soft"], axis=-1),
    ]
    from onnx import TensorProto

    inputs = [tensor_input("ids", [40], TensorProto.INT64), tensor_input("g", [40, features])]
    constants = [table, weights("scale", np.ones(features, np.float32))]
    return model(nodes, inputs, ("mean", "soft"), constants, opset=17)


def test_tuning_fills_the_database_and_decides(database: Profiles) -> None:
    options = resolve({})
    done = edgec.tune(masked(), 60.0)
    assert done.measured >= 2 and done.skipped == 0
    known = database.known(target(options))
    assert len(known) == done.measured and all(0 < s < 1 for s in known.values())
    graph = edgec.build(masked(), compile=False).graph
    choices = plan(graph, True, prices_for(options)).decisions.choices
    assert choices and all(c.source == "measured" for c in choices)
    again = edgec.tune(masked(), 60.0)
    assert (again.measured, again.skipped) == (0, 0) and again.known == done.measured
    assert edgec.check(masked(), samples=1, blocks=True).ok


def test_a_lock_freezes_choices_to_the_byte(database: Profiles, tmp_path: Path) -> None:
    """Whichever way the database decides, a build from its lock is the same without any database."""
    options = resolve({})
    plain = edgec.build(masked(), tmp_path / "plain", compile=False)
    usual = read_lock(tmp_path / "plain")["choices"]
    assert usual
    unknown = prices_for(options)
    plan(plain.graph, True, unknown)
    for cheap in ("map", "row"):
        times = [
            Measured(f, target(options), 1e-3 if b.kind == cheap else 1.0, describe(b))
            for f, b in unknown.unknown.items()
        ]
        database.put(times)
        tuned = edgec.build(masked(), tmp_path / cheap, compile=False)
        database.clear()
        frozen = edgec.build(masked(), tmp_path / f"{cheap} again", compile=False, lock=tmp_path / cheap)
        assert dict(tuned.stages["emit"].files) == dict(frozen.stages["emit"].files)
        assert read_lock(tmp_path / cheap)["choices"] == read_lock(tmp_path / f"{cheap} again")["choices"]
    chosen = [read_lock(tmp_path / name)["choices"] for name in ("map", "row")]
    assert chosen[0] != chosen[1], "the two databases decided alike: the lock was not put to the test"


def test_a_lock_of_another_model_is_refused(tmp_path: Path) -> None:
    edgec.build(networks.SMALL["convnet"](), tmp_path / "a", compile=False)
    with pytest.raises(UsageError, match="another model"):
        edgec.build(masked(), tmp_path / "b", compile=False, lock=tmp_path / "a")
    assert not (tmp_path / "b").exists()


def test_tuning_needs_the_device(database: Profiles) -> None:
    with pytest.raises(UsageError, match="nothing can be timed here for 'cortex_m4'"):
        edgec.tune(masked(), 1.0, device="cortex_m4")
