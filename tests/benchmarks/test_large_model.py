"""The path of models that are larger than 2 GB, with a small one and a lower bound for what is mapped."""

from __future__ import annotations

import mmap
import tracemalloc
from pathlib import Path

import numpy as np
import onnx
import pytest

import edgec
from benchmarks.large_model import __main__ as large
from benchmarks.large_model.making import make
from edgec.errors import ModelError
from edgec.frontend.onnx import external
from edgec.frontend.onnx import model as onnx_model

WIDTH, LAYERS = 1100, 4


def owner(array: np.ndarray) -> object:
    found: object = array
    while isinstance(found, np.ndarray) and found.base is not None:
        found = found.base
    return found


def test_large_tensors_are_mapped_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = onnx_model.read(make(tmp_path, 96, 2))
    first, second = model.proto.graph.initializer
    small = onnx_model.tensor(second, model.folder)
    monkeypatch.setattr(external, "MAPPED_BYTES", 1024)
    array = onnx_model.tensor(second, model.folder)
    assert isinstance(owner(array), mmap.mmap) and not isinstance(owner(small), mmap.mmap)
    assert type(array) is np.ndarray and not array.flags.writeable
    np.testing.assert_array_equal(array, small)
    for key, value in (("offset", "3"), ("length", "36863")):  # not aligned, too short: read, and refused as ever
        changed = onnx.TensorProto()
        changed.CopyFrom(first)
        next(e for e in changed.external_data if e.key == key).value = value
        if key == "offset":
            assert not isinstance(owner(onnx_model.tensor(changed, model.folder)), mmap.mmap)
        else:
            with pytest.raises(ModelError, match="another size"):
                onnx_model.tensor(changed, model.folder)
    next(e for e in first.external_data if e.key == "offset").value = "72000"
    with pytest.raises(ModelError, match="cut off"):
        onnx_model.tensor(first, model.folder)


def test_import_copies_no_weights_and_a_build_few(tmp_path: Path) -> None:
    path = make(tmp_path, WIDTH, LAYERS)
    size = path.with_name("large.onnx.data").stat().st_size
    edgec.load(path)  # packages are loaded now
    tracemalloc.start()
    try:
        edgec.load(path)
        assert tracemalloc.get_traced_memory()[1] < 0.3 * size
        tracemalloc.reset_peak()
        built = edgec.build(path, tmp_path / "out")
        assert tracemalloc.get_traced_memory()[1] < 2.5 * size
    finally:
        tracemalloc.stop()
    assert edgec.check(built, samples=1).verdict == "ok"


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    given = ["--gigabytes", "0.004", "--width", "1000", "--folder", str(tmp_path)]
    assert large.main(given) == 0 and not list(tmp_path.iterdir())
    printed = capsys.readouterr().out
    assert [line.split()[0] for line in printed.splitlines()[1:]] == ["inspect", "build", "check"]
    monkeypatch.setattr(large, "BESIDE", 0)
    monkeypatch.setattr(large, "BOUNDS", dict.fromkeys(large.BOUNDS, 0.0))
    assert not large._step("inspect", ("--version",), 4_000_000)
