"""Two builds side by side, and what explain says of rules and of every node."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import edgec
from edgec.cli.main import main
from edgec.frontend import source as reader
from edgec.options import Settings, resolve
from edgec.pipeline import run
from edgec.pipeline.context import Context
from edgec.report import measure
from edgec.report.diff import diff, draw, markdown
from edgec.report.explain import explain
from edgec.report.page import diff_page

DIGITS = Path(__file__).parents[2] / "apps" / "digits" / "digits.onnx"


@pytest.fixture(scope="module")
def documents(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """The same network in floats and in bytes, as reports that were not measured."""
    found = []
    for precision in ("float", "int8"):
        settings = Settings(quantize=precision, calibrate="random", device="x86_64_avx512_vnni")
        built = edgec.build(DIGITS, tmp_path_factory.mktemp(precision) / "net", compile=False, **settings)
        facts = measure.Facts(benched=None, seconds=[], checked=None)
        found.append(measure.describe(built, facts, settings={"quantize": precision}))
        measure.write(found[-1], built.folder)
    return found


def test_bytes_beside_floats(documents: list[dict[str, Any]]) -> None:
    found = diff(*documents)
    totals = {t["name"]: t for t in found["totals"]}
    assert totals["weights"]["ratio"] < 0.6 and totals["weights"]["better"]
    assert totals["bytes moved"]["better"] and totals["arena"]["better"]
    assert "latency" not in totals, "it was not measured"
    assert found["settings"] == [{"name": "quantize", "before": "float", "after": "int8"}]
    assert any("u8" in p["name"] and not p["before"] and p["after"] for p in found["precisions"])
    kernels = found["kernels"]
    old, new = (d["build"]["kernels"] for d in documents)
    both = kernels["same"] + len(kernels["changed"])
    assert both + len(kernels["gone"]) == old and both + len(kernels["new"]) == new


def test_nothing_changed(documents: list[dict[str, Any]]) -> None:
    found = diff(documents[0], documents[0])
    assert all(t["better"] is None and t["ratio"] in (1.0, None) for t in found["totals"])
    kernels = found["kernels"]
    assert not kernels["changed"] and not kernels["gone"] and not kernels["new"]
    assert kernels["same"] == documents[0]["build"]["kernels"]


def test_the_same_in_a_terminal_in_markdown_and_as_a_page(documents: list[dict[str, Any]]) -> None:
    found = diff(*documents)
    with (console := Console(width=120)).capture() as shown:
        console.print(draw(found))
    weights = next(t for t in found["totals"] if t["name"] == "weights")["after_text"]
    assert weights in shown.get() and f"| {weights} |" in markdown(found) and weights in diff_page(found)
    bad = {**found, "after": {**found["after"], "model": "a|b<script>"}}
    assert "a\\|b&lt;script>" in markdown(bad) and "<script>" not in diff_page(bad)


def test_the_command(documents: list[dict[str, Any]], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folders = [d["build"]["folder"] for d in documents]
    with pytest.raises(SystemExit) as end:
        main(["diff", *folders, "--markdown", "--html", str(tmp_path / "diff.html")])
    assert end.value.code == 0 and (tmp_path / "diff.html").is_file()
    assert capsys.readouterr().out.startswith("### digits on x86_64_avx512_vnni")
    with pytest.raises(SystemExit) as end:
        main(["diff", folders[0], str(tmp_path)])
    assert end.value.code == 2


def test_explain_answers_for_every_node_and_every_law_that_was_applied() -> None:
    model = reader.read(DIGITS)
    walk = run(model, Context(resolve(Settings())), until="schedule")
    for name, _, _ in reader.nodes_with_outputs(model):
        found = explain(walk, model, name)
        assert found["imported_as"] and (
            found["kernels"] or found["aliased"] or found["inside_others"] or found["rules"]
        )
    for rule in {a.rule for a in walk.applied}:
        rule = explain(walk, model, rule)
        assert rule["rule"]["times"] == len(rule["rules"]) > 0
    refused = explain(walk, model, "scale_the_weights")["rule"]["refused"]
    assert all(r["why"] and r["nodes"] for r in refused)


def test_decisions_are_explained_as_such() -> None:
    model = reader.read(DIGITS)
    options = resolve(Settings(materialize=["Conv_3"], disable_rules=["scale_the_weights"]))
    walk = run(model, Context(options), until="schedule")
    found = explain(walk, model, "Conv_3")
    assert any("kept in memory" in line for k in found["kernels"] for line in k["why"])
    rule = explain(walk, model, "scale_the_weights")["rule"]
    assert rule["disabled"] and rule["times"] == 0
