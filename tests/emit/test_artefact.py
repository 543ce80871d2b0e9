"""The generated project as its users meet it: calls side by side, refused arguments, and names out of models."""

from __future__ import annotations

import ctypes
import subprocess
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from compiled import FLAGS, STRICT, Compiled, compile_graphs
from small_graphs import arrays, conv, graph, pad, pool, relu, silu, softmax, value
from small_graphs import weights as numbers
from small_models import model, node, tensor_input, weights

import edgec
from edgec import ops
from edgec.ir import evaluate
from edgec.ir.graph import Graph

OK, NULL_POINTER, MISALIGNED = 0, 1, 2


@cache
def networks() -> dict[str, Graph]:
    image = relu(conv(pad(value("image", 1, 3, 16, 16), 1, 1), numbers(20, 3, 3, 3)))
    rows = silu(ops.node("matmul", value("rows", 24, 40), numbers(40, 50)))
    return {"image": graph(pool(image, "max", (2, 2), 2)), "rows": graph(softmax(rows, 1), rows)}


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Compiled]:
    made = compile_graphs(networks(), tmp_path_factory.mktemp("networks"), flags=FLAGS)
    return {name: c for name, c in made.items() if isinstance(c, Compiled)}


def test_side_by_side(compiled: dict[str, Compiled]) -> None:
    """Two networks, and two calls of each, run at once in one process on pools of their own, with shared weights."""

    def repeatedly(name: str, seed: int) -> float:
        given = arrays(networks()[name], seed)
        first = compiled[name](given)
        want = evaluate.run(networks()[name], given)
        for run in range(60):
            again = compiled[name](given, 2 if run % 10 == 0 else None)
            assert all(np.array_equal(again[port], first[port]) for port in first)
        return max(float(np.abs(first[p] - want[p]).max() / np.abs(want[p]).max()) for p in want)

    with ThreadPoolExecutor(4) as threads:
        errors = list(threads.map(repeatedly, ["image", "rows", "image", "rows"], range(4)))
    assert max(errors) < 1e-5


def test_arguments_are_checked(compiled: dict[str, Compiled]) -> None:
    network = compiled["rows"]
    memory = np.full(1 << 20, 0xA5, np.uint8)
    start = memory.ctypes.data + -memory.ctypes.data % 64
    places = [start + k * (1 << 17) for k in range(5)]  # weights, arena, rows, y0, y1
    assert network.program.arena_bytes < 1 << 17 and network.program.weights_bytes < 1 << 17
    ctypes.memmove(places[0], network.weights.address, network.program.weights_bytes)

    def run(arguments: list[int], pooled: bool) -> int:
        pointers = [ctypes.c_void_p(a) for a in arguments]
        return int(network.run_pool(*pointers[:2], None, *pointers[2:]) if pooled else network.run(*pointers))

    before = memory.copy()
    for pooled in (False, True):
        for k in range(5):
            assert run([0 if k == j else p for j, p in enumerate(places)], pooled) == NULL_POINTER
        for k in (0, 1):
            for shift in (1, 4, 32):
                assert run([p + shift * (k == j) for j, p in enumerate(places)], pooled) == MISALIGNED
        assert np.array_equal(memory, before), "a refused call wrote something"
        # Inputs and outputs need no alignment but that of their elements.
        assert run([*places[:2], *(p + 4 for p in places[2:])], pooled) == OK
        before = memory.copy()


#: Names of inputs that mean something in C, in C++, or to the C library; and such that differ in case alone.
NAMES = (
    "state", "run", "i", "status", "best", "argc", "main", "printf", "y1", "exp", "index", "size_t", "NULL", "class",
    "linux", "a", "A", "net", "net_run", "float32", "EOF", "bool", "EC_VL", "0", "é", "data", "x-y", "x_y", "x y",
    "__init__", "np", "arena", "SIZE_MAX", "*/", "weights", "NET_ARENA_BYTES", "ec_pool",
)  # fmt: skip


def test_names(tmp_path: Path) -> None:
    """A model may call its inputs what it likes: sources, example and header compile without a warning."""
    shapes = [[k + 1] if k % 5 else [0, 2] for k in range(len(NAMES))]
    proto = model(
        [node("Add", [name, "one"], [f"sum of {name}"]) for name in NAMES],
        [tensor_input(name, shape) for name, shape in zip(NAMES, shapes)],
        [f"sum of {name}" for name in NAMES], [weights("one", np.float32(1))],
    )  # fmt: skip
    net = edgec.build(proto, tmp_path / "out", device="generic")
    given = {name: np.full(shape, k, np.float32) for k, (name, shape) in enumerate(zip(NAMES, shapes))}
    got = net(**given)
    for name in NAMES:
        np.testing.assert_array_equal(got[f"sum of {name}"], given[name] + 1)
    sources = [p.name for p in net.folder.glob("*.[cS]") if p.name != "runner.c"]
    commands = [
        ["gcc", *STRICT, *sources, "-o", "example", "-lm", "-lpthread"],
        ["g++", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-x", "c++", "net.h"],
        ["gcc", *STRICT, *(s if s != "main.c" else "runner.c" for s in sources), "-o", "runner", "-lm", "-lpthread"],
        ["./example", "2"],
    ]
    for command in commands:
        done = subprocess.run(command, cwd=net.folder, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[:3000]
    assert done.stdout.count("largest of") == sum(all(s) for s in shapes)
    parsed = {"generic_opencl": ["gcc", "-std=gnu11", "*.c"], "cuda_sm90": ["g++", "-std=c++17", "*.cpp"]}
    for device, (compiler, standard, pattern) in parsed.items():
        folder = edgec.build(proto, tmp_path / device, device=device, compile=False).folder
        command = [compiler, standard, *STRICT[1:], "-DEC_PROFILE", "-fsyntax-only", *folder.glob(pattern)]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[:3000]


@pytest.mark.parametrize("device", ["generic", "generic_opencl"])
def test_a_dimension_called_t(device: str, tmp_path: Path) -> None:
    """Sizes are size_NAME in C, but for the one name that is a type there."""
    proto = model([node("Exp", ["x"], ["y"])], [tensor_input("x", ["t", 3])])
    folder = edgec.build(proto, tmp_path / "out", device=device, compile=False, dims={"t": (1, 9, 1)}).folder
    sources = [p for p in folder.glob("*.c") if p.name != "runner.c"]
    done = subprocess.run(["gcc", *STRICT, "-fsyntax-only", *sources], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[:3000]


def test_without_arena(tmp_path: Path) -> None:
    """A network that keeps nothing between kernels takes any arena, or none."""
    x = value("x", 9)
    network = compile_graphs({"relu": graph(relu(x))}, tmp_path)["relu"]
    assert isinstance(network, Compiled) and network.program.arena_bytes == 0
    given, result = np.linspace(-1, 1, 9, dtype=np.float32), np.empty(9, np.float32)
    pointers = [ctypes.c_void_p(a) for a in (network.weights.address, 0, given.ctypes.data, result.ctypes.data)]
    assert network.run(*pointers) == OK
    np.testing.assert_array_equal(result, np.maximum(given, 0))


def test_a_folder_that_is_built_again(tmp_path: Path) -> None:
    """In one process: the loader must not hand out the library that lay there before."""
    for power in (2.0, 3.0):
        source = model(
            [node("Mul", ["x", "k"], ["y"])], [tensor_input("x", [4])],
            initializers=[weights("k", np.float32(power))],
        )  # fmt: skip
        edgec.build(source, tmp_path / "net")
        network = edgec.Network(tmp_path / "net")
        assert network.run({"x": np.ones(4, np.float32)})["y"].tolist() == [power] * 4
