"""Networks on WebGPU in one headless Chromium, on its adapter in software; needs chromium and chromedriver."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.boards.browser import Browser, served
from edgec.ir.types import DTYPES

#: Chromium's own Vulkan on the processor. Workgroup memory is not cleared, on which no kernel relies: that alone takes
#: most of the time in which kernels are compiled there.
ADAPTER = (
    "--enable-unsafe-webgpu", "--use-webgpu-adapter=swiftshader", "--use-vulkan=swiftshader",
    "--enable-features=Vulkan", "--ignore-gpu-blocklist", "--enable-dawn-features=disable_workgroup_init",
)  # fmt: skip
_ASKED = "return Boolean(await navigator.gpu?.requestAdapter())"
#: Arrays go in and out as texts, bytes in base64.
_RUN = """
const [module, samples] = given;
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
for (const inputs of samples) {
  network.poison();
  for (const [name, data] of Object.entries(inputs)) {
    const array = network.inputs[name];
    array.set(new array.constructor(bytes(data)));
  }
  for (const array of Object.values(network.outputs)) new Uint8Array(array.buffer).fill(255);
  await network.run();
  found.push(Object.fromEntries(Object.entries(network.outputs).map(([name, array]) => [name, text(array)])));
}
network.close();
return { found, told };
"""


class NoAdapter(Exception):
    """The browser has no WebGPU here."""


class Pages:
    """A browser with WebGPU, and the folder that is served to it."""

    def __init__(self, browser: Browser, folder: Path, address: str) -> None:
        self.browser, self.folder, self.address = browser, folder, address

    def module(self, built: Path) -> str:
        """The address of the module of a network that was built below the folder."""
        name = json.loads((built / "edgec.lock").read_text())["name"]
        return f"{self.address}{built.relative_to(self.folder)}/web/{name}.js"

    def run(self, built: Path, samples: Sequence[Mapping[str, np.ndarray]]) -> list[dict[str, np.ndarray]]:
        """Outputs for each sample, both by the names in the model; memory is poisoned before each run.

        Raises RuntimeError for what the network throws.
        """
        lock = json.loads((built / "edgec.lock").read_text())
        names = {port["onnx_name"]: port["name"] for port in lock["inputs"]}
        given = [{names[name]: _text(array) for name, array in sample.items()} for sample in samples]
        answer = self.browser.run(_RUN, self.module(built), given)
        if any(done > of for done, of in answer["told"]):
            raise RuntimeError(f"progress of {answer['told']}")
        return [{p["onnx_name"]: _array(p, found[p["name"]]) for p in lock["outputs"]} for found in answer["found"]]


def _text(array: np.ndarray) -> str:
    return base64.b64encode(np.ascontiguousarray(array).tobytes()).decode()


def _array(port: Mapping[str, Any], text: str) -> np.ndarray:
    return np.frombuffer(base64.b64decode(text), DTYPES[port["dtype"]]).reshape(port["shape"])


@contextmanager
def webgpu(folder: Path) -> Iterator[Pages]:
    """A browser with WebGPU to which ``folder`` is served. Raises NoAdapter where it has none."""
    (folder / "empty.html").write_text('<!doctype html><title>empty</title><link rel="icon" href="data:,">')
    with served(folder) as address, Browser(flags=ADAPTER, without=("--disable-gpu",)) as browser:
        address = address.replace("127.0.0.1", "localhost")
        browser.open(f"{address}empty.html")
        if not browser.run(_ASKED):
            raise NoAdapter("Chromium is without its Vulkan in software")
        yield Pages(browser, folder, address)
