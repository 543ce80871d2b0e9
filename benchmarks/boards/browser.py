"""Headless Chromium by the WebDriver protocol (W3C), and a folder served to it; needs chromium and chromedriver."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

_FLAGS = [
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
    "--window-size=700,900",
]  # fmt: skip
_ELEMENT = "element-6066-11e4-a52e-4f735466cecf"  # the protocol's name of a reference to an element


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *words: Any) -> None:
        """Nobody reads along."""


_Quiet.extensions_map = {**_Quiet.extensions_map, ".mjs": "text/javascript", ".wasm": "application/wasm"}


class _Isolated(_Quiet):
    def end_headers(self) -> None:
        self.send_header("Cross-Origin-Opener-Policy", "same-origin")
        self.send_header("Cross-Origin-Embedder-Policy", "require-corp")
        super().end_headers()


@contextmanager
def served(folder: Path, isolated: bool = False) -> Iterator[str]:
    """The address of a folder, as long as the block lasts; ``isolated`` pages may share memory with workers."""
    handler = _Isolated if isolated else _Quiet
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(handler, directory=str(folder))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/"
        server.shutdown()


class Browser:
    """One window, with more ``flags`` and ``without`` some of the usual ones. Use it in a ``with`` statement."""

    def __init__(
        self,
        driver: str = "chromedriver",
        chromium: str = "chromium",
        flags: Sequence[str] = (),
        without: Sequence[str] = (),
    ) -> None:
        self._profile = tempfile.mkdtemp(prefix="edgec-browser-")
        self._process = subprocess.Popen(
            [driver, "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert self._process.stdout is not None
        line = next(line for line in self._process.stdout if "started successfully on port" in line)
        self._address = f"http://127.0.0.1:{line.rsplit(maxsplit=1)[1].rstrip('.')}/session"
        arguments = [*(flag for flag in _FLAGS if flag not in without), *flags]
        options = {"binary": shutil.which(chromium), "args": [*arguments, f"--user-data-dir={self._profile}"]}
        wanted = {"capabilities": {"alwaysMatch": {"goog:chromeOptions": options, "timeouts": {"script": 300_000}}}}
        self._address += f"/{self._call('', wanted)['sessionId']}"

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *error: object) -> None:
        try:
            self._call("", method="DELETE")
        finally:
            self._process.terminate()
            self._process.wait()
            shutil.rmtree(self._profile, ignore_errors=True)

    def open(self, address: str) -> None:
        self._call("/url", {"url": address})

    def run(self, script: str, *arguments: Any) -> Any:
        """Result of the body of an asynchronous function."""
        body = f"const done = arguments[arguments.length - 1]; (async (...given) => {{ {script} }})(...arguments)"
        body += ".then((value) => done([value]), (problem) => done(String(problem)))"
        found = self._call("/execute/async", {"script": body, "args": list(arguments)})
        if isinstance(found, str):
            raise RuntimeError(found)
        return found[0]

    def choose(self, selector: str, file: Path) -> None:
        """Choose a file in an element of a form."""
        element = self._call("/element", {"using": "css selector", "value": selector})[_ELEMENT]
        self._call(f"/element/{element}/value", {"text": str(file)})

    def wait(self, script: str, *arguments: Any, seconds: float = 60) -> Any:
        """Result of the script as soon as it is true."""
        end = time.monotonic() + seconds
        while not (found := self.run(script, *arguments)):
            if time.monotonic() > end:
                raise TimeoutError(f"not within {seconds:g} s: {script}")
            time.sleep(0.1)
        return found

    def screenshot(self, path: Path) -> None:
        path.write_bytes(base64.b64decode(self._call("/screenshot", method="GET")))

    def _call(self, path: str, data: dict[str, Any] | None = None, method: str = "POST") -> Any:
        body = None if data is None else json.dumps(data).encode()
        request = urllib.request.Request(
            self._address + path, body, {"Content-Type": "application/json"}, method=method
        )
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(request, timeout=600) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise RuntimeError(json.load(error)["value"]["message"]) from None


def classified(browser: Browser, picture: Path) -> list[tuple[int, float]]:
    """Result of the page of the app ``web`` for an image: classes and probabilities, best first."""
    browser.wait("return document.getElementById('status').textContent !== 'loading'")
    browser.choose("#file", picture)
    browser.wait("return document.getElementById('status').dataset.picture === given[0]", picture.name)
    row = "[Number(row.dataset.class), row.querySelector('meter').value]"
    rows = f"return [...document.querySelectorAll('#bars li')].map((row) => {row})"
    return [(int(k), float(part)) for k, part in browser.run(rows)]
