"""The measurements beside other engines: engines by turns, what failed, and the page."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import edgec
from benchmarks import peers, readme
from benchmarks.cpu import peak
from benchmarks.engines import install as peer_install
from benchmarks.engines import page as peer_page
from benchmarks.engines import rounds as peer_rounds
from edgec.check.reference import Reference
from edgec.device.load import load_device
from edgec.device.toolchain import pick_compiler
from edgec.execute.samples import random_inputs
from edgec.resources import data_folder

DIGITS = data_folder("apps") / "digits" / "digits.onnx"


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """edgec and onnxruntime on the shipped network."""
    folder = tmp_path_factory.mktemp("peers")
    built = edgec.build(DIGITS, folder / "digits", threads=2, device="host")
    assert built.onnx is not None
    inputs = random_inputs(built.stages.graph, 0)
    np.savez(folder / "in.npz", **inputs)
    np.savez(folder / "ref.npz", **Reference(built.onnx, built.options.values, 1).run(inputs))
    common = {"python": sys.executable, "threads": 1}
    device = load_device("host")
    return {
        "peak": [str(program) for program in peak.programs(device, pick_compiler(device), folder)],
        "engines": [
            {"label": "edgec", "engine": "edgec", "model": str(folder / "digits"), **common},
            {"label": "onnxruntime", "engine": "onnxruntime", "model": str(DIGITS), **common},
            {"label": "nothing", "engine": "onnxruntime", "model": str(folder / "no.onnx"), **common},
        ],
        "threads": 1,
        "inputs": str(folder / "in.npz"),
        "reference": str(folder / "ref.npz"),
        "seconds": 0.0,
    }


def test_engines_take_turns_and_one_that_fails_says_why(job: dict[str, Any]) -> None:
    cores = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else None
    try:
        measured = peer_rounds.measure(job)
    finally:
        if cores is not None:
            os.sched_setaffinity(0, cores)
    found = measured["engines"]
    assert measured["peak_gflops"] > 0.1
    assert "no.onnx" in found["nothing"]["failed"] and "blocks" not in found["nothing"]
    for name in ("edgec", "onnxruntime"):
        assert found[name]["error"] < 1e-4
        assert len(found[name]["blocks"]["median"]) == peer_rounds.ROUNDS
        assert found[name]["peak_mb"] >= found[name]["before_mb"] > 1
        assert all(low <= high for low, high in zip(found[name]["blocks"]["low"], found[name]["blocks"]["high"]))


def entry(**engines: dict[str, Any]) -> dict[str, Any]:
    return {
        "network": "net", "date": "2020-01-01", "threads": 1, "peak_gflops": 100.0, "cpu": "a CPU", "engines": engines,
        "missing": {"mnn": "no such package"},
    }  # fmt: skip


def timed(*ms: float, error: float | str = 1e-6) -> dict[str, Any]:
    times = {"low": list(ms), "median": list(ms), "high": list(ms)}
    start = {"version": "1.0", "import_s": 0.1, "load_s": 0.2, "first_s": 0.3, "before_mb": 20, "peak_mb": 30}
    return {"error": error, "blocks": times, **start}


def read(folder: Path, found: dict[str, Any]) -> peer_page.Table:
    build = {"compiler": "cc 1", "macs": 10**6, "kernels": 3, "edgec_s": 0.1, "compile_s": 0.2}
    build |= dict.fromkeys(("weights_bytes", "arena_bytes", "text_bytes"), 1000)
    (folder / "net.1.json").write_text(json.dumps(found))
    (folder / "net.build.json").write_text(json.dumps({"edgec": build}))
    return peer_page.Table.read(folder, ["net", "never measured"], [1])


def test_the_page_compares_with_the_fastest_that_is_right(tmp_path: Path) -> None:
    engines = {
        "edgec": timed(1.9, 2.0, 2.1), "litert": timed(3.8, 4.0, 4.2), "ncnn": timed(0.5, 0.5, 0.5, error=0.1),
        "openvino": {"failed": "of no use"},
    }  # fmt: skip
    table = read(tmp_path, entry(**engines))
    text = peer_page.page(table, "peers.py")
    assert table.is_right and table.names == ["net"]
    assert "| net | 2 | 4 | [0.5] | failed | litert | 0.500 (0.500–0.500) | 1% | 1.0e-06 |" in text
    assert "geometric mean 2.00x the fastest peer" in text
    assert "None is." in text
    assert "openvino: of no use (net)" in text and "mnn: no such package (net)" in text


def test_a_spoiled_measurement_counts_in_no_mean(tmp_path: Path) -> None:
    table = read(tmp_path, entry(edgec=timed(1.0, 2.0, 3.0), litert=timed(3.8, 4.0, 4.2)))
    text = peer_page.page(table, "peers.py")
    assert "* net: edgec on 1 thread: times vary by 80%" in text
    assert "on 0 of 0 networks" in text


@pytest.mark.parametrize("error", [1e-3, "not a number"])
def test_a_wrong_result_of_edgec_is_told(tmp_path: Path, error: float | str) -> None:
    table = read(tmp_path, entry(edgec=timed(1.0, error=error), litert=timed(2.0)))
    assert not table.is_right


def test_what_was_measured_is_not_measured_again(tmp_path: Path) -> None:
    options = peers._options(["--engines", "litert", "mnn"])
    path = tmp_path / "net.1.json"
    assert not peers._is_measured(path, options)
    path.write_text(json.dumps(entry(edgec=timed(1.0), litert=timed(1.0))))
    assert peers._is_measured(path, options)  # one of the two engines cannot be had, which is known as well
    assert not peers._is_measured(path, peers._options(["--engines", "ncnn"]))


def test_a_conversion_that_failed_is_remembered(tmp_path: Path) -> None:
    failure = tmp_path / "converted" / "ncnn" / "net" / "failed.txt"
    failure.parent.mkdir(parents=True)
    failure.write_text("pnnx: no\n")
    with pytest.raises(peer_install.NotHad, match="pnnx: no"):
        peer_install.model_for("ncnn", tmp_path / "net.onnx", {}, tmp_path)
    with pytest.raises(peer_install.NotHad, match="--tflite"):
        peer_install.model_for("litert", tmp_path / "net.onnx", {}, tmp_path)


def measured(folder: Path, name: str, threads: int, low: float) -> None:
    found = entry(edgec=timed(1.9, 2.0, 2.1), litert=timed(low, low, low), onnxruntime=timed(6.0 / threads))
    found |= {"network": name, "threads": threads}
    (folder / f"{name}.{threads}.json").write_text(json.dumps(found))


def test_the_readme_has_its_table_when_all_rows_are_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results, pages = tmp_path / "results", tmp_path / "docs" / "results"
    pages.mkdir(parents=True)
    results.mkdir()
    for path in (tmp_path / "README.md", pages / "summary.md"):
        path.write_text("before\n<!-- benchmarks -->\nold\n<!-- /benchmarks -->\nafter\n")
    build = {"compiler": "cc 1", "macs": 10**6, "kernels": 3, "edgec_s": 0.1, "compile_s": 0.2}
    build |= dict.fromkeys(("weights_bytes", "arena_bytes", "text_bytes"), 1000)
    for name in readme.SHOWN:
        (results / f"{name}.build.json").write_text(json.dumps({"edgec": build}))
        for threads in (1, 2):
            measured(results, name, threads, 5.0 - threads)
    again = ["--cache", str(tmp_path), "--into", str(tmp_path), "--pages-only"]
    assert readme.main(again) == 1  # eight networks are not measured
    text = (tmp_path / "README.md").read_text()
    assert "| bert_base_128 | 2 | litert 4 | 6 | 2.00x | 2 | 1.50x |" in text and "old" not in text
    assert "of 6 over the fastest peer 2.00x (2.00 to 2.00) on 1 thread and 1.50x (1.50 to 1.50) on 2 threads" in text
    assert "Written by `python -m benchmarks.readme --seconds 2`" in (pages / "peers.md").read_text()
    said = capsys.readouterr().out
    assert "* gpt2_64: not measured on 1 and 2 thread(s)" in said and "* mnn: no such package" in said
    (results / f"{readme.SHOWN[0]}.2.json").unlink()
    (tmp_path / "README.md").write_text("before\n<!-- benchmarks -->\nold\n<!-- /benchmarks -->\nafter\n")
    readme.main(again)
    assert "old" in (tmp_path / "README.md").read_text()
    assert f"README.md is left as it was: no measurement of {readme.SHOWN[0]}" in capsys.readouterr().out
