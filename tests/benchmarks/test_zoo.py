"""The zoo: the order of its catalog, a row of a network from its file to the page, and what stops one."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from benchmarks import measure
from benchmarks.zoo import __main__ as zoo
from benchmarks.zoo import page, rows
from benchmarks.zoo.entries import Entry, load, mixed, save
from benchmarks.zoo.making import Maker, NotMade
from benchmarks.zoo.single import rounding_of, sensitivity
from edgec import ops
from edgec.bench.timing import thread_seconds, wall_seconds
from edgec.ir.graph import Graph, placeholder
from edgec.ir.types import Type

SOURCES = ("timm", "torchvision", "transformers")


def entries(source: str, count: int, families: int = 3) -> list[Entry]:
    return [Entry(source, f"net{k}", f"family{k % families}", "legacy", 17) for k in range(count)]


def test_every_prefix_is_a_fair_sample() -> None:
    order = mixed([entries("timm", 60), entries("torchvision", 30), entries("transformers", 10)])
    assert (
        len(order) == 100
        and mixed([entries("timm", 60), entries("torchvision", 30), entries("transformers", 10)]) == order
    )
    shares = [sum(e.source == source for e in order[:20]) for source in SOURCES]
    assert shares == [12, 6, 2]
    first = [e.family for e in order if e.source == "timm"][:3]
    assert sorted(first) == ["family0", "family1", "family2"], "each family once before any comes twice"


def test_names_of_entries_are_those_of_files(tmp_path: Path) -> None:
    entry = Entry("transformers", "CausalLM:gpt2", "CausalLM", "dynamo", 20, "int8-qdq")
    assert entry.name == "transformers-CausalLM-gpt2-dynamo-20-int8-qdq"
    assert entry.base.name == "transformers-CausalLM-gpt2-dynamo-20" and entry.suffix == ".onnx"
    save([entry], tmp_path / "catalog.jsonl")
    assert load(tmp_path / "catalog.jsonl") == [entry]


def matmul(path: Path, operator: str = "Relu") -> None:
    weights = np.random.default_rng(0).standard_normal((32, 16)).astype(np.float32)
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node(operator, ["h"], ["y"])]
    ports = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, size]) for n, size in (("x", 32), ("y", 16))]
    graph = helper.make_graph(nodes, "g", ports[:1], ports[1:], [numpy_helper.from_array(weights, "w")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """A cache with the files of three networks: one right, one of an unknown operator, and one that is no model."""
    models = tmp_path / "models"
    models.mkdir()
    save(entries("timm", 3), tmp_path / "catalog.jsonl")
    matmul(models / "timm-net0-legacy-17.onnx")
    matmul(models / "timm-net1-legacy-17.onnx", "Unheard")
    (models / "timm-net2-legacy-17.onnx").write_bytes(b"no model")
    return tmp_path


def test_a_run_goes_on_where_it_ended(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = ["--cache", str(cache), "--python", "none", "--seconds", "0.05", "--keep", "--only", "timm"]
    assert zoo.main([*given, "--limit", "1"]) == 0
    assert len(rows.read(cache)) == 1
    assert zoo.main([*given, "--page", str(cache / "zoo.md")]) == 0
    found = rows.read(cache)
    assert len((cache / "zoo.jsonl").read_text().splitlines()) == 3 and "1/2" in capsys.readouterr().out
    right = found["timm-net0-legacy-17"]
    assert right["right"] and right["error_plain"] < 1e-5 and right["error_optimized"] < 1e-5
    assert right["ratio_1"] > 0 and right["ratio_2"] > 0 and right["kernels"] == 1 and right["build_mb"] > 10
    assert right["worst_kernels"][0]["predicted_us"] > 0
    assert "Unheard" in found["timm-net1-legacy-17"]["refused"]
    assert "refused" in found["timm-net2-legacy-17"]
    text = (cache / "zoo.md").read_text()
    assert "| tried | 3 |" in text and "| refused, with a reason | 2 |" in text and "Unheard" in text
    assert "1 networks: geometric mean" in text


def test_limits_are_errors_of_the_row(cache: Path) -> None:
    given = ["--cache", str(cache), "--python", "none", "--seconds", "0", "--keep", "--only", "timm-net0*"]
    zoo.main([*given, "--patience", "0.2"])
    assert rows.read(cache)["timm-net0-legacy-17"]["error"] == "it took more than 0 s"
    zoo.main([*given, "--memory", "0.05", "--again"])
    assert rows.read(cache)["timm-net0-legacy-17"]["error"]


def test_networks_on_cuda_in_emulation(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = ["--cache", str(cache), "--python", "none", "--keep", "--emulated", "--only", "timm"]
    zoo.main([*given, "--page", str(cache / "zoo.md")])
    found = rows.read(cache, emulated=True)
    right = found["timm-net0-legacy-17"]
    assert right["right"] and right["error_plain"] < 1e-5 and right["kernels"] == 1 and right["predicted_ms"] > 0
    assert "Unheard" in found["timm-net1-legacy-17"]["refused"] and not rows.read(cache)
    assert "| timm-net0-legacy-17 | right | 1 |" in (cache / "zoo.md").read_text()
    zoo.main([*given, "--again", "--most-macs", "100", "--only", "timm-net0*"])
    planned = rows.read(cache, emulated=True)["timm-net0-legacy-17"]
    assert "right" not in planned and "too many to emulate" in planned["left_out"] and planned["predicted_ms"] > 0
    assert "too many to emulate" in capsys.readouterr().out


#: What makes networks, without torch: it answers as benchmarks.zoo.export does.
MAKER = """\
#!{python}
import json, sys
from pathlib import Path
for line in sys.stdin:
    job = json.loads(line)
    kind = job["entry"]["model"]
    if kind == "dies":
        sys.exit("torch is ill")
    if kind == "good":
        Path(job["path"]).write_bytes(b"file")
    print(json.dumps({{"problem": "ValueError: no" if kind == "bad" else None}}), flush=True)
"""


def test_one_process_makes_networks_and_starts_again_when_it_ends(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text(MAKER.format(python=sys.executable))
    python.chmod(0o755)
    with Maker(tmp_path, str(python), 60) as maker:
        good, bad, nothing, dies = (
            Entry("timm", kind, "", "legacy", 17) for kind in ("good", "bad", "nothing", "dies")
        )
        with pytest.raises(NotMade, match="the process with torch ended: torch is ill"):
            maker.file_of(dies)
        assert maker.file_of(good).read_bytes() == b"file"
        first = maker.process
        with pytest.raises(NotMade, match="ValueError: no"):
            maker.file_of(bad)
        with pytest.raises(NotMade, match="no file was written"):
            maker.file_of(nothing)
        assert first is not None and maker.process is first and first.poll() is None
    assert first.poll() is not None, "it ends with its user"


def test_slow_calls_get_fewer_turns() -> None:
    counts = [0, 0]

    def slow() -> None:
        counts[0] += 1
        time.sleep(0.01)

    def other() -> None:
        counts[1] += 1

    patient = measure.take_turns((slow, other), 0.0, wall_seconds)
    assert len(patient[0]) >= measure.ROUNDS * measure.LEAST
    hasty = measure.take_turns((slow, other), 0.0, wall_seconds, limit=0.0)
    assert measure.FEWEST * measure.LEAST <= len(hasty[0]) < len(patient[0]) and min(hasty[0]) >= 0.01


def test_time_of_others_does_not_count_on_one_thread() -> None:
    def idle() -> None:
        time.sleep(0.05)

    assert thread_seconds(idle) < 0.04 < 0.05 <= wall_seconds(idle)


def test_inputs_are_changed_in_the_last_digits_of_the_narrowest_floats() -> None:
    x = placeholder("x", Type("f32", (64,)))
    narrow = ops.node("cast", ops.node("cast", x, to="f16"), to="f32")
    found = {}
    for name, end in (("wide", ops.node("neg", x)), ("narrow", narrow)):
        arrays = {"x": np.linspace(1, 2, 64, dtype=np.float32)}
        found[name] = sensitivity(lambda a: {"y": a["x"]}, arrays, {"y": arrays["x"]}, Graph((x,), (("y", end),)))
    assert 0 < found["wide"] < 1e-6 and 1e-4 < found["narrow"] < 1e-3


def test_a_network_in_16_bits_is_as_far_from_exact_as_it_rounds() -> None:
    x = placeholder("x", Type("f32", (256,)))
    h = ops.node("cast", x, to="f16")
    for _ in range(20):  # a random walk of roundings
        h = ops.node("mul", h, ops.node("cast", ops.node("exp", h), to="f16"))
        h = ops.node("div", h, ops.node("exp", h))
    narrow = Graph((x,), (("y", ops.node("cast", h, to="f32")),))
    wide = Graph((x,), (("y", ops.node("exp", x)),))
    arrays = {"x": np.linspace(0.1, 1, 256, dtype=np.float32)}
    assert rounding_of(narrow, arrays) > 2.0**-11 and 0 < rounding_of(wide, arrays) < 1e-6


def test_the_page_lists_what_needs_work() -> None:
    usual = {"source": "timm", "exporter": "legacy", "variant": "", "date": "2026-01-01", "build_seconds": 3.0}
    usual |= {"compiler_seconds": 1.0, "build_mb": 99, "kernels": 5, "spread_1": [0.1, 0.2], "right": True}
    usual |= {"ms_1": 1.0, "peer_ms_1": 2.0, "ratio_1": 0.5, "ratio_2": 0.4}
    fine = {**usual, "name": "fine", "error_plain": 1e-6, "error_optimized": 1e-6}
    slow = {**fine, "name": "slow", "ratio_1": 3.0}
    wrong = {**usual, "name": "wrong", "right": False, "error_plain": 0.5, "error_optimized": None}
    wrong |= {"own_disagreement": 1e-6}
    doubtful = {**wrong, "name": "doubtful", "right": True, "own_disagreement": 0.4}
    text = page.text([fine, slow, wrong, doubtful, {"name": "gone", "not_made": "no | such", "date": "2026-01-02"}], 9)
    listed = text.partition("## Above")[2].partition("##")[0]
    assert "| slow | 3.00" in listed and "fine" not in listed
    assert "| doubtful | 5.0e-01 | - | 4.0e-01 | - |" in text.partition("## As far")[2]
    assert "| within twice the peer's disagreement with itself, or the file's own rounding | 1 |" in text
    assert (
        "| wrong | 5.0e-01 | - | 1.0e-06 | - |" in text.partition("## As far")[0]
        and "no \\| such" in text
        and "2026-01-01 to 2026-01-02" in text
    )
    assert "geometric mean 0.78" in text, json.dumps(text[:2000])
    assert page.geometric_mean([0.5, 0.5, 3.0]) == pytest.approx(0.75 ** (1 / 3))
