"""The report's page in Chromium: time to first paint, and correctness of its interactions.

    python -m benchmarks.report_page                        a graph as large as Mask R-CNN's, made here
    python -m benchmarks.report_page NETWORK.onnx ...       reports of these are built, opened, searched, switched
    python -m benchmarks.report_page --serve NETWORK.onnx   and a fusion is toggled in the live page
    python -m benchmarks.report_page --shots DIR ...        and screenshots are written

Needs playwright and Debian's Chromium; axe-playwright-python for accessibility.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

import edgec
from benchmarks.chromium import ARGUMENTS
from edgec.cli.command import settings_of
from edgec.report import measure
from edgec.report.document import read_document
from edgec.serve.server import Server
from edgec.serve.workbench import Workbench

#: Classes and levels of the pyramid of the made network: about as many operators as Mask R-CNN has.
CLASSES, LEVELS, BLOCKS = 80, 4, 33


def made(path: Path) -> Path:
    """A residual backbone, a pyramid, and boxes decoded class by class on every level: about 4,000 operators."""
    rng = np.random.default_rng(0)
    nodes, weights = [], []

    def weight(*shape: int) -> str:
        value = (rng.standard_normal(shape) * 0.1).astype(np.float32)
        weights.append(onnx.numpy_helper.from_array(value, f"w{len(weights)}"))
        return weights[-1].name

    def op(kind: str, *inputs: str, name: str, **attrs: Any) -> str:
        nodes.append(helper.make_node(kind, list(inputs), [f"{name}_out"], name=name, **attrs))
        return f"{name}_out"

    def conv(x: str, before: int, after: int, k: int, name: str, stride: int = 1) -> str:
        pads = [k // 2] * 4
        return op("Conv", x, weight(after, before, k, k), weight(after), name=name, pads=pads, strides=[stride] * 2)

    x, levels = conv("image", 3, 8, 3, "stem"), []
    for b in range(BLOCKS):
        at = f"backbone/layer{b // 8}/block{b}"
        down = 2 if b and b % 8 == 0 and b // 8 <= 3 else 1
        y = op("Relu", conv(x, 8, 4, 1, f"{at}/conv1", down), name=f"{at}/relu1")
        y = conv(op("Relu", conv(y, 4, 4, 3, f"{at}/conv2"), name=f"{at}/relu2"), 4, 8, 1, f"{at}/conv3")
        side = conv(x, 8, 8, 1, f"{at}/down", 2) if down == 2 else x
        x = op("Relu", op("Add", y, side, name=f"{at}/add"), name=f"{at}/relu3")
        if b % 8 == 7:
            levels.append(x)
    found = []
    for level, features in enumerate(levels[:LEVELS]):
        lateral = op("Relu", conv(features, 8, 8, 3, f"fpn/{level}/conv"), name=f"fpn/{level}/relu")
        pooled = op("GlobalAveragePool", lateral, name=f"fpn/{level}/pool")
        for c in range(CLASSES):
            at = f"roi_heads/level{level}/class{c}"
            score = conv(pooled, 8, 4, 1, f"{at}/box")
            scaled = op("Mul", score, weight(1, 4, 1, 1), name=f"{at}/scale")
            center = op("Add", scaled, weight(1, 4, 1, 1), name=f"{at}/center")
            size = op("Exp", scaled, name=f"{at}/size")
            half = op("Mul", size, weight(1, 4, 1, 1), name=f"{at}/half")
            low = op("Sub", center, half, name=f"{at}/low")
            high = op("Add", center, half, name=f"{at}/high")
            corners = op("Concat", low, high, name=f"{at}/corners", axis=1)
            certain = op("Sigmoid", conv(pooled, 8, 8, 1, f"{at}/score"), name=f"{at}/certain")
            found.append(op("Mul", corners, certain, name=f"{at}/boxes"))
    op("Concat", *found, name="boxes", axis=1)
    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 3, 64, 64])
    boxes = helper.make_tensor_value_info("boxes_out", TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "mask_rcnn_sized", [image], [boxes], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, path)
    return path


def visit(page: Any, folder: Path, complaints: list[str], shots: Path | None) -> dict[str, Any]:
    """Open a report and use it; times in milliseconds from the start of loading."""
    document = read_document(folder)
    imported = document["stages"][0]["nodes"]
    name = next(n["names"][-1] for n in reversed(imported) if n.get("names") and n["op"] != "output")
    page.goto((folder / "report.html").as_uri())
    page.wait_for_selector("html[data-ready]")
    painted = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
    ready = page.evaluate("performance.getEntriesByName('report-ready')[0].startTime")
    if shots:
        page.screenshot(path=shots / "overview.png", full_page=True)
    taken = {}
    for stage in ("fuse", "import", "schedule"):
        page.click("#tab-graph")
        begun = page.evaluate("performance.now()")
        page.click(f"#stages [data-stage={stage}]")
        page.wait_for_selector(f"#graph[data-done={stage}]", timeout=120_000)
        first = page.evaluate("performance.getEntriesByName('graph-first').at(-1).startTime") - begun
        taken[stage] = (first, page.evaluate("performance.getEntriesByName('graph-done').at(-1).startTime") - begun)
        if shots and stage == "fuse":
            page.select_option("#color", "time")
            page.wait_for_timeout(600)
            page.screenshot(path=shots / "graph.png")
    page.keyboard.press("/")
    page.keyboard.type(name)
    page.wait_for_selector("#found li[aria-selected=true]")
    page.keyboard.press("Enter")
    assert page.inner_text("#detail-title") == name
    page.keyboard.press("Escape")
    page.click("#tab-kernels")
    page.click("#view-kernels tbody tr:nth-child(2) button")
    page.wait_for_selector("#detail .small-graph canvas")
    assert document["kernels"][1]["function"] in page.inner_text("#detail-body")
    if shots:
        page.click("#detail .close, #detail .bar button")
        page.click("#theme")
        page.click("#view-kernels tbody tr:nth-child(2) button")
        page.wait_for_timeout(1500)
        page.screenshot(path=shots / "block.png")
        page.keyboard.press("Escape")
        page.click("#theme")
    page.keyboard.press("Escape")
    for view in ("memory", "roofline", "errors", "rules", "refusals", "build"):
        page.click(f"#tab-{view}")
        assert page.inner_text(f"#view-{view}").strip()
        if shots and view in ("memory", "roofline"):
            page.screenshot(path=shots / f"{view}.png")
    counts = {s["name"]: len(s["nodes"]) for s in document["stages"]}
    kib = (folder / "report.html").stat().st_size / 1024
    return {"painted": painted, "ready": ready, "taken": taken, "nodes": counts, "kib": kib}


def toggled(page: Any, network: Path) -> str:
    """Materialize a result inside the slowest kernel that has one, in the live page; what it says changed."""
    with tempfile.TemporaryDirectory(prefix="edgec-live-") as name:
        path = Path(name) / "edgec.toml"
        path.write_text(f'model = "{network.absolute()}"\n')
        bench = Workbench(path, settings_of)
        with Server(bench) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            page.goto(server.url)
            page.wait_for_selector("html[data-ready]")
            asked = bench.document["decidable"]["kernels"]
            k, question = next((k, q) for k, found in asked.items() for q in found if q["kind"] == "materialize")
            page.click("#tab-kernels")
            page.click(f"#view-kernels tbody button:text-is('{k}')")
            page.select_option(f"#decide select[aria-label={question['title']!r}]", "materialize")
            page.wait_for_selector("#changed", timeout=300_000)
            said = " ".join(page.inner_text("#changed").split())
            server.shutdown()
        bench.close()
    return f"{question['title']} kept in memory: {said}"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("networks", nargs="*", type=Path)
    parser.add_argument("--shots", type=Path)
    parser.add_argument("--serve", action="store_true")
    parser.add_argument("--quick", action="store_true", help="reports without running anything")
    parser.add_argument("--keep", type=Path, help="folder for the builds; those that are there are taken")
    asked = parser.parse_args()
    from playwright.sync_api import sync_playwright

    work = asked.keep or Path(tempfile.mkdtemp(prefix="edgec-report-"))
    work.mkdir(parents=True, exist_ok=True)
    networks = asked.networks or [made(work / "mask_rcnn_sized.onnx")]
    chromium = shutil.which("chromium")
    assert chromium, "apt-get install chromium"
    heads = (
        "network",
        "operators",
        "kernels",
        "page",
        "first paint",
        "usable",
        "blocks: first, all",
        "import: first, all",
    )
    print(f"| {' | '.join(heads)} | console |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|---|")
    notes = []
    with sync_playwright() as running:
        for network in networks:
            folder = work / network.stem
            if not (folder / "report.html").is_file():
                begun = time.perf_counter()
                quick = asked.quick or not asked.networks
                built = edgec.build(network, folder, compile=not quick)
                facts = measure.Facts(benched=None, seconds=[], checked=None) if quick else measure.measure(built)
                measure.write(measure.describe(built, facts), folder)
                notes.append(f"{network.stem}: build and report in {time.perf_counter() - begun:.1f} s")
            browser = running.chromium.launch(executable_path=chromium, args=list(ARGUMENTS))
            page = browser.new_page(viewport={"width": 1280, "height": 800})
            complaints: list[str] = []
            page.on("console", lambda m, to=complaints: to.append(m.text) if m.type in ("error", "warning") else None)
            page.on("pageerror", lambda e, to=complaints: to.append(str(e)))
            shots = asked.shots
            if shots:
                shots.mkdir(parents=True, exist_ok=True)
            r = visit(page, folder, complaints, shots)
            if asked.serve:
                notes.append(f"{network.stem}: {toggled(page, network)}")
            fuse, imported = r["taken"]["fuse"], r["taken"]["import"]
            spent = [f"{first:.0f}, {all_:.0f} ms" for first, all_ in (fuse, imported)]
            cells = (
                network.stem, str(r["nodes"]["import"]), str(r["nodes"]["schedule"]), f"{r['kib']:.0f} KiB",
                f"{r['painted']:.0f} ms", f"{r['ready']:.0f} ms", *spent, "; ".join(complaints) or "nothing",
            )  # fmt: skip
            print(f"| {' | '.join(cells)} |", flush=True)
            browser.close()
    for note in notes:
        print(f"\n{note}")
    if asked.keep is None:
        shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    main()
