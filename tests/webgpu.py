"""Networks on WebGPU in one headless Chromium, on its adapter in software; and what its console says against them."""

from __future__ import annotations

import base64
import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.boards.browser import served
from benchmarks.chromium import ARGUMENTS
from edgec.ir.types import DTYPES

#: Chromium's own Vulkan on the processor. Workgroup memory is not cleared, on which no kernel relies: that alone takes
#: most of the time in which its kernels are compiled.
ADAPTER = (
    "--enable-unsafe-webgpu", "--use-webgpu-adapter=swiftshader", "--use-vulkan=swiftshader", "--enable-features=Vulkan",
    "--ignore-gpu-blocklist", "--enable-dawn-features=disable_workgroup_init",
)  # fmt: skip

_RUN = """
async ({ module, inputs }) => {
  const bytes = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0)).buffer;
  const text = (array) => {
    const raw = new Uint8Array(array.buffer, array.byteOffset, array.byteLength), parts = [];
    for (let k = 0; k < raw.length; k += 32768) parts.push(String.fromCharCode(...raw.subarray(k, k + 32768)));
    return btoa(parts.join(""));
  };
  const { Network } = await import(module);
  const told = [];
  const network = await Network.load(undefined, { progress: (done, of) => told.push([done, of]) });
  const found = [];
  for (const given of inputs) {
    network.poison();
    for (const [name, data] of Object.entries(given)) {
      const array = network.inputs[name];
      array.set(new array.constructor(bytes(data)));
    }
    for (const array of Object.values(network.outputs)) new Uint8Array(array.buffer).fill(255);
    await network.run();
    found.push(Object.fromEntries(Object.entries(network.outputs).map(([name, array]) => [name, text(array)])));
  }
  network.close();
  return { found, told };
}
"""


class Pages:
    """A page of a browser with WebGPU, and the folder that is served to it."""

    def __init__(self, page: Any, folder: Path, address: str, complaints: list[str]) -> None:
        self.page, self.folder, self.address, self.complaints = page, folder, address, complaints

    def run(self, built: Path, samples: list[Mapping[str, np.ndarray]]) -> list[dict[str, np.ndarray]]:
        """Outputs of a network below the served folder, for each sample; memory is poisoned before each run."""
        lock = json.loads((built / "edgec.lock").read_text())
        names = {port["onnx_name"]: port["name"] for port in lock["inputs"]}
        inputs = [
            {names[name]: base64.b64encode(np.ascontiguousarray(array).tobytes()).decode() for name, array in s.items()}
            for s in samples
        ]
        module = f"{self.address}{built.relative_to(self.folder)}/web/{lock['name']}.js"
        answer = self.page.evaluate(_RUN, {"module": module, "inputs": inputs})
        assert not self.complaints, self.complaints
        assert all(done <= of for done, of in answer["told"])
        return [{p["onnx_name"]: _array(p, found[p["name"]]) for p in lock["outputs"]} for found in answer["found"]]


def _array(port: Mapping[str, Any], text: str) -> np.ndarray:
    kind = DTYPES[port["dtype"]]
    return np.frombuffer(base64.b64decode(text), kind).reshape(port["shape"])


@contextmanager
def webgpu(folder: Path) -> Iterator[Pages]:
    """A browser with WebGPU to which ``folder`` is served; skips the test where there is none."""
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="playwright is not installed: pip install playwright"
    )
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("there is no Chromium: apt-get install chromium")
    arguments = [a for a in ARGUMENTS if a != "--disable-gpu"]
    (folder / "empty.html").write_text('<!doctype html><title>empty</title><link rel="icon" href="data:,">')
    with served(folder) as address, playwright.sync_playwright() as running:
        browser = running.chromium.launch(executable_path=program, args=[*arguments, *ADAPTER])
        try:
            page = browser.new_page()
            page.set_default_timeout(300_000)
            address = address.replace("127.0.0.1", "localhost")
            page.goto(f"{address}empty.html")
            if not page.evaluate("async () => Boolean(await navigator.gpu?.requestAdapter())"):
                pytest.skip("no WebGPU adapter here: Chromium is without its Vulkan in software")
            complaints: list[str] = []
            page.on("console", lambda m: complaints.append(m.text) if m.type in ("error", "warning") else None)
            page.on("pageerror", lambda e: complaints.append(str(e)))
            yield Pages(page, folder, address, complaints)
        finally:
            browser.close()
