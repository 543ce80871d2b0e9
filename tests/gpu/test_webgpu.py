"""WebGPU: kernels in WGSL and their host, in a headless Chromium with its adapter in software; and what is refused."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from chance import RANDOM, SEED
from convnet import convnet
from drawn import part
from kernel_cases import cases
from needed import need
from onnx import TensorProto
from opencl_networks import joined
from small_graphs import arrays, doubled
from small_models import model, node, tensor_input, weights
from test_cuda_kernels import difference
from webgpu_networks import small, transformer

import edgec
from benchmarks.boards.webgpu import NoAdapter, Pages, webgpu
from edgec import api
from edgec.device.load import load_device
from edgec.emit import webgpu as project
from edgec.errors import DeviceError, EdgecError
from edgec.frontend.source import read
from edgec.fuse import plan
from edgec.ir import evaluate
from edgec.ir.graph import Graph
from edgec.options import resolve
from edgec.pipeline.preprocessing import with_preprocessing
from edgec.resources import data_folder
from edgec.schedule.build import schedule
from edgec.schedule.gpu.tiles import tiles_for

DIGITS = data_folder("apps") / "digits"
DEVICE = load_device("webgpu")
#: Groups of cases, and every which of them is run.
GROUPS = {"maps": 3, "rows": 8, "windows": 4, "contractions": 7, "convolutions": 6, "epilogues": 4, "aliases": 2,
          "comparisons": 3, "byte_products": 20, "transposes": 5, "reductions": 2}  # fmt: skip
TOLERANCE = 1e-4


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pages]:
    need("chromium", "chromium"), need("chromedriver", "chromium-driver")
    try:
        with webgpu(tmp_path_factory.mktemp("webgpu")) as found:
            yield found
    except NoAdapter as reason:
        pytest.skip(f"no WebGPU adapter here: {reason}")


def sample_of(net: onnx.ModelProto, ranges: Mapping[str, tuple[int, int]] = {}) -> dict[str, np.ndarray]:
    """Random inputs of a model."""
    found = {}
    for port in net.graph.input:
        shape = [d.dim_value for d in port.type.tensor_type.shape.dim]
        dtype = onnx.helper.tensor_dtype_to_np_dtype(port.type.tensor_type.elem_type)
        if dtype.kind == "f":
            found[port.name] = RANDOM.standard_normal(shape).astype(dtype)
        else:
            found[port.name] = RANDOM.integers(*ranges.get(port.name, (0, 2)), shape).astype(dtype)
    return found


def agrees(
    pages: Pages, name: str, net: onnx.ModelProto, ranges: Mapping[str, tuple[int, int]] = {}, **settings: str
) -> None:
    """Two runs of a network in the browser give what onnxruntime gives."""
    folder = pages.folder / name.replace(" ", "_")
    edgec.build(net, folder, name="net", device="webgpu", **settings)
    whole = with_preprocessing(read(net), resolve(settings))[0].proto
    session = onnxruntime.InferenceSession(whole.SerializeToString(), providers=["CPUExecutionProvider"])
    samples = [sample_of(whole, ranges) for _ in range(2)]
    for sample, got in zip(samples, pages.run(folder, samples)):
        for output, want in zip(session.get_outputs(), session.run(None, sample)):
            wrong = difference(got[output.name], want, TOLERANCE)
            assert wrong is None, f"{name}: {output.name}: {wrong}"


def test_kernels_compute_their_formulas(pages: Pages) -> None:
    everything = cases()
    for name in part(GROUPS, "groups of WebGPU"):
        some = joined(_taken(dict(list(everything[name].items())[:: GROUPS[name]])))
        folder = pages.folder / f"kernels_{name}"  # a browser keeps the module of an address
        for path, content in project.webgpu_files(schedule(plan(some, gpu=True), DEVICE), DEVICE).items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(content)
        given = arrays(some, SEED)
        wide = {n: v.astype(np.float64) if v.dtype == np.float32 else v for n, v in given.items()}
        want = evaluate.run(doubled(some), wide)
        (got,) = pages.run(folder, [given])
        told = {output: difference(result, want[output], 1e-5) for output, result in got.items()}
        assert not any(told.values()), f"seed {SEED}: {name}: {told}"


def _taken(graphs: Mapping[str, Graph]) -> dict[str, Graph]:
    """The graphs that can be written in WGSL."""
    found = {}
    for name, graph in graphs.items():
        try:
            project.webgpu_files(schedule(plan(graph, gpu=True), DEVICE), DEVICE)
        except DeviceError:
            continue
        found[name] = graph
    assert 4 * len(found) >= 3 * len(graphs), "most are refused"
    return found


def test_networks_agree_with_onnxruntime(pages: Pages) -> None:
    known = {name: (net, ranges) for name, net, ranges in small()}
    known |= {"convnet": (convnet(), {}), "transformer": (transformer(), {"ids": (0, 50), "mask": (1, 2)})}
    for name in part(known, "networks of WebGPU"):
        agrees(pages, name, *known[name])


@pytest.mark.parametrize("format", ["rgba8", "nv12"])
def test_pictures_and_sounds_become_inputs(pages: Pages, format: str) -> None:
    agrees(pages, format, convnet(), {"picture": (0, 256)}, pre=f"picture={format}:26x30", picture="std=0.229")
    sound = model([node("Softmax", ["x"], ["y"])], [tensor_input("x", [1, 5, 8])])
    pre = "audio=mfcc:400,rate=8000,n_fft=64,hop_length=100,n_mels=16,n_mfcc=8,type=i16,log=ln,amin=1e-3"
    agrees(pages, f"sound_{format}", sound, {"sound": (-32768, 32768)}, pre=pre)


def test_more_work_groups_than_fit_in_a_row(pages: Pages, monkeypatch: pytest.MonkeyPatch) -> None:
    assert project.in_rows(65_535) == (65_535, 1) and project.in_rows(65_536) == (32_768, 2)
    monkeypatch.setattr(project, "MOST_IN_A_ROW", 3)
    net = model(
        [node("Relu", ["x"], ["y"]), node("MatMul", ["x", "w"], ["z"]), node("Softmax", ["x"], ["s"])],
        [tensor_input("x", [90, 50])], ["y", "z", "s"], [weights("w", np.ones((50, 70), np.float32))],
    )  # fmt: skip
    agrees(pages, "rows_of_groups", net)


def test_the_module_says_what_is_wrong(pages: Pages) -> None:
    net = model([node("Abs", ["i"], ["y"])], [tensor_input("i", [2], TensorProto.INT64)])
    edgec.build(net, pages.folder / "abs", name="net", device="webgpu")
    found = pages.browser.run(
        "const { Network } = await import(given[0]); const network = await Network.load();"
        "const told = async () => network.run().catch((problem) => problem.message);"
        "network.inputs.i.set([-5n, 7n]); const runs = [told(), told()]; await Promise.all(runs);"
        "const right = [...network.outputs.y].map(Number);"
        "network.inputs.i[1] = 2n ** 31n; const far = await told(); network.close();"
        "const none = await Network.of([], new ArrayBuffer(3)).catch((problem) => problem.message);"
        "return [right, far, await told(), none]",
        pages.module(pages.folder / "abs"),
    )
    assert found[0] == [5, 7] and "2147483648 has more than 32 bits" in found[1]
    assert "closed" in found[2] and "weights of 3 bytes" in found[3]


def test_the_package_and_its_page(pages: Pages) -> None:
    """The page looks at a picture; npm packs the folder; in Node.js, which has no WebGPU, it says so."""
    folder = pages.folder / "digits"
    edgec.build(str(DIGITS / "digits.onnx"), folder, name="digits", device="webgpu", app="web")
    with np.load(DIGITS / "digits_test.npz") as data:
        image, label = data["image"][:1].reshape(8, 8), int(data["label"][0])
    pages.browser.open(f"{pages.address}digits/web/")
    pages.browser.wait("return document.getElementById('status').textContent === 'ready'")
    best = pages.browser.run(
        "const canvas = new OffscreenCanvas(8, 8), pen = canvas.getContext('2d');"
        "given[0].forEach((v, k) => { pen.fillStyle = `rgb(${v}, ${v}, ${v})`; pen.fillRect(k % 8, k >> 3, 1, 1); });"
        "const files = new DataTransfer(); files.items.add(new File([await canvas.convertToBlob()], 'drawn.png'));"
        "const event = new DragEvent('drop', { dataTransfer: files, bubbles: true });"
        "document.getElementById('zone').dispatchEvent(event);"
        "while (!document.getElementById('status').dataset.picture) await new Promise((go) => setTimeout(go, 20));"
        "return Number(document.querySelector('#bars li').dataset.class)",
        np.rint(image.reshape(-1) * 255).astype(int).tolist(),
    )
    assert best == label
    two = model([node("Sub", ["x", "y"], ["z"])], [tensor_input("x", [2]), tensor_input("y", [2])], ["z"])
    edgec.build(two, pages.folder / "two", name="net", device="webgpu", app="web")
    (pages.folder / "x.csv").write_text("1.5, -2")
    pages.browser.open(f"{pages.address}two/web/")
    pages.browser.wait("return !document.getElementById('run')?.disabled")
    pages.browser.choose("[data-input=x]", pages.folder / "x.csv")
    pages.browser.wait("return document.getElementById('status').textContent === 'x.csv is read'")
    pages.browser.run("document.getElementById('run').click()")
    rows = "return [...document.querySelectorAll('#outputs li')].map((row) => Number(row.textContent.split(': ')[1]))"
    assert pages.browser.wait(f"const rows = await (async () => {{ {rows} }})(); return rows.length && rows") == [
        1.5,
        -2,
    ]
    manifest = json.loads((folder / "web" / "package.json").read_text())
    assert all((folder / "web" / file).is_file() for file in manifest["files"])
    assert (folder / "web" / "digits_kernels_0.wgsl").read_text().count("@compute") >= 1
    assert "run(): Promise<void>" in (folder / "web" / "digits.d.ts").read_text()
    code = "import { Network } from './digits.js'; await Network.of([], new ArrayBuffer(Number(process.argv[1])))"
    command = [
        need("node", "nodejs"),
        "--input-type=module",
        "-e",
        code,
        str((folder / "web" / "digits_weights.bin").stat().st_size),
    ]
    done = subprocess.run(command, cwd=folder / "web", capture_output=True, text=True, check=False)
    assert "there is no WebGPU here" in done.stderr


def _one(op: str, dtype: int = TensorProto.FLOAT, shape: tuple[object, ...] = (2, 3)) -> onnx.ModelProto:
    return model([node(op, ["x"], ["y"])], [tensor_input("x", shape, dtype)])


REFUSED = {
    "a dimension": (_one("Relu", shape=("n", 3)), {"dims": {"n": range(1, 5)}}, "open until it runs"),
    "float64": (_one("Relu", TensorProto.DOUBLE), {}, "no values of f64"),
    "float16": (_one("Relu", TensorProto.FLOAT16), {}, "no values of f16"),
    "uint64": (model([node("Add", ["x", "x"], ["y"])], [tensor_input("x", [2], TensorProto.UINT64)]), {}, "u64"),
    "a large integer": (
        model([node("Add", ["x", "c"], ["y"])], [tensor_input("x", [2], TensorProto.INT64)],
              initializers=[weights("c", np.int64(2**40))]), {}, "64 bits, such as|does not fit the i32",
    ),
    "a procedure": (model([node("TopK", ["x", "k"], ["y", "i"])], outputs=["y", "i"], initializers=[
        weights("k", np.array([2]))]), {}, "no wgsl kernel for 'argsort"),
    "halves": (_one("Relu"), {"precision": "fp16"}, "are in fp32"),
    "int8": (_one("Relu"), {"quantize": "int8", "calibrate": "random"}, "are in fp32"),
    "four bits": (_one("Relu"), {"quantize": "int4-weight"}, "are in fp32"),
    "a limit of memory": (_one("Relu"), {"ram": "64K"}, "as much memory as they need"),
    "threads": (_one("Relu"), {"threads": 2}, "no threads"),
    "bounds": (_one("Relu"), {"bounds": True}, "bounds"),
    "weights in a file": (_one("Relu"), {"weights": "file"}, "weights of 'webgpu'"),
    "another app": (_one("Relu"), {"app": "pi"}, "'pi' is for networks in C"),
    "a binding": (_one("Relu"), {"bindings": "cpp"}, "'cpp' is for networks in C"),
    "a training": (_one("Relu"), {"loss": "mse"}, "not written for 'webgpu'|training"),
}  # fmt: skip


@pytest.mark.parametrize("name", ["webgpu", "generic_opencl"])
def test_tiles_fit_the_memory_of_a_work_group(name: str) -> None:
    device = load_device(name)
    found = tiles_for(1, 1024, 128, 256, device, "", False)
    assert found and all(t.shared_bytes <= device.gpu.shared_bytes for t in found)
    assert all(t.threads <= device.gpu.group_threads for t in found)


def test_it_runs_in_browsers_alone() -> None:
    net = _one("Relu")
    with pytest.raises(EdgecError, match="in browsers alone"):
        edgec.build(net, device="webgpu")(np.zeros((2, 3), np.float32))
    with pytest.raises(EdgecError, match="in browsers alone"):
        api.run_on_device(net, {"x": np.zeros((1, 2, 3), np.float32)}, device="webgpu", link="node")


def test_stages_are_checked_in_numpy() -> None:
    """Buffers of words hold numbers of other types."""
    (net,) = (net for name, net, _ in small() if name == "integers")
    checked = edgec.check(net, device="webgpu")
    assert checked.verdict == "not run" and {d.max_abs for d in checked.outputs} == {0.0}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_left_out_is_refused_in_words(what: str, tmp_path: Path) -> None:
    net, settings, words = REFUSED[what]
    with pytest.raises(EdgecError, match=words) as told:
        edgec.build(net, tmp_path / "out", device="webgpu", **settings)
    assert told.value.hint and not (tmp_path / "out").exists()
