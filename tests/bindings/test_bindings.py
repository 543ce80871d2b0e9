"""Bindings of an artefact: each runs the digits network from a program in its own language."""

from __future__ import annotations

import importlib
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from needed import need
from onnx import TensorProto, helper
from small_models import model, node, tensor_input

import edgec
from edgec.errors import UsageError
from edgec.resources import data_folder

DIGITS = str(data_folder("apps") / "digits" / "digits.onnx")
PROGRAMS = Path(__file__).with_name("programs")


@dataclass(frozen=True)
class Made:
    """The artefact with its bindings, a picture as a file, and what the network makes of it."""

    folder: Path
    picture: Path
    wanted: np.ndarray

    def agrees(self, printed: str) -> None:
        np.testing.assert_allclose(np.array(printed.split(), np.float32), self.wanted, atol=1e-6)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    folder = tmp_path_factory.mktemp("bindings")
    beside = ("cpp", "python", "rust", "java")
    built = edgec.build(DIGITS, folder / "digits", name="digits", device="generic", threads=2, extras=beside)
    image = np.random.default_rng(0).random((1, 1, 8, 8), np.float32)
    image.tofile(folder / "picture.bin")
    return Made(folder / "digits", folder / "picture.bin", built(image).reshape(-1))


def run(command: Sequence[str | Path], **environment: str) -> str:
    """Output of a command; fails with its error output."""
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment}, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


def program(name: str, hint: str) -> str:
    path = shutil.which(name)
    if path is None:
        pytest.skip(f"{name} is missing: {hint}")
    return path


def test_cpp(made: Made, tmp_path: Path) -> None:
    compiler = program("g++", "apt install g++")
    flags = ["-std=c++17", "-O1", "-Wall", "-Wextra", "-Wpedantic", "-Werror", f"-I{made.folder}"]
    library = [f"-L{made.folder}", "-ldigits", f"-Wl,-rpath,{made.folder}", "-lpthread"]
    run([compiler, *flags, PROGRAMS / "classify.cpp", *library, "-o", tmp_path / "classify"])
    made.agrees(run([tmp_path / "classify", made.picture]))


@pytest.mark.parametrize("is_built", [True, False], ids=["library", "sources"])
def test_python(made: Made, tmp_path: Path, is_built: bool) -> None:
    folder = made.folder
    if not is_built:  # the wheel compiles the sources itself
        program("cc", "apt install gcc")
        folder = shutil.copytree(folder, tmp_path / "sources", ignore=shutil.ignore_patterns("*.so"))
    run([sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", tmp_path / "site", folder / "python"])
    lines = "import sys, numpy, digits; x = numpy.fromfile(sys.argv[1], 'float32').reshape(1, 1, 8, 8); "
    lines += "assert 'site' in digits.__file__; print(*digits.Net(threads=2)(x).reshape(-1))"
    made.agrees(run([sys.executable, "-c", lines, made.picture], PYTHONPATH=str(tmp_path / "site")))


def test_threads_take_turns_on_one_python_net(made: Made) -> None:
    """All in one arena: results are those of each image, and none is that of another call."""
    sys.path.insert(0, str(made.folder))
    try:
        digits = importlib.import_module("digits")
    finally:
        sys.path.remove(str(made.folder))
    net = digits.Net()
    images = np.random.default_rng(0).random((4, 1, 1, 8, 8), np.float32)
    meant = [net(image) for image in images]

    def differ(k: int) -> int:
        return sum(not np.array_equal(net(images[k]), meant[k]) for _ in range(3000))

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(differ, range(4))) == [0] * 4
    bound = net.bind([images[0]], [np.empty_like(meant[0])])
    net.close()
    with pytest.raises(ValueError, match="closed"):
        bound()


def test_rust(made: Made, tmp_path: Path) -> None:
    cargo = program("cargo", "https://rustup.rs")
    program("cc", "apt install gcc")
    crate = tmp_path / "classify"
    (crate / "src").mkdir(parents=True)
    manifest = (PROGRAMS / "Cargo.toml").read_text().replace("DIGITS", str(made.folder / "rust"))
    (crate / "Cargo.toml").write_text(manifest)
    shutil.copyfile(PROGRAMS / "classify.rs", crate / "src" / "main.rs")
    command = [cargo, "run", "-q", "--offline", "--manifest-path", crate / "Cargo.toml", "--", made.picture]
    made.agrees(run(command, CARGO_TARGET_DIR=str(tmp_path / "target")))


def test_rust_keeps_names_without_warnings(tmp_path: Path) -> None:
    cargo = program("cargo", "https://rustup.rs")
    program("cc", "apt install gcc")
    graph = model([node("Neg", ["Input"], ["Identity"])], [tensor_input("Input", [3])], ["Identity"])
    made = edgec.build(graph, tmp_path / "net", compile=False, bindings="rust")
    command = [cargo, "build", "-q", "--offline", "--manifest-path", made.folder / "rust" / "Cargo.toml"]
    run(command, CARGO_TARGET_DIR=str(tmp_path / "target"), RUSTFLAGS="-D warnings")


@pytest.fixture(scope="module")
def jni(made: Made) -> Path:
    """The folder of the library that Java loads."""
    home = Path(program("javac", "apt install default-jdk")).resolve().parent.parent
    sources = [made.folder / "java" / "digits_jni.c", *sorted(made.folder.glob("digits*.c")), made.folder / "ec_pool.c"]
    flags = ["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared", f"-I{made.folder}"]
    flags += [f"-I{home}/include", f"-I{home}/include/linux"]
    library = made.folder.parent / "libdigits_jni.so"
    run([program("gcc", "apt install gcc"), *flags, *sources, made.folder / "digits_weights.S", "-lm", "-o", library])
    return library.parent


def test_java(made: Made, jni: Path, tmp_path: Path) -> None:
    javac, java = program("javac", "apt install default-jdk"), program("java", "apt install default-jdk")
    api = made.folder / "java" / "src" / "main" / "java" / "edgec" / "digits" / "Network.java"
    run([javac, "--release", "8", "-Xlint:-options", "-Werror", "-d", tmp_path, api, PROGRAMS / "Classify.java"])
    command = [java, "-Xcheck:jni", f"-Djava.library.path={jni}", "-cp", tmp_path, "Classify", made.picture]
    printed = run(command)
    assert "WARNING" not in printed
    made.agrees(printed)


def test_kotlin(made: Made, jni: Path, tmp_path: Path) -> None:
    """Arrays in and out, on the caller's thread and in a coroutine; names and types of every kind compile."""
    kotlinc, java = need("kotlinc", "kotlin"), program("java", "apt install default-jdk")
    odd = every_kind(tmp_path / "open", ["java"])
    sources = [folder / "java" / "src" / "main" for folder in (made.folder, odd)]
    found = [file for folder in sources for kind in ("kt", "java") for file in sorted(folder.rglob(f"*.{kind}"))]
    run([kotlinc, "-Werror", "-d", tmp_path / "kt", *found, PROGRAMS / "Classify.kt"])
    javas = [file for file in found if file.suffix == ".java"]
    run([program("javac", "apt install default-jdk"), "-d", tmp_path / "kt", *javas])
    library = Path(kotlinc).resolve().parents[1] / "lib" / "kotlin-stdlib.jar"
    classes = f"{tmp_path / 'kt'}:{library}"
    made.agrees(run([java, "-Xcheck:jni", f"-Djava.library.path={jni}", "-cp", classes, "ClassifyKt", made.picture]))


def every_kind(folder: Path, bindings: Sequence[str]) -> Path:
    """A network with open and computed sizes, whose inputs and outputs are called like words of the languages."""
    nodes = [
        helper.make_node("NonZero", ["sizes"], ["handle"]),
        helper.make_node("Cast", ["type"], ["self"], to=TensorProto.INT8),
        helper.make_node("Neg", ["env"], ["native"]),
    ]
    inputs = [
        ("sizes", TensorProto.FLOAT, ["rows", 4]),
        ("type", TensorProto.BOOL, [3]),
        ("env", TensorProto.FLOAT16, [3]),
    ]
    outputs = [
        ("handle", TensorProto.INT64, [2, None]),
        ("self", TensorProto.INT8, [3]),
        ("native", TensorProto.FLOAT16, [3]),
    ]
    of = helper.make_tensor_value_info
    graph = helper.make_graph(nodes, "g", [of(*i) for i in inputs], [of(*o) for o in outputs])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    edgec.build(model, folder, name="open", dims={"rows": (2, 8, 2)}, device="generic", compile=False, extras=bindings)
    return folder


def test_names_types_and_sizes_of_every_kind(tmp_path: Path) -> None:
    folder = every_kind(tmp_path / "open", ["cpp", "rust", "java"])
    warnings = ["-Wall", "-Wextra", "-Werror", "-fsyntax-only", f"-I{folder}"]
    run([program("g++", "apt install g++"), "-std=c++17", *warnings, "-x", "c++", folder / "open.hpp"])
    run(
        [
            program("rustc", "https://rustup.rs"),
            "--crate-type=lib",
            "--emit=metadata",
            "-o",
            tmp_path / "m",
            folder / "rust" / "lib.rs",
        ]
    )
    javac = program("javac", "apt install default-jdk")
    home = Path(javac).resolve().parent.parent
    run(["gcc", *warnings, f"-I{home}/include", f"-I{home}/include/linux", folder / "java" / "open_jni.c"])
    run([javac, "-d", tmp_path, folder / "java" / "src" / "main" / "java" / "edgec" / "open" / "Network.java"])


def test_what_does_not_fit_is_refused(tmp_path: Path) -> None:
    for settings, message in (
        ({"extras": ["cobol"]}, "no app or binding 'cobol'"),
        ({"extras": ["java"], "name": "native"}, "'native' cannot be a name in java"),
        ({"extras": ["python"], "name": "lambda"}, "'lambda' cannot be a name in python"),
        ({"extras": ["cpp"], "name": "EOF"}, "'EOF' cannot be a name in cpp"),
        ({"name": "numpy"}, "numpy.py would hide the module that it imports"),
        ({"extras": ["java"], "device": "cortex_m4"}, "needs an operating system"),
        ({"extras": ["cpp"], "device": "cuda_sm90"}, "is for networks in C"),
    ):
        with pytest.raises(UsageError, match=message):
            edgec.build(DIGITS, tmp_path / "out", compile=False, **settings)  # type: ignore[arg-type]
    assert not (tmp_path / "out").exists()
