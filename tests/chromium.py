"""Debian's Chromium for the tests that look at pages, by Playwright; what its console says counts as a failure."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from benchmarks.chromium import ARGUMENTS
from edgec.report import page as pages

#: The page's own code, before it is made one script.
MODULES = Path(pages.__file__).parent / "html" / "modules"


@contextmanager
def chromium(width: int = 1280, height: int = 860, scheme: str = "light") -> Iterator[tuple[Any, list[str]]]:
    """A page of a fresh browser, and what its console complained of so far."""
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="playwright is not installed: pip install playwright"
    )
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("there is no Chromium: apt-get install chromium")
    with playwright.sync_playwright() as running:
        browser = running.chromium.launch(executable_path=program, args=list(ARGUMENTS))
        page = browser.new_page(
            viewport={"width": width, "height": height}, color_scheme=scheme, reduced_motion="reduce"
        )
        page.set_default_timeout(300_000)  # other work on the machine may hold it up
        complaints: list[str] = []
        page.on("console", lambda m: complaints.append(m.text) if m.type in ("error", "warning") else None)
        page.on("pageerror", lambda e: complaints.append(str(e)))
        try:
            yield page, complaints
        finally:
            browser.close()


def keep_modules(page: Any, url: str, report: Path | None = None) -> None:
    """Let ``url`` load the modules of the page as they are, where a name that a module does not import is undefined.

    ``report`` is the page; without one, the server at ``url`` is asked for it. Its policy, which allows no script by
    path, is left out.
    """

    def document(route: Any) -> None:
        text = route.fetch().text() if report is None else report.read_text(encoding="utf-8")
        text = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", text)
        head, found, _ = text.rpartition('<script type="module">')
        assert found
        end = '<script type="module" src="/modules/main.mjs"></script></body></html>'
        route.fulfill(body=head + end, content_type="text/html; charset=utf-8")

    def module(route: Any) -> None:
        path = MODULES / route.request.url.partition("/modules/")[2]
        route.fulfill(body=path.read_text(encoding="utf-8"), content_type="text/javascript; charset=utf-8")

    page.route(url, document)
    page.route(f"{url}modules/**", module)
