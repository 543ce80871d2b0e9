"""Models that onnxruntime refuses, and that once were accepted, or ended in a traceback."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto
from refused_models import refusal
from small_models import model, node, tensor_input, weights

import edgec
from edgec.errors import ModelError, UsageError
from edgec.frontend.onnx import import_model

IMAGE = [tensor_input("x", [1, 4, 8, 8])]
W = weights("w", np.ones((4, 4, 3, 3), np.float32))
SIGNAL = [tensor_input("x", [1, 16, 1])]


def image(operator: str, *operands: object, opset: int = 18, **attributes: object) -> onnx.ModelProto:
    """A node of an image and of constants."""
    arrays = [o if isinstance(o, TensorProto) else weights(f"c{k}", o) for k, o in enumerate(operands) if o is not None]
    names = iter(arrays)
    inputs = ["x", *("" if o is None else next(names).name for o in operands)]
    return model([node(operator, inputs, ["y"], name="n", **attributes)], IMAGE, initializers=arrays, opset=opset)


def signal(operator: str, *operands: object, **attributes: object) -> onnx.ModelProto:
    made = image(operator, *operands, **attributes)
    made.graph.input[0].CopyFrom(SIGNAL[0])
    return made


def of_length(operator: str, value: int) -> onnx.ModelProto:
    return model(
        [node(operator, ["c"], ["y"], name="n")], IMAGE, initializers=[weights("c", np.int64(value))], opset=18
    )


def declared(dtype: int) -> onnx.ModelProto:
    made = image("Relu")
    made.graph.output[0].CopyFrom(tensor_input("y", None, dtype))
    return made


BROKEN: dict[str, onnx.ModelProto] = {
    "Resize to -1": image("Resize", None, None, np.int64([1, 4, -1, 8])),
    "Resize to 0": image("Resize", None, None, np.int64([1, 4, 0, 8])),
    "Resize by -1": image("Resize", None, np.float32([1, 1, -1, 1])),
    "Resize by 0": image("Resize", None, np.float32([1, 1, 0, 1])),
    "Resize by NaN": image("Resize", None, np.float32([1, 1, np.nan, 1])),
    "old Resize by -1": image("Resize", np.float32([1, 1, -1, 1]), opset=10),
    "Upsample by -1": image("Upsample", np.float32([1, 1, -1, 1]), opset=9),
    "LRN of -1": image("LRN", size=-1),
    "LRN of 0": image("LRN", size=0),
    **{f"{n} of {k}": of_length(n, k) for n in ("HannWindow", "HammingWindow", "BlackmanWindow") for k in (-1, 0)},
    "DFT of -1": signal("DFT", np.int64(-1)),
    "DFT of 0": signal("DFT", np.int64(0)),
    "STFT in steps of -1": signal("STFT", np.int64(-1), None, np.int64(4)),
    "STFT of -4": signal("STFT", np.int64(2), None, np.int64(-4)),
    "Conv": image("Conv", W, pads=[-1, 0, 0, 0]),
    "ConvTranspose": image("ConvTranspose", W, pads=[0, 0, 0, -1]),
    "ConvTranspose out": image("ConvTranspose", W, output_padding=[-1, 0]),
    "DeformConv": image("DeformConv", W, np.zeros((1, 18, 5, 6), np.float32), pads=[-1, 0, 0, 0], opset=19),
    **{n: image(n, kernel_shape=[3, 3], pads=[-1, 0, 0, 0]) for n in ("MaxPool", "AveragePool", "LpPool")},
    "Pad": image("Pad", np.int64([0, 0, -9, 0, 0, 0, 0, 0])),
    "LpNormalization": image("LpNormalization", p=-1),
    "DepthToSpace": image("DepthToSpace", blocksize=-2),
    "SpaceToDepth": image("SpaceToDepth", blocksize=0),
    "declared as integers": declared(TensorProto.INT64),
    "declared as halves": declared(TensorProto.FLOAT16),
    "Expand to -1": image("Expand", np.int64([1, -1, 8, 8])),
    "Expand to -2": image("Expand", np.int64([1, 4, 1, 1, -2])),
}


@pytest.mark.parametrize("case", BROKEN)
def test_what_onnxruntime_refuses(case: str) -> None:
    source = BROKEN[case]
    with pytest.raises(ModelError) as refused:
        edgec.build(source, compile=False)
    assert "mistake in edgec" not in str(refused.value) and "Error:" not in str(refused.value)
    assert "node 'n'" in str(refused.value) or "declared" in case
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    source.ir_version = 8
    try:
        session = onnxruntime.InferenceSession(source.SerializeToString(), options)
        session.run(None, {i.name: np.ones(i.shape, np.float32) for i in session.get_inputs()})
    except Exception as theirs:
        assert "onnxruntime" in type(theirs).__module__
    else:
        assert tuple(map(int, onnxruntime.__version__.split(".")[:2])) < (1, 32), "older versions take negative pads"


@pytest.mark.parametrize("version", [-1, 2**31, 2**40, 2**63 - 1])
def test_versions_beyond_32_bits(version: int) -> None:
    source = image("Relu")
    source.ir_version = version
    assert f"no version {version} of ONNX" in refusal(source.SerializeToString())


@pytest.mark.parametrize("version", [2**31, 2**63 - 1, -(2**63)])
@pytest.mark.parametrize("domain", ["", "own"])
def test_operator_sets_beyond_32_bits(version: int, domain: str) -> None:
    """Found by the fuzzer, as a TypeError."""
    source = model([node("Relu", ["x"], ["y"], domain=domain)], domains=["own"])
    next(o for o in source.opset_import if o.domain == domain).version = version
    assert f"has no version {version}" in refusal(source.SerializeToString())


@pytest.mark.parametrize("name", ["a\0b.onnx", "a" * 5000, "/dev/null/x.onnx"])
def test_paths_that_cannot_be(name: str) -> None:
    for read in (edgec.load, import_model):
        with pytest.raises(UsageError, match="cannot read the model"):
            read(name)


def beside(folder: Path, location: str) -> Path:
    stored = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[3], data_location=TensorProto.EXTERNAL)
    stored.external_data.add(key="location", value=location)
    folder.mkdir(parents=True, exist_ok=True)
    source = model([node("Add", ["x", "w"], ["y"])], initializers=[stored])
    (folder / "net.onnx").write_bytes(source.SerializeToString())
    return folder / "net.onnx"


def test_locations_that_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "ping").symlink_to("pong")
    (tmp_path / "pong").symlink_to("ping")
    for location in ("a" * 5000, "/".join(["a" * 200] * 30), "loop", "ping", "loop/x", "."):
        told = refusal(beside(tmp_path, location))
        assert "tensor 'w'" in told and len(told) < 1000
    (tmp_path / "net2.onnx").symlink_to("net2.onnx")
    assert "cannot read the model" in refusal(tmp_path / "net2.onnx")


def cached(tmp_path: Path, location: str = "net.onnx_data") -> Path:
    """A model as Hugging Face's cache keeps it: links into a folder of contents. Gives the link."""
    blobs, snapshot = tmp_path / "blobs", tmp_path / "snapshots" / "abc" / "onnx"
    beside(blobs, location).rename(blobs / "1f")
    (blobs / "2e").write_bytes(np.float32([1, 2, 3]).tobytes())
    snapshot.mkdir(parents=True)
    (snapshot / "net.onnx").symlink_to("../../../blobs/1f")
    (snapshot / "net.onnx_data").symlink_to("../../../blobs/2e")
    return snapshot / "net.onnx"


def test_a_cache_of_links(tmp_path: Path) -> None:
    """The data of a model that is a link were looked for beside its contents, where names are hashes."""
    (constant,) = (n for n in import_model(cached(tmp_path)).nodes() if n.is_const)
    assert constant.value.tolist() == [1, 2, 3]


def test_a_cache_is_no_way_out(tmp_path: Path) -> None:
    path = cached(tmp_path, "out")
    (tmp_path / "secret").write_bytes(bytes(12))
    (path.parent / "out").symlink_to("../../../secret")
    assert "leads out of the model's folder" in refusal(path)


def test_no_more_is_read_than_a_tensor_needs(tmp_path: Path) -> None:
    path = beside(tmp_path, "w.bin")
    with (tmp_path / "w.bin").open("wb") as file:
        file.truncate(1 << 40)  # a terabyte of nothing
    assert "data of another size" in refusal(path)
