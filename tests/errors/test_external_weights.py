"""Weights in files next to a model: inside its folder only, and complete."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto
from refused_models import refusal
from small_models import model, node

import edgec
from edgec.errors import UsageError
from edgec.frontend import source
from edgec.frontend.onnx import import_model


def external(location: str, offset: object = None, length: object = None) -> onnx.ModelProto:
    stored = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[3], data_location=TensorProto.EXTERNAL)
    for key, value in (("location", location), ("offset", offset), ("length", length)):
        if value is not None:
            stored.external_data.add(key=key, value=str(value))
    return model([node("Add", ["x", "w"], ["y"], name="plus")], initializers=[stored])


OUTSIDE = ["/etc/hostname", "../secret.bin", "a/../../secret.bin", ""]


BESIDE: dict[str, tuple[onnx.ModelProto, str]] = {
    "missing": (
        external("other.bin"),
        "tensor 'w' lies in 'other.bin', which is missing\n  hint: put it beside the .onnx file",
    ),
    "link out": (
        external("link.bin"),
        "tensor 'w' names the file 'link.bin', a link that leads out of the model's folder",
    ),
    "behind the end": (
        external("w.bin", 4, 12),
        (
            "tensor 'w' lies at bytes 4 to 16 of 'w.bin', which has only 12\n"
            "  hint: the file is cut off, or belongs to another model"
        ),
    ),
    "before the beginning": (
        external("w.bin", -4, 12),
        (
            "tensor 'w' lies at bytes -4 to 8 of 'w.bin', which has only 12\n"
            "  hint: the file is cut off, or belongs to another model"
        ),
    ),
    "too short": (
        external("w.bin", 0, 8),
        (
            "tensor 'w' of shape [3] has data of another size or type: cannot reshape array of size 2 into shape (3,)\n"
            "  hint: the file is damaged"
        ),
    ),
    "a number as Python writes it": (
        external("w.bin", "0_0"),
        "tensor 'w' has an offset or a length that is no number\n  hint: the file is damaged",
    ),
    "no number": (
        external("w.bin", "four"),
        "tensor 'w' has an offset or a length that is no number\n  hint: the file is damaged",
    ),
}


@pytest.fixture
def saved(tmp_path: Path) -> Callable[[onnx.ModelProto], Path]:
    """Saves a model into a folder with a file of weights and a link to one outside."""
    folder = tmp_path / "net"
    folder.mkdir()
    (tmp_path / "secret.bin").write_bytes(bytes(12))
    (folder / "w.bin").write_bytes(np.array([1, 2, 3], np.float32).tobytes())
    (folder / "link.bin").symlink_to(tmp_path / "secret.bin")

    def save(source: onnx.ModelProto) -> Path:
        (folder / "net.onnx").write_bytes(source.SerializeToString())
        return folder / "net.onnx"

    return save


@pytest.mark.parametrize("location", OUTSIDE)
def test_weights_outside(location: str, saved: Callable[[onnx.ModelProto], Path]) -> None:
    path = saved(external(location))
    assert refusal(path) == f"{path}: tensor 'w' names the file '{location}', which is not inside the model's folder"


@pytest.mark.parametrize("case", BESIDE)
def test_weights_beside(case: str, saved: Callable[[onnx.ModelProto], Path]) -> None:
    source, message = BESIDE[case]
    path = saved(source)
    assert refusal(path) == f"{path}: {message}"


def test_weights_beside_are_read(saved: Callable[[onnx.ModelProto], Path]) -> None:
    graph = import_model(saved(external("w.bin", 0, 12)))
    (constant,) = (n for n in graph.nodes() if n.is_const)
    assert constant.value.tolist() == [1, 2, 3]


def test_weights_beside_need_a_folder() -> None:
    assert refusal(external("w.bin").SerializeToString()) == (
        "model: tensor 'w' lies in another file, but the model came without a folder\n"
        "  hint: pass the path of the .onnx file instead of its contents"
    )


def test_the_digest_is_of_all_weights(tmp_path: Path) -> None:
    """A lock belongs to the weights beside a model too; a file that is missing counts by its name."""
    path, beside = tmp_path / "net.onnx", tmp_path / "w.bin"
    onnx.save(external("w.bin", 0, 12), path)
    digests = []
    for content in (bytes(12), bytes(11) + b"1", None, bytes(12)):
        beside.unlink(missing_ok=True)
        if content is not None:
            beside.write_bytes(content)
        digests.append(source.digest(source.read(path)))
    assert digests[0] == digests[3] and len(set(digests)) == 3


def test_a_lock_of_other_weights_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    onnx.save(external("w.bin", 0, 12), path)
    (tmp_path / "w.bin").write_bytes(bytes(12))
    edgec.build(path, tmp_path / "first", compile=False)
    edgec.build(path, tmp_path / "again", compile=False, lock=tmp_path / "first")
    (tmp_path / "w.bin").write_bytes(bytes(11) + b"1")
    with pytest.raises(UsageError, match="belongs to another model"):
        edgec.build(path, tmp_path / "other", compile=False, lock=tmp_path / "first")
