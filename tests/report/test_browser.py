"""The page in a browser: search, blocks, stages, keys, both themes, a phone; and decisions in the live one."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path
from typing import Any

import pytest
from chromium import chromium, keep_modules

import edgec
from edgec.cli import config
from edgec.cli.command import settings_of
from edgec.report import measure
from edgec.report.document import read_document
from edgec.serve.server import Server
from edgec.serve.workbench import Workbench

DIGITS = Path(__file__).parents[2] / "apps" / "digits" / "digits.onnx"
#: An address for a report whose modules are loaded one by one, which no browser does from a disk.
ELSEWHERE = "http://report.test/"


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    built = edgec.build(DIGITS, tmp_path_factory.mktemp("browser") / "net")
    return measure.write(measure.describe(built, measure.measure(built)), built.folder)


def open_graph(page: Any, stage: str | None = None) -> None:
    page.click("#tab-graph")
    if stage:
        page.click(f"#stages [data-stage={stage}]")
    page.wait_for_selector(f"#graph[data-done={stage or 'fuse'}]")


@pytest.mark.parametrize("script", ["bundled", "modules"])
def test_the_page_works(report: Path, script: str) -> None:
    with chromium() as (page, complaints):
        asked: list[str] = []
        page.on("request", lambda r: None if r.url.startswith(("file:", "blob:", "data:")) else asked.append(r.url))
        url = report.as_uri() if script == "bundled" else ELSEWHERE
        if script == "modules":
            keep_modules(page, url, report)
        page.goto(url)
        page.wait_for_selector("html[data-ready]")
        assert page.inner_text("h1") == "digits"

        page.keyboard.press("/")
        page.keyboard.type("conv_3")
        assert "Conv_3" in page.inner_text("#found li[aria-selected=true]")
        page.keyboard.press("Enter")
        page.wait_for_selector("#graph[data-done=fuse]")
        assert page.inner_text("#detail-title") == "Conv_3"
        assert "Imported as" in page.inner_text("#detail-body")

        page.click("#detail-body button:has-text('kernel ')")
        body = page.inner_text("#detail-body")
        assert "one kernel: max is applied" in body and "void net_" in body, "why, and the source"
        page.wait_for_selector("#detail-body .small-graph canvas")
        page.keyboard.press("Escape")
        assert page.is_hidden("#detail")

        for stage in ("import", "schedule", "simplify"):
            open_graph(page, stage)
            assert page.get_attribute(f"#stages [data-stage={stage}]", "aria-pressed") == "true"
        page.focus("#graph")
        for key in ("ArrowDown", "ArrowDown", "Enter"):
            page.keyboard.press(key)
        assert page.is_visible("#detail"), "keys alone open a node"
        page.keyboard.press("Escape")
        for by in ("time", "bytes", "flops", "error", "class"):
            page.select_option("#color", by)
            assert page.inner_text("#legend").strip()

        for view in ("kernels", "memory", "roofline", "errors", "rules", "refusals", "build", "overview"):
            page.click(f"#tab-{view}")
            assert page.locator(f"#view-{view}").inner_text().strip(), view
        page.click("#tab-kernels")
        page.click("th button:has-text('FLOPs')")
        most = max(read_document(report.parent)["kernels"], key=lambda k: k["flops"])["kernel"]
        assert page.inner_text("#view-kernels tbody tr:first-child td:first-child") == str(most)
        page.keyboard.press("t")
        assert page.get_attribute("html", "data-theme") == "dark"
        assert complaints == [] and all(a.startswith(ELSEWHERE) and script == "modules" for a in asked)


def test_a_phone_shows_it_without_scrolling_sideways(report: Path) -> None:
    with chromium(390, 844, "dark") as (page, complaints):
        page.goto(report.as_uri())
        page.wait_for_selector("html[data-ready]")
        for view in ("overview", "kernels", "memory", "rules", "build"):
            page.click(f"#tab-{view}")
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), view
        open_graph(page)
        page.keyboard.press("/")
        page.keyboard.type("Gemm_1")
        page.keyboard.press("Enter")
        assert round(page.locator("#detail").bounding_box()["width"]) == 390
        assert complaints == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_serious_violation(report: Path, scheme: str) -> None:
    axe = pytest.importorskip("axe_playwright_python.base", reason="pip install axe-playwright-python")
    with chromium(scheme=scheme) as (page, _):
        page.goto(report.as_uri())
        page.wait_for_selector("html[data-ready]")
        page.add_script_tag(path=Path(axe.__file__).parent / "axe.min.js")
        found: dict[str, list[str]] = {}
        options: dict[str, Any] = {"resultTypes": ["violations"]}
        if scheme == "dark":  # what differs from the light one
            options["runOnly"] = ["color-contrast"]

        def look(where: str) -> None:
            for v in page.evaluate("options => axe.run(options)", options)["violations"]:
                if v["impact"] in ("serious", "critical"):
                    found.setdefault(v["id"], []).append(f"{where}: {v['nodes'][0]['html'][:120]}")

        for view in page.eval_on_selector_all(".tabs button", "all => all.map((b) => b.dataset.view)"):
            page.click(f"#tab-{view}")
            if view == "graph":
                page.wait_for_selector("#graph[data-done]")
            look(view)
        page.click("#tab-kernels")
        page.click("#view-kernels tbody button")
        look("details")
        page.keyboard.press("Escape")
        page.keyboard.press("/")
        page.keyboard.type("conv")
        look("search")
        page.keyboard.press("Escape")
        page.keyboard.press("?")
        look("keys")
        assert found == {}


def test_decisions_are_built_measured_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "SECONDS", 0.05)
    shutil.copy(DIGITS, tmp_path / "digits.onnx")
    (tmp_path / "edgec.toml").write_text('# mine\nmodel = "digits.onnx"\n')
    bench = Workbench(tmp_path / "edgec.toml", settings_of)
    with Server(bench) as server, chromium() as (page, complaints):
        threading.Thread(target=server.serve_forever, daemon=True).start()
        page.goto(server.url)
        page.wait_for_selector("html[data-ready]")
        kernels, latency = page.inner_text("[data-figure=kernels]"), page.inner_text("[data-figure=latency]")
        page.click("#tab-kernels")
        page.click("#view-kernels tbody tr:has-text('Conv_3') button")
        page.select_option("#decide select[aria-label='Result of Conv_3']", "materialize")
        page.wait_for_selector("#changed")
        changed = page.inner_text("#changed")
        assert "kernels" in changed and "latency" in changed
        assert 'materialize = ["Conv_3"]' in (tmp_path / "edgec.toml").read_text()
        assert (tmp_path / "edgec.toml").read_text().startswith("# mine")
        page.keyboard.press("Escape")
        page.click("#tab-overview")
        assert int(page.inner_text("[data-figure=kernels]")) > int(kernels)
        assert page.inner_text("[data-figure=latency]") != latency
        keep_modules(page, server.url)
        page.goto(server.url)
        page.wait_for_selector("html[data-ready]")
        page.click("#tab-kernels")
        page.click("#view-kernels tbody tr:has-text('Conv_3') button")
        page.select_option("#decide select[aria-label='Result of Conv_3']", "")
        page.wait_for_selector("#detail-body b:has-text('fused with its reader')")
        assert "apart" not in (tmp_path / "edgec.toml").read_text()
        page.click("#detail-body button:has-text('Undo')")
        page.wait_for_selector("#detail-body b:has-text('kept in memory')")
        assert "Not changed" not in page.inner_text("body")
        assert complaints == []
        server.shutdown()
    bench.close()
    assert config.load(tmp_path).values["decide"]["materialize"] == ["Conv_3"]
