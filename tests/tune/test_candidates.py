"""The space of variants of a product: every one can be had by its name, and computes what the others do."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from synthetic import SHAPES, convolutions, products

import edgec
from edgec.execute.samples import random_inputs
from edgec.ir.index import upper
from edgec.schedule.contract.contract import Contract
from edgec.schedule.contract.decisions import read
from edgec.schedule.contract.sparse import IN_FLIGHT
from edgec.schedule.flat import Weights, flatten
from edgec.schedule.variants import Variants, named
from edgec.tune.features import NAMES, features

PRODUCTS = products()
#: The words that variants of these products have, without their numbers.
WORDS = {"chunk", "panels", "unroll", "swapped", "winograd"}


def words(variant: str) -> set[str]:
    return {w.rstrip("0123456789") for w in variant.split() if not w[0].isdigit()}


def test_every_variant_is_had_by_its_name_as_its_record_says() -> None:
    found: set[str] = set()
    for product in PRODUCTS.values():
        flat = flatten(product.block, product.views, Weights())
        space = product.candidates("reassociates")
        assert product.usual in [c.variant for c in space] and len({c.variant for c in space}) == len(space)
        for c in space:
            got = named(flat, product.device, Weights(), c.variant)
            assert got is not None and got.variant == c.variant
            for decision in ("rows", "vectors", "tile_chunk", "panel_first", "unrolled", "l_mode", "block"):
                assert getattr(got, decision, None) == getattr(c.record, decision, None), (c.variant, decision)
            found |= words(c.variant)
    assert found >= WORDS


def test_decisions_are_told_apart_by_their_features() -> None:
    for product in PRODUCTS.values():
        space = product.candidates("reassociates")
        rows = {tuple(features(c, product.device)[name] for name in NAMES) for c in space}
        assert len(rows) >= 0.95 * len(space)
        assert np.isfinite(np.array([*rows])).all()


def test_features_are_shares_and_counts_of_the_record() -> None:
    kinds = set[type]()
    for product in PRODUCTS.values():
        for c in product.candidates("reassociates"):
            f, r = features(c, product.device), c.record
            shares = [f[name] for name in ("arithmetic", "loads", "stream", "tiles", "stores")]
            assert sum(shares) == pytest.approx(1) and min(shares) >= 0
            width = r.vectors * r.lanes
            assert (
                1 - f["idle_lanes"] == pytest.approx(2 ** (f["n"] - f["panels"]) / width) and 0 <= f["idle_lanes"] < 1
            )
            assert f["held"] == f["rows"] * f["vectors"] and f["reuse"] == f["held"] / (f["rows"] + f["vectors"])
            spilled = (f["held"] + f["vectors"] + 1) / product.device.vector_registers
            assert f["registers"] == pytest.approx(spilled) and 2 ** f["lanes"] == pytest.approx(r.lanes)
            assert f["cycles"] == pytest.approx(np.log2(max(c.cycles, 1))) and f["beside"] == c.beside / max(
                c.cycles, 1
            )
            if isinstance(r, Contract):
                rows = 2 ** (f["m"] - f["row_tiles"]) / r.rows
                assert 1 - f["idle_rows"] == pytest.approx(rows) and 0 <= f["idle_rows"] < 1
                assert f["direct"] + f["packed"] == 1 or r.l_mode not in ("direct", "packed")
            else:
                assert f["arithmetic"] / f["loads"] == pytest.approx(f["held"] / (f["rows"] + f["vectors"]))
                assert f["points"] == r.points and 2 ** f["block"] == pytest.approx(r.block)
                weights = 2 ** (f["n"] + f["k"]) * r.points * 4
                assert 2 ** f["constant_bytes"] == pytest.approx(weights / max(1, product.device.l2_bytes))
                panel = 2 ** f["k"] * width * 4
                assert 2 ** f["panel_bytes"] == pytest.approx(panel / max(1, product.device.l1d_bytes))
            kinds.add(type(r))
    assert len(kinds) == 2


def test_features_tell_what_steps_caches_and_code_take() -> None:
    seen = set[bool]()
    for product in PRODUCTS.values():
        larger = replace(product.device, l1d_bytes=4 * product.device.l1d_bytes)
        for c in product.candidates("reassociates"):
            if not isinstance(c.record, Contract):
                continue
            f, g, r = features(c, product.device), features(c, larger), c.record
            height = r.rows * r.sums
            held, steps = height * r.vectors, max(height * r.vectors, height + r.vectors, IN_FLIGHT) / 2
            assert 2 ** f["step"] * held == pytest.approx(steps)
            rounds = 2 ** f["innermost"] if f["unrolled"] else 1
            assert 2 ** f["code"] == pytest.approx(held * rounds)
            near = 2 ** f["near_bytes"] * product.device.l1d_bytes
            assert near == pytest.approx(upper(r.k_extent) * (r.width + height) * 4)
            assert f["near_bytes"] - g["near_bytes"] == pytest.approx(2) and f["traffic"] == g["traffic"]
            swept = f["swept_bytes"] - f["traffic"]  # multiply-adds of vectors
            assert swept == pytest.approx(f["around"] + f["panels"] + f["row_tiles"] + f["k"] + np.log2(held))
            seen.add(bool(f["unrolled"]))
    assert seen == {True, False}


def test_exact_sums_keep_their_order() -> None:
    exact = {c.variant for p in PRODUCTS.values() for c in p.candidates("exact")}
    assert exact and not {w for v in exact for w in words(v)} & {"winograd", "swapped", "gathered", "scattered"}
    variants = Variants({"key": {"2x2": 1.0, "2x2 swapped": 0.1, "4x2 chunk4": 0.5}})
    assert variants.choose("key", "2x2", "exact") == "4x2 chunk4"
    assert variants.choose("key", "2x2", "reassociates") == "2x2 swapped"


def test_tasks_remain_to_be_shared_out() -> None:
    """Kernels alone are timed on one thread: what leaves nothing to the others does not win there."""
    for product in PRODUCTS.values():
        space = {c.variant: c.record for c in product.candidates("reassociates")}
        for variant, record in space.items():
            if "chunk" in variant:
                usual = space[" ".join(w for w in variant.split() if not w.startswith("chunk"))]
                shared = [r.chunks * r.panels for r in (record, usual)]  # type: ignore[union-attr]
                assert shared[0] >= min(16, shared[1])


@pytest.mark.parametrize(
    "variant",
    ["12x2 chunk", "12x2 chunk0", "12x2 chunk4 chunk8", "12x2 rows panels", "12x2 fast", "12x", "x2", "winograd", "abc",
     "12x2  rows", "sparse 4x1 rows", "winograd 4x", "٣x2", "12x2 gathered scattered"],
)  # fmt: skip
def test_other_names_are_no_variants(variant: str) -> None:
    product = next(iter(PRODUCTS.values()))
    flat = flatten(product.block, product.views, Weights())
    assert named(flat, product.device, Weights(), variant) is None


def test_words_are_read() -> None:
    found = read(("swapped", "chunk8", "rows", "unroll1"))
    assert found is not None
    assert (found.swapped, found.chunk, found.panel_first, found.unroll) == (True, 8, False, 1)


@pytest.mark.parametrize("asked", [("chunk unroll", "swapped"), ("panels", "swapped unroll")])
def test_variants_compute_the_same(asked: tuple[str, str], tmp_path: Path) -> None:
    """Variants with these words of a product each, beside onnxruntime."""
    network = convolutions(SHAPES[:2])
    seen = edgec.build(network, compile=False, variants={}, device="host").stages.context.variants
    assert seen is not None and len(seen.seen) == 2
    chosen: dict[str, str] = {}
    for (key, product), of in zip(seen.seen.items(), asked):
        space = [c.variant for c in product.candidates("reassociates")]
        chosen[key] = next(v for v in space if {*of.split()} <= words(v))
    built = edgec.build(network, tmp_path / "built", variants=chosen, device="host")
    assert chosen.items() <= built.program.choices.items()
    inputs = random_inputs(built.stages.graph, 0)
    session = onnxruntime.InferenceSession(network.SerializeToString(), providers=["CPUExecutionProvider"])
    expected = dict(zip((o.name for o in network.graph.output), session.run(None, dict(inputs))))
    for name, value in built.run(inputs).items():
        np.testing.assert_allclose(value, expected[name], rtol=2e-4, atol=2e-4)
