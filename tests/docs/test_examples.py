"""The example files of the documents do what the documents say, each from a folder outside the package."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from needed import need
from onnx import helper
from small_models import model, node, tensor_input, weights

import edgec
from edgec.build import read
from edgec.cli.demo import digits
from edgec.cli.main import main
from edgec.device.load import load_device
from edgec.device.toolchain import Compiler, compile_program, find_compilers
from edgec.errors import EdgecError
from edgec.report.explain import explain

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "docs" / "examples"
PAGES = sorted([*(ROOT / "docs").rglob("*.md"), ROOT / "README.md"])


def test_an_operator(tmp_path: Path) -> None:
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("docs.example", 1)]
    smooth = node("CyclicMean", ["x"], ["y"], "smooth", domain="docs.example", weight=0.5)
    graph = helper.make_graph([smooth], "g", [tensor_input("x", [3, 10])], [tensor_input("y", [3, 10])])
    path = tmp_path / "circle.onnx"
    onnx.save(helper.make_model(graph, opset_imports=opsets), path)
    net = edgec.build(path, operators=[EXAMPLES / "operators"])
    x = np.random.default_rng(0).standard_normal((3, 10)).astype(np.float32)
    want = (x + 0.5 * (np.roll(x, 1, 1) + np.roll(x, -1, 1))) / 2
    assert np.allclose(net(x), want, atol=1e-6)
    assert edgec.check(net).reference == "the graph in numpy"


def test_a_procedure(tmp_path: Path) -> None:
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("docs.example", 1)]
    nodes = [node("Relu", ["x"], ["r"]), node("Echo", ["r"], ["y"], "echo", domain="docs.example", keep=0.75)]
    graph = helper.make_graph(nodes, "g", [tensor_input("x", [3, 10])], [tensor_input("y", [3, 10])])
    path = tmp_path / "echo.onnx"
    onnx.save(helper.make_model(graph, opset_imports=opsets), path)
    folders = {"operators": [EXAMPLES / "operators"], "templates": [EXAMPLES / "templates"]}
    net = edgec.build(path, tmp_path / "out", threads=2, **folders)
    x = np.random.default_rng(0).standard_normal((3, 10)).astype(np.float32)
    want = np.maximum(x, 0)
    for i in range(1, 10):
        want[:, i] += np.float32(0.75) * want[:, i - 1]
    assert np.allclose(net(x), want, atol=1e-6)
    assert edgec.check(net).ok
    told = explain(net.stages, read(path), "echo")
    assert [core["formula"] for core in told["imported_as"]] == ["y = decay(x0, keep=0.75)"]
    assert [(k["kind"], k["flops"]) for k in told["kernels"]] == [("procedure", 60)]
    with pytest.raises(EdgecError, match="no c template renders a procedure 'decay'"):
        edgec.build(path, tmp_path / "other", operators=folders["operators"], compile=False)
    assert not (tmp_path / "other").exists()


@pytest.mark.skipif(shutil.which("git") is None, reason="there is no git here")
def test_a_change_that_adds_an_operator(tmp_path: Path) -> None:
    """Applied to a copy of the package and its tests, it passes the test that it adds."""
    for folder in ("edgec", "tests"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__", "_data"))
    diff = EXAMPLES / "changes" / "expand_dims.diff"
    subprocess.run(["git", "apply", "--whitespace=error", str(diff)], cwd=tmp_path, check=True)
    own = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{tmp_path / 'tests'}"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/onnx/test_contrib.py"]
    done = subprocess.run([*command, "-k", "ExpandDims"], cwd=tmp_path, env=own, capture_output=True, text=True)
    assert done.returncode == 0 and "1 passed" in done.stdout, done.stdout + done.stderr


def hyperbolic() -> onnx.ModelProto:
    nodes = [
        node("Mul", ["x", "two"], ["a"]), node("Sigmoid", ["a"], ["b"]),
        node("Mul", ["b", "two"], ["c"]), node("Sub", ["c", "one"], ["y"], "last"),
    ]  # fmt: skip
    numbers = [weights("two", np.float32(2)), weights("one", np.float32(1))]
    return model(nodes, [tensor_input("x", [4, 128])], ["y"], numbers)


def test_a_rule() -> None:
    net = edgec.build(hyperbolic(), rules=[EXAMPLES / "rules"])
    assert [n.op for n in net.graph.operations()] == ["tanh"]
    assert len(edgec.build(hyperbolic(), compile=False).graph.operations()) > 1
    x = np.linspace(-6, 6, 512, dtype=np.float32).reshape(4, 128)
    assert np.allclose(net(x), np.tanh(x), atol=1e-6)


@pytest.mark.parametrize("extent, uses_it", [(128, True), (130, False)])
def test_a_template(extent: int, uses_it: bool, tmp_path: Path) -> None:
    """The requirement decides: rows of 128 are whole vectors, rows of 130 are not."""
    relu = model([node("Relu", ["x"], ["y"])], [tensor_input("x", [5, extent])])
    net = edgec.build(relu, tmp_path / "out", threads=2, templates=[EXAMPLES / "templates"])
    source = "".join(path.read_text() for path in (tmp_path / "out").glob("*.c"))
    assert ("map_even" in source) == uses_it
    checked = edgec.check(net)
    assert checked.ok and checked.executed_stage == "emit" and checked.threads == (1, 2)


@pytest.mark.parametrize("terms, uses_it", [(8, True), (21, True), (64, True), (7, False)])
def test_a_micro_kernel(terms: int, uses_it: bool, tmp_path: Path) -> None:
    """Products of bytes, of which the last step may have fewer; the sums are those of integers."""
    random = np.random.default_rng(terms)
    w = random.integers(-128, 128, (terms, 33)).astype(np.int8)
    product = model(
        [node("MatMulInteger", ["x", "w"], ["y"])],
        [tensor_input("x", [7, terms], onnx.TensorProto.INT8)],
        initializers=[weights("w", w)],
    )
    folder = EXAMPLES / "micro_kernels"
    net = edgec.build(product, tmp_path / "out", threads=2, micro_kernels=[folder])
    source = "".join(path.read_text() for path in (tmp_path / "out").glob("*.c"))
    assert ("ec_dot8(" in source) == ((tmp_path / "out" / "ec_dot8.h").exists()) == uses_it
    checked = edgec.check(net)
    assert checked.ok and checked.executed_stage == "emit"
    x = random.integers(-128, 128, (7, terms)).astype(np.int8)
    assert np.array_equal(net(x), x.astype(np.int32) @ w.astype(np.int32))
    plain = edgec.build(product, tmp_path / "plain", compile=False)  # only a build that names the folder uses it
    assert not (plain.folder / "ec_dot8.h").exists()


def test_a_device(tmp_path: Path) -> None:
    path = digits()[0]
    net = edgec.build(
        path, tmp_path / "out", device="rock_5b", devices=[EXAMPLES / "devices"], threads=4, compile=False
    )
    device = net.options.device
    assert device.bases == ("arm64",) and device.has("neon", "dotprod") and device.vector_bytes == 16
    assert "-mcpu=cortex-a76" in (tmp_path / "out" / "CMakeLists.txt").read_text()
    checked = edgec.check(net)
    assert checked.ok and checked.executed_stage == "schedule"
    assert load_device(EXAMPLES / "devices" / "rock_5b.toml") == device


@pytest.mark.parametrize("compiler", find_compilers(load_device("host")), ids=lambda c: c.kind)
def test_a_c_program(compiler: Compiler, tmp_path: Path) -> None:
    device = load_device("host")
    folder = edgec.build(digits()[0], tmp_path / "digits", threads=2, compile=False).folder
    sources = [EXAMPLES / "c" / "classify.c", *sorted(folder.glob("net*.[cS]")), folder / "ec_pool.c"]
    program = compile_program(compiler, device, sources, tmp_path / "classify", include=[folder])
    done = subprocess.run([str(program)], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("a 4, probability 0.9") or done.stdout == "a 4, probability 1.000\n"


@pytest.mark.skipif(shutil.which("cmake") is None, reason="there is no cmake here")
def test_the_cmake_project_of_a_board(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`build` says how: nothing is there to link a program with, but the library is built."""
    need("arm-none-eabi-gcc", "gcc-arm-none-eabi", "libnewlib-arm-none-eabi")
    folder = tmp_path / "digits"
    with pytest.raises(SystemExit):
        main(["build", str(digits()[0]), "--device", "rp2350", "-o", str(folder), "--json"])
    told = json.loads(capsys.readouterr().out)
    assert (told["runs_here"], told["cross"][:28]) == (False, "-DCMAKE_SYSTEM_NAME=Generic ")
    subprocess.run(["cmake", "-S", folder, "-B", folder / "build", *told["cross"].split()], check=True)
    subprocess.run(["cmake", "--build", folder / "build"], check=True)
    assert (folder / "build" / "libnet.a").is_file()


@pytest.mark.skipif(shutil.which("cmake") is None, reason="there is no cmake here")
def test_the_cmake_project(tmp_path: Path) -> None:
    folder = edgec.build(digits()[0], tmp_path / "digits", compile=False).folder
    for command in (["cmake", "-S", folder, "-B", folder / "build"], ["cmake", "--build", folder / "build"]):
        subprocess.run(command, capture_output=True, check=True)
    done = subprocess.run([folder / "build" / "net_example"], capture_output=True, text=True, check=True)
    assert "largest of 10 elements" in done.stdout


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_pages_show_the_files_as_they_are(page: Path) -> None:
    for name, shown in re.findall(r"```\w+ (docs/examples/\S+)\n(.*?)```", page.read_text(), re.DOTALL):
        assert shown == (ROOT / name).read_text(), f"{page.name} shows another {name}"


def test_every_example_is_on_a_page() -> None:
    pages = "".join(page.read_text() for page in PAGES)
    files = [
        p.relative_to(ROOT).as_posix() for p in EXAMPLES.rglob("*") if p.is_file() and "__pycache__" not in p.parts
    ]
    assert files and all(f" {name}\n" in pages for name in files)


def test_ci_runs_what_the_readme_says() -> None:
    section = (ROOT / "README.md").read_text().partition("## Tests")[2]
    commands = re.search(r"```sh\n(.*?)```", section, re.DOTALL)
    assert commands is not None
    script = (ROOT / ".ci" / "run").read_text()
    install, test = commands[1].splitlines()
    assert install.replace("pip install ", "pip install --quiet ") in script
    assert f"\n{test} " in script
