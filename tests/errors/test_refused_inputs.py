"""Inputs that do not fit a model, and model files that are none, are refused with a hint."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from refused_models import RELU, refusal
from small_models import model, node, tensor_input, weights
from test_refused_models import STRUCTURE

import edgec
from edgec.errors import ModelError, UsageError
from edgec.frontend.onnx import import_model

OPEN = model([node("Add", ["x", "z"], ["y"])], [tensor_input("x", ["batch", 3]), tensor_input("z", [None, "width"])])


SHARED = model([node("Add", ["x", "z"], ["y"])], [tensor_input("x", ["n"]), tensor_input("z", ["n"])])


INPUTS: dict[str, tuple[onnx.ModelProto, dict[str, object], str]] = {
    "shapes left open": (
        OPEN,
        {},
        (
            "model: the model leaves the shape of 'x', 'z' open\n"
            "  hint: say what to build it for: --shape x=1,3 --shape z=1,1; "
            "or give dimensions a range: --dim batch=1..8 --dim width=1..8"
        ),
    ),
    "only one shape given": (
        OPEN,
        {"shapes": {"x": (4, 3)}},
        "model: the model leaves the shape of 'z' open\n  hint: say what to build it for: --shape z=4,1"
        "; or give dimensions a range: --dim width=1..8",
    ),
    "not even the rank is known": (
        model([node("Relu", ["x"], ["y"])], [tensor_input("x", None)]),
        {},
        "model: the model leaves the shape of 'x' open\n  hint: say what to build it for: --shape x=1,..."
        "; or give dimensions a range: --dim NAME=1..8",
    ),
    "shape that contradicts": (
        RELU,
        {"shapes": {"x": (2, 4)}},
        "model: input 'x' has shape [2, 3], which [2, 4] does not fit\n"
        "  hint: only dimensions that the model leaves open can be given",
    ),
    "shape of no input": (
        RELU,
        {"shapes": {"image": (2, 4)}},
        "model: a shape is given for 'image', which the model does not have as input\n  hint: its inputs are 'x'",
    ),
    "value of no input": (
        RELU,
        {"values": {"rate": 16000}},
        "model: a value is given for 'rate', which the model does not have as input\n  hint: its inputs are 'x'",
    ),
    "negative shape": (
        SHARED,
        {"shapes": {"x": (-1,)}},
        "model: shape [-1] for input 'x' is negative\n  hint: sizes are 0 or more",
    ),
    "one symbol, two sizes": (
        SHARED,
        {"shapes": {"x": (2,), "z": (3,)}},
        "model: dimension 'n' is given as 2 and as 3\n  hint: inputs that share a symbol need the same size there",
    ),
    "cropped to less than nothing": (
        model(
            [node("ConvTranspose", ["x", "w"], ["y"], name="up", pads=[0, 9])],
            [tensor_input("x", [1, 1, "n"])],
            initializers=[weights("w", np.ones((1, 1, 3), np.float32))],
        ),
        {"dims": {"n": (4, 20, 1)}},
        "node 'up' (ConvTranspose): an extent of (n + -7) is less than nothing for some sizes\n"
        "  hint: narrow the range of --dim",
    ),
}


@pytest.mark.parametrize("case", INPUTS)
def test_inputs(case: str) -> None:
    source, options, message = INPUTS[case]
    assert refusal(source, **options) == message


FILES: dict[str, tuple[bytes, str]] = {
    "text": (
        b"this is not a model at all",
        "not an ONNX file, or one that was cut off\n  hint: copy or download it again",
    ),
    "nothing": (b"", "the file is empty\n  hint: copy or download it again"),
    "cut off": (
        RELU.SerializeToString()[:-9],
        "not an ONNX file, or one that was cut off\n  hint: copy or download it again",
    ),
    "no graph": (
        onnx.ModelProto(ir_version=8).SerializeToString(),
        "the file holds no ONNX graph\n  hint: is it cut off, or another protobuf file?",
    ),
    "TensorFlow Lite": (
        b"\x1c\x00\x00\x00TFL3\x14\x00",
        "not an ONNX file\n  hint: this is a TensorFlow Lite model; edgec.load and edgec.build read it",
    ),
    "PyTorch": (
        b"PK\x03\x04rest",
        "not an ONNX file\n  hint: this is a zip archive (PyTorch saves so); export it with torch.onnx.export",
    ),
}


@pytest.mark.parametrize("case", FILES)
def test_files(case: str, tmp_path: Path) -> None:
    content, message = FILES[case]
    path = tmp_path / "net.onnx"
    path.write_bytes(content)
    assert refusal(path) == f"{path}: {message}"


def test_file_that_is_not_there(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    assert refusal(path) == f"{path}: cannot read the model: No such file or directory"
    near = path.with_name(f"{path.stem}s.onnx")
    near.touch()
    with pytest.raises(UsageError, match=f"did you mean '{near}'"):
        edgec.load(path)


def test_kinds_of_errors() -> None:
    """A mistake of the caller is a UsageError, one in the model a ModelError."""
    with pytest.raises(UsageError):
        import_model(OPEN)
    with pytest.raises(ModelError):
        import_model(STRUCTURE["circle"][0])


def test_folder_of_operators_that_is_not_there(tmp_path: Path) -> None:
    folder = tmp_path / "ops"
    assert refusal(RELU, ops_folders=[folder]).startswith(f"{folder}: no such folder of operators")


def test_file_of_operators_that_fails(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("import edgec\n1 / 0\n")
    assert refusal(RELU, ops_folders=[tmp_path]) == (
        f"{tmp_path / 'mine.py'}: cannot load: ZeroDivisionError: division by zero"
    )
