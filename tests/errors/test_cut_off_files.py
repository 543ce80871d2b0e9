"""Files whose heads say more than is there: libraries that are cut off, and archives that inflate."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest
from small_models import model, node, tensor_input, weights

import edgec
from edgec.artifact.folder import library_name
from edgec.artifact.library import require_whole
from edgec.errors import UsageError
from edgec.execute.samples import given_inputs
from edgec.untrusted import read_arrays


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("built") / "net"
    edgec.build(model([node("Relu", ["x"], ["y"])], [tensor_input("x", [4])]), out, name="net")
    return out


def cuts(length: int) -> Iterator[int]:
    yield from (0, 3, 4, 15, 17, 63, 64, 65, 100, 1000)
    yield from range(2000, length, 3000)


def test_a_library_that_is_cut_off_is_refused(built: Path, tmp_path: Path) -> None:
    """In a process of its own: one that is loaded ends it by SIGBUS."""
    require_whole(built / library_name("net"))
    code = """
import sys, edgec
from edgec.errors import UsageError
for folder in sys.argv[1:]:
    try:
        edgec.load(folder).run({"x": __import__("numpy").ones(4, "f4")})
    except UsageError as error:
        assert "library" in str(error), error
"""
    whole = (built / library_name("net")).read_bytes()
    folders = []
    for length in cuts(len(whole)):
        folder = tmp_path / str(length)
        shutil.copytree(built, folder)
        (folder / library_name("net")).write_bytes(whole[:length])
        folders.append(str(folder))
    done = subprocess.run([sys.executable, "-c", code, *folders], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, (done.returncode, done.stderr[-2000:])


def test_a_head_that_lies_is_an_error_in_words(built: Path, tmp_path: Path) -> None:
    whole = (built / library_name("net")).read_bytes()
    for at in range(4, 64):
        for value in (0, 1, 127, 255):
            (tmp_path / "net.so").write_bytes(whole[:at] + bytes([value]) + whole[at + 1 :])
            try:
                require_whole(tmp_path / "net.so")
            except UsageError as error:
                assert "cut off" in str(error)


def test_an_archive_that_inflates_is_refused_before_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "given.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("x.npy", "w") as file:
        np.lib.format.write_array_header_1_0(file, {"descr": "|u1", "fortran_order": False, "shape": (1100 << 20,)})
        for _ in range(1100):
            file.write(bytes(1 << 20))
    with pytest.raises(UsageError, match=r"bytes would become \d+ bytes of arrays"):
        read_arrays(path)


def test_an_archive_that_lies_about_its_lengths_is_not_read_beyond_them(tmp_path: Path) -> None:
    path = tmp_path / "given.npz"
    np.savez_compressed(path, x=np.zeros(1 << 20, np.uint8))
    content = bytearray(path.read_bytes())
    at = content.index(b"PK\x01\x02") + 24  # the length in the directory, which is believed
    content[at : at + 4] = (1 << 10).to_bytes(4, "little")
    path.write_bytes(content)
    with pytest.raises(UsageError, match="cannot be read"):
        read_arrays(path)


def test_raw_bytes_are_no_numbers(tmp_path: Path) -> None:
    """Inputs of types that numpy does not know are stored so, and nothing else is."""
    proto = model([node("Relu", ["x"], ["y"])], [tensor_input("x", [4], onnx.TensorProto.BFLOAT16)])
    given = np.arange(4).astype(ml_dtypes.bfloat16)
    np.savez(tmp_path / "narrow.npz", x=given)
    (found,) = given_inputs(edgec.load(proto).graph, tmp_path / "narrow.npz")
    assert found["x"].dtype == given.dtype and np.array_equal(found["x"], given)
    products = weights("w", np.ones((4, 3), np.float32))
    single = model([node("MatMul", ["x", "w"], ["y"])], [tensor_input("x", [1, 4])], initializers=[products])
    raw = tmp_path / "raw.npz"
    calls: list[Callable[[], object]] = [
        lambda: edgec.check(single, inputs=raw),
        lambda: edgec.build(single, quantize="int8", calibrate=str(raw), compile=False),
        lambda: edgec.score(single, raw),
    ]
    for kind in ("V4", "V2", "V0", [("a", "f4")]):
        np.savez(raw, x=np.zeros((1, 4), kind), labels=np.zeros(1, np.int64))
        for call in calls:
            with pytest.raises(UsageError, match=r"holds no numbers|expected float32"):
                call()


def test_labels_without_a_dimension(tmp_path: Path) -> None:
    single = model([node("Relu", ["x"], ["y"])], [tensor_input("x", [1, 4])])
    np.savez(tmp_path / "data.npz", x=np.zeros((3, 1, 4), np.float32), labels=np.int64(1))
    with pytest.raises(UsageError, match="3 inputs and no row of labels"):
        edgec.score(single, tmp_path / "data.npz")


def test_arrays_that_compress_well_are_read(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "zeros.npz", x=np.zeros(1 << 24, np.uint8))
    assert read_arrays(tmp_path / "zeros.npz")["x"].size == 1 << 24
