"""The page of a quantized network in a browser: int8, layers, errors by cause, roofs, search, Back, files, a phone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from chromium import chromium

import edgec
from edgec.report import measure
from edgec.report.document import read_document

DIGITS = Path(__file__).parents[2] / "apps" / "digits" / "digits.onnx"
#: Texts that lie beyond the page or beyond the box that cuts them; code scrolls.
CUT = """() => {
  const found = [], wide = document.documentElement.clientWidth;
  const shown = document.querySelector("main > section:not([hidden])");
  for (const root of [document.querySelector(".top"), document.querySelector(".bar-of-tabs"), shown]) {
    const walk = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
    while (walk.nextNode()) {
      const node = walk.currentNode, parent = node.parentElement, text = node.textContent.slice(0, 60);
      if (!text.trim() || parent.closest("pre, .sr, [hidden], title, style, #graph, caption")) continue;
      const range = document.createRange();
      range.selectNodeContents(node);
      const chart = parent.closest(".chart")?.getBoundingClientRect();
      const left = (chart?.left ?? 0) - 0.5, right = (chart?.right ?? wide) + 0.5;
      for (const box of range.getClientRects())
        if (box.width && (box.left < left || box.right > right)) found.push(text);
    }
    for (const e of root.querySelectorAll(".scroll, .tabs, .segmented, .chart, h1"))
      if (e.scrollWidth > e.clientWidth + 1 && e.clientWidth) found.push(`${e.className || e.tagName} scrolls`);
  }
  return found;
}"""


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("quantized")
    draw = np.random.default_rng(3)
    data = draw.random((12, 1, 8, 8), np.float32)
    np.savez(folder / "data.npz", image=data, labels=np.arange(12) % 10)
    built = edgec.build(DIGITS, folder / "net", quantize="int8", calibrate=folder / "data.npz")
    return measure.write(measure.describe(built, measure.measure(built)), built.folder)


def opened(page: Any, report: Path) -> dict[str, Any]:
    page.goto(report.as_uri())
    page.wait_for_selector("html[data-ready]")
    return read_document(report.parent)


def test_the_document_has_errors_by_cause_and_roofs(report: Path) -> None:
    document = read_document(report.parent)
    errors = document["errors"]
    assert errors["is_compressed"] and errors["ok"] and errors["inputs"] == "calibration"
    assert errors["tolerance"] > errors["code_rel"], "the code is right"
    assert errors["model_rel"] > 10 * errors["code_rel"], "compression is no rounding, even of few layers in bytes"
    assert errors["fidelity"]["samples"] == 12 and not errors["fidelity"]["drawn"]
    assert 0 < errors["fidelity"]["rms"] < 0.2
    roofs = {r["computes"]: r["gflops"] for r in document["roofline"]["roofs"]}
    assert roofs["int8"] > roofs["fp32"] and {k["computes"] for k in document["kernels"]} <= set(roofs)
    assert errors["kernels_right"] == errors["kernels_run"] > 3
    assert document["code_bytes"] > 1000
    assert document["bench"]["peer"]["name"].startswith("onnxruntime") and not document["bench"]["peer_missing"]
    assert [p["kind"] for p in document["ports"]] == ["input", "output"]


def test_it_says_what_it_is(report: Path) -> None:
    with chromium() as (page, complaints):
        document = opened(page, report)
        assert "int8" in page.inner_text("#numbers")
        assert page.inner_text("[data-figure=numbers]") == "int8"
        overview = page.inner_text("#view-overview")
        assert "12 inputs of the calibration data" in overview and "labels" in overview
        assert page.inner_text("[data-figure=peer]").startswith("onnxruntime")
        for port in document["ports"]:
            assert port["name"] in page.inner_text("#ports")
        page.click("#tab-errors")
        rows = page.locator("#view-errors table").first.locator("tbody tr")
        assert rows.count() == len(document["build"]["compression"]["layers"])
        assert "--max-loss" in page.inner_text("#of-compression")
        assert "kernels within" in page.inner_text("#of-code")
        page.click("#tab-roofline")
        assert "GFLOP/s in int8" in page.inner_text("#view-roofline")
        page.click("#tab-kernels")
        column = page.locator("#view-kernels tbody td[data-title=name]").all_inner_texts()
        assert len(set(column)) == len(column), column
        page.click("#tab-rules")
        folded = page.locator("#view-rules tbody tr:has-text('fold_constants')")
        steps = sum(rule["rule"] == "fold_constants" for rule in document["rules"])
        assert steps > 1 and folded.count() == 1 and f"{steps} times" in folded.inner_text()
        assert complaints == []


def test_search_lands_on_every_node_and_back_goes_back(report: Path) -> None:
    with chromium() as (page, complaints):
        document = opened(page, report)
        first = next(s for s in document["stages"] if s["name"] == "import")["nodes"]
        for name in dict.fromkeys(n["names"][-1] for n in first if n["op"] in ("conv", "matmul", "reshape")):
            page.keyboard.press("/")
            page.fill("#search", name)
            page.keyboard.press("Enter")
            page.wait_for_selector("#graph[data-done][data-picked]")
            assert page.inner_text("#detail-title") == name
            stage = page.get_attribute("#stages [aria-pressed=true]", "data-stage")
            nodes = next(s for s in document["stages"] if s["name"] == stage)["nodes"]
            picked = nodes[int(page.get_attribute("#graph", "data-picked"))]
            assert name in picked["names"]
            op = next(n["op"] for n in first if n["names"][-1] == name)
            assert op in (picked["op"], *picked.get("label", "").split()) or not any(
                name in n["names"] and op in (n["op"], *n.get("label", "").split()) for n in nodes if n.get("names")
            )
            page.keyboard.press("Escape")
        page.click("#tab-kernels")
        page.click("#tab-rules")
        page.go_back()
        assert page.is_visible("#view-kernels") and page.is_hidden("#view-rules")
        page.go_back()
        assert page.is_visible("#view-graph")
        page.go_forward()
        assert page.is_visible("#view-kernels")
        assert complaints == []


def test_tables_and_charts_are_saved(report: Path, tmp_path: Path) -> None:
    with chromium() as (page, complaints):
        document = opened(page, report)
        page.click("#tab-kernels")
        with page.expect_download() as saved:
            page.click("#view-kernels .save")
        saved.value.save_as(tmp_path / "kernels.csv")
        lines = (tmp_path / "kernels.csv").read_text().splitlines()
        assert saved.value.suggested_filename == "digits-kernels.csv"
        assert len(lines) == 1 + len(document["kernels"]) and lines[0].startswith("#,operators,")
        page.click("#tab-roofline")
        with page.expect_download() as saved:
            page.click("#view-roofline .save")
        saved.value.save_as(tmp_path / "roofline.svg")
        text = (tmp_path / "roofline.svg").read_text()
        assert text.startswith("<svg") and "int8" in text and 'xmlns="http://www.w3.org/2000/svg"' in text
        page.goto((tmp_path / "roofline.svg").as_uri())
        assert page.locator("svg path").count() > 0
        assert complaints == []


def test_a_phone_cuts_nothing(report: Path) -> None:
    with chromium(390, 844) as (page, complaints):
        opened(page, report)
        for view in page.eval_on_selector_all(".tabs button", "all => all.map((b) => b.dataset.view)"):
            page.click(f"#tab-{view}")
            if view == "graph":
                page.wait_for_selector("#graph[data-done]")
            assert page.evaluate(CUT) == [], view
        assert complaints == []
