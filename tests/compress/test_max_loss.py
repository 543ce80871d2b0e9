"""Mixed precision within a bound: who stays in floats, and what is told of it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import edgec
from edgec.compress import Request, compress
from edgec.compress.gain import gain
from edgec.compress.layers import layers_of
from edgec.compress.max_loss import FIGURES, parsed
from edgec.compress.search import most
from edgec.device.load import load_device
from edgec.errors import CheckError, UsageError
from edgec.report import build as build_report
from edgec.report import compression
from tests.compress.compressible import data, hostile

HOSTILE, NAME = hostile()
PLAIN = load_device("x86_64_avx512")
PAIRS = replace(PLAIN, instruction_sets=(*PLAIN.instruction_sets, "avx512bf16"))


def test_the_hostile_layer_stays_in_floats_and_the_budget_is_kept(tmp_path: Path) -> None:
    path = data(HOSTILE, tmp_path)
    alone = compress(HOSTILE, Request("int8", path, corrections=(), device=PLAIN))
    assert alone.report is not None
    assert max(alone.report.layers, key=lambda row: row.share).name == NAME
    found = compress(HOSTILE, Request("mixed", path, max_loss="max_rel=0.1", corrections=(), device=PLAIN))
    report = found.report
    assert report is not None and report.value is not None and report.value <= 0.1
    floats = [row for row in report.layers if row.precision == "float"]
    assert [row.name for row in floats] == [NAME]
    assert "not kept" in floats[0].reason
    assert report.errors == "outputs" and 0.5 < floats[0].share <= 1


@pytest.mark.parametrize("max_loss, precision", [("max_rel=0.1", "bf16"), ("max_rel=3e-3", "float")])
def test_what_cannot_be_bytes_is_bf16_where_that_is_quicker(max_loss: str, precision: str, tmp_path: Path) -> None:
    """The hostile layer would lose little of its results in bf16: only the tighter bound keeps it in floats."""
    network, _ = hostile(32)  # tensors that are worth 16 bits
    found = compress(
        network, Request("mixed", data(network, tmp_path), "minmax", max_loss, corrections=(), device=PAIRS)
    )
    report = found.report
    assert report is not None and report.value is not None and report.value <= parsed(max_loss).bound
    (row,) = (row for row in report.layers if row.name == NAME)
    assert row.precision == precision and "not kept" in row.reason
    assert (NAME in (found.bf16_layers or ())) == (precision == "bf16")
    built = edgec.build(network, start="compress", quantize="mixed", calibrate=tmp_path / "data.npz", numeric="exact",
                        max_loss=max_loss, corrections="none", device=PAIRS, compile=False)  # fmt: skip
    (kernel,) = (k for k in built.program.kernels if NAME in k.names)
    assert any(b.dtype == "bf16" for b in kernel.operands if b is not kernel.writes) == (precision == "bf16")


def test_the_compiled_network_keeps_the_budget(tmp_path: Path) -> None:
    path = data(HOSTILE, tmp_path)
    asked = {"start": "compress", "quantize": "mixed", "calibrate": path, "max_loss": "max_rel=0.1"}
    built = edgec.build(HOSTILE, corrections="none", **asked)  # type: ignore[arg-type]
    floats = edgec.build(HOSTILE, start="compress")
    with np.load(path) as file:
        results = [(built(x), floats(x)) for x in file["x"]]
    far = max(float(np.abs(a - b).max()) for a, b in results)
    assert far <= 0.11 * max(float(np.abs(b).max()) for _, b in results)
    told = build_report.record(built)["compression"]
    assert [row["name"] for row in told["layers"] if row["reason"]] == [NAME]
    assert json.dumps(told)
    assert compression.draw(told)


def test_scales_that_move_make_the_layer_bytes_again(tmp_path: Path) -> None:
    report = compress(HOSTILE, Request("mixed", data(HOSTILE, tmp_path), max_loss="max_rel=0.1")).report
    assert report is not None and report.value is not None and report.value <= 0.1
    assert [row.precision for row in report.layers] == ["int8"] * 5
    (row,) = (row for row in report.layers if row.name == NAME)
    assert {"equalize", "smooth"} & {*row.corrections}


def test_an_impossible_budget_names_the_three_largest(tmp_path: Path) -> None:
    path = data(HOSTILE, tmp_path)
    for precision in ("mixed", "int8"):
        with pytest.raises(CheckError) as caught:
            compress(HOSTILE, Request(precision, path, max_loss="max_abs=1e-9", corrections=()))
        assert caught.value.hint is not None
        assert NAME in caught.value.hint and caught.value.hint.count("%") == 3


def test_a_device_without_gain_refuses() -> None:
    with pytest.raises(UsageError, match="gain nothing"):
        compress(HOSTILE, Request("int8", device=load_device("jetson_nano")))
    layers = layers_of(HOSTILE)
    fast, plain = (load_device(name) for name in ("galaxy_s20", "arm64"))
    assert all(gain(layer, fast).saved > 0 for layer in layers)
    assert sum(gain(layer, fast).bytes for layer in layers) < sum(gain(layer, plain).bytes for layer in layers)


@pytest.mark.parametrize("holds", range(9))
def test_the_search_finds_the_last_that_holds(holds: int) -> None:
    asked: list[int] = []
    assert most(8, lambda k: bool(asked.append(k)) or k <= holds) == min(holds, 8)
    assert len(asked) <= 6


def test_budgets_are_read_and_refused() -> None:
    assert parsed("top1_drop=0.5").allows(0.5) and not parsed("top1_drop=0.5").allows(0.6)
    assert parsed("cosine=0.99").allows(0.999) and not parsed("cosine=0.99").allows(0.9)
    for text in ("top5=1", "max_abs", "max_abs=a", "max_abs=nan", "=1"):
        with pytest.raises(UsageError, match="no bound"):
            parsed(text)
    with pytest.raises(UsageError, match="whose loss"):
        edgec.build(HOSTILE, start="compress", max_loss="max_abs=1")
    with pytest.raises(UsageError, match="correction 'magic'"):
        edgec.build(HOSTILE, start="compress", quantize="int8", calibrate="random", corrections="bias,magic")


def test_figures_are_of_all_samples() -> None:
    wanted = [{"y": np.array([[1.0, 2.0]])}, {"y": np.array([[4.0, 3.0]])}]
    same = {name: function(wanted, wanted) for name, (function, _) in FIGURES.items()}
    assert same == {"top1_drop": 0, "max_abs": 0, "max_rel": 0, "cosine": pytest.approx(1)}
    got = [{"y": np.array([[2.0, 1.0]])}, {"y": np.array([[4.0, 3.0]])}]
    found = {name: function(wanted, got) for name, (function, _) in FIGURES.items()}
    assert found == {"top1_drop": 50, "max_abs": 1, "max_rel": 0.25, "cosine": pytest.approx(0.8)}


def test_a_difference_that_spares_its_own_sample_counts_where_it_would_decide() -> None:
    max_loss = parsed("top1_drop=2")
    wanted = [{"y": np.array([5.0, 0.0])}, {"y": np.array([1.0, 0.0])}]  # one that is sure, one that is not
    got = [{"y": np.array([3.0, 0.0])}, {"y": np.array([1.0, 0.0])}]
    assert max_loss.of(wanted, got) == 0
    assert max_loss.likely(wanted, got) == 25  # of four pairs, the unsure one with the difference of the sure one
    labels = [np.array(0), np.array(1)]  # which was wrong before, and cannot be lost
    assert max_loss.likely(wanted, got, labels) == 0
    sure = [{"y": np.array([0.99, 0.01])}, {"y": np.array([0.6, 0.4])}]
    same = [{"y": np.array([0.9, 0.1])}, {"y": np.array([0.6, 0.4])}]  # as logarithms, 99:1 became 9:1, so 3:2 turns
    assert max_loss.likely(sure, sure) == 0 and max_loss.likely(sure, same) == 25
    cosine = parsed("cosine=0.9")
    assert cosine.likely(wanted, got) == cosine.of(wanted, got)
