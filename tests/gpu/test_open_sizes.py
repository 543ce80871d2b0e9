"""Open dimensions on GPUs: the whole artifact for CUDA, host code included, run here; and a copy in OpenCL."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

import numpy as np
import onnx
import pytest
from emulated import FLAGS
from small_models import model, node, tensor_input, weights

import edgec
from edgec.build import Built
from edgec.schedule.gpu import loops


def network() -> onnx.ModelProto:
    """A convolution and a classifier of any batch."""
    random = np.random.default_rng(0)
    given = [weights(n, random.standard_normal(s).astype(np.float32)) for n, s in (("w", (8, 3, 3, 3)), ("v", (8, 5)))]
    nodes = [
        node("Conv", ["x", "w"], ["a"]),
        node("Relu", ["a"], ["b"]),
        node("ReduceMean", ["b"], ["c"], axes=[2, 3], keepdims=0),
        node("MatMul", ["c", "v"], ["y"]),
    ]
    return model(nodes, [tensor_input("x", ["batch", 3, 7, 5])], initializers=given)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    folder = tmp_path_factory.mktemp("open") / "net"
    dims = {"batch": (2, 6, 2)}
    return edgec.build(network(), folder, device="cuda_sm86", compiler="emulated", dims=dims)


def test_every_size_is_right(built: Built) -> None:
    assert edgec.check(built, samples=3).ok


def test_sizes_outside_their_range_are_refused_before_anything_is_copied(built: Built) -> None:
    library = ctypes.CDLL(str(built.folder / "libnet.so"))
    session, x, y = ctypes.c_void_p(), np.zeros((8, 3, 7, 5), np.float32), np.zeros((8, 5), np.float32)
    held = np.fromfile(built.folder / "net_weights.bin", np.uint8)
    assert library.net_open(ctypes.byref(session), ctypes.c_void_p(held.ctypes.data)) == 0
    header = (built.folder / "net.h").read_text()
    for batch, is_fine in ((4, True), (0, False), (3, False), (8, False)):
        sizes = (ctypes.c_int64 * 1)(batch)
        status = library.net_run_host(session, sizes, *(ctypes.c_void_p(a.ctypes.data) for a in (x, y)))
        name = "NET_OK" if is_fine else "NET_BAD_SIZE"
        assert f"{name} = {status}," in header, (batch, status)
    library.net_close(session)


def test_the_example_compiles_without_warnings(built: Built) -> None:
    for name in ("net.cu", "main.cpp", "runner.cpp"):
        command = ["g++", *FLAGS, "-O0", "-fsyntax-only", name]
        done = subprocess.run(command, capture_output=True, text=True, cwd=built.folder, check=False)
        assert not done.returncode, done.stderr[:2000]


def test_a_copy_onto_itself_is_left_out_after_its_pointers_are_known(tmp_path: Path) -> None:
    nodes = [
        node("MatMul", ["x", "w"], ["a"]),
        node("Transpose", ["a"], ["b"], perm=[0, 2, 1]),
        node("MatMul", ["x", "b"], ["y"]),
    ]
    given = [weights("w", np.random.default_rng(1).standard_normal((8, 8)).astype(np.float32))]
    proto = model(nodes, [tensor_input("x", ["batch", 5, 8])], initializers=given)
    settings = {"device": "host_pocl", "dims": {"batch": (1, 3, 1)}, "fuse": "none", "compile": False}
    built = edgec.build(proto, tmp_path / "net", **settings)
    kernels = (built.folder / "net_kernels_0.cl").read_text().split("EC_KERNEL")
    copies = [k for k in kernels if "if (y == " in k]
    assert copies and all(k.index("float *y = ") < k.index("if (y == ") for k in copies)


def test_rows_of_any_number_are_not_divided_among_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neighbors that are computed one by one share positions among rows: as many as there are, not the most."""
    monkeypatch.setattr(loops, "FULL", 0)
    nodes = [
        node("Pad", ["x", "around"], ["a"]),
        node("Reshape", ["a", "rows"], ["b"]),
        node("Slice", ["b", "zero", "end", "one"], ["y"]),
    ]
    held = {"around": [0, 0, 0, 0, 0, 1], "rows": [-1, 15], "zero": [0], "end": [12], "one": [1]}
    given = [weights(n, np.int64(v)) for n, v in held.items()]
    settings = {"device": "cuda_sm86", "dims": {"n": (1, 8, 1)}, "compile": False}
    built = edgec.build(
        model(nodes, [tensor_input("x", ["n", 3, 4])], initializers=given), tmp_path / "net", **settings
    )
    kernel = (built.folder / "net_kernels_0.cu").read_text()
    assert "ec_make(" in kernel
    assert "if (task >= (size_n * 3)) return;" in kernel
