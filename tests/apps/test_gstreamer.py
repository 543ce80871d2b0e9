"""The element of GStreamer, in pipelines: video frames and bytes, beside onnxruntime."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from needed import need
from onnx import TensorProto
from onnx.numpy_helper import from_array
from small_models import model, node, tensor_input
from test_boards import DIGIT_NAMES, DIGITS

import edgec
from edgec.emit.picture import Preparation
from edgec.errors import UsageError

_HEADERS = ("libgstreamer1.0-dev", "libgstreamer-plugins-base1.0-dev", "gstreamer1.0-plugins-base")
_GRAY = "video/x-raw,format=GRAY8,width=8,height=8,framerate=0/1"


def plugin(source: object, folder: Path, name: str, **settings: object) -> Path:
    """The folder of the compiled plugin of a model; skips where GStreamer or a tool of its build is missing."""
    cmake = need("cmake", "cmake")
    need("gst-launch-1.0", "gstreamer1.0-tools", *_HEADERS)
    config = need("pkg-config", "pkg-config")
    wanted = ["gstreamer-1.0", "gstreamer-base-1.0", "gstreamer-video-1.0"]
    if subprocess.run([config, "--exists", *wanted], check=False).returncode:
        pytest.skip(f"headers of GStreamer are missing and cannot be installed here: apt install {' '.join(_HEADERS)}")
    out, build = folder / "net", folder / "build"
    edgec.build(source, out, name=name, device="generic", app="gstreamer", compile=False, **settings)
    for words in (("-S", out / "gstreamer", "-B", build, "-DCMAKE_C_FLAGS=-Werror"), ("--build", build)):
        done = subprocess.run([cmake, *words], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    return build


def launched(build: Path, *words: str) -> subprocess.CompletedProcess[str]:
    registry = f"GST_REGISTRY={build / 'registry.bin'}"
    command = ["env", f"GST_PLUGIN_PATH={build}", registry, "gst-launch-1.0", "-m", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


def messages(printed: str, name: str) -> list[tuple[int, float, str]]:
    """The number, score and label of every message of the element."""
    told = rf"edgec-{name}, index=\(guint64\)(\d+), score=\(double\)([-+.\de]+), label=\(string\)(.*), pts="
    return [(int(k), float(score), label) for k, score, label in re.findall(told, printed)]


def test_frames_and_bytes_of_digits(tmp_path: Path) -> None:
    labels = Preparation(labels=("zero", "one", "two", "three", *DIGIT_NAMES[4:]))
    build = plugin(DIGITS / "digits.onnx", tmp_path, "digits", threads=2, preprocessing=labels)
    with np.load(DIGITS / "digits_test.npz") as data:
        pixels = np.rint(data["image"][:6] * 255).astype(np.uint8)
    images = pixels.astype(np.float32) / 255
    session = onnxruntime.InferenceSession(DIGITS / "digits.onnx", providers=["CPUExecutionProvider"])
    (port,) = session.get_inputs()
    scores = np.concatenate([session.run(None, {port.name: image[None]})[0] for image in images])
    (tmp_path / "frames").write_bytes(pixels.tobytes())
    (tmp_path / "tensors").write_bytes(images.tobytes())
    for given in (
        ["filesrc", f"location={tmp_path}/frames", "blocksize=64", "!", _GRAY],
        ["filesrc", f"location={tmp_path}/tensors", "blocksize=256", "!", "application/octet-stream"],
    ):
        sink = ["!", "filesink", f"location={tmp_path}/scores"]
        done = launched(build, *given, "!", "digitsinfer", "threads=2", *sink)
        assert done.returncode == 0, done.stdout + done.stderr
        found = np.fromfile(tmp_path / "scores", np.float32).reshape(scores.shape)
        np.testing.assert_allclose(found, scores, atol=1e-5)
        told = messages(done.stdout, "digits")
        assert [k for k, *_ in told] == scores.argmax(1).tolist()
        np.testing.assert_allclose([score for _, score, _ in told], scores.max(1), rtol=1e-5)
        assert all(label.strip('"') == labels.labels[k] for k, _, label in told if k < 4)
    quiet = launched(build, *given, "!", "digitsinfer", "post-messages=false", "!", "fakesink")
    assert quiet.returncode == 0 and not messages(quiet.stdout, "digits")
    (tmp_path / "tensors").write_bytes(images[:2].tobytes()[:356])
    wrong = launched(build, *given, "!", "digitsinfer", "!", "fakesink")
    assert wrong.returncode and "a buffer has 100 bytes, and the inputs of digits have 256" in wrong.stderr
    other = launched(build, *given[:3], "!", _GRAY.replace("width=8", "width=9"), "!", "digitsinfer", "!", "fakesink")
    assert other.returncode and not messages(other.stdout, "digits"), "frames of another size are not negotiated"


def test_frames_in_color_have_padded_rows(tmp_path: Path) -> None:
    """Channels have an order and numbers of their own; a row of 5 pixels takes 16 bytes."""
    table = np.random.default_rng(5).standard_normal((3 * 4 * 5, 7)).astype(np.float32)
    nodes = [node("Flatten", ["x"], ["flat"]), node("MatMul", ["flat", "table"], ["y"])]
    net = model(nodes, [tensor_input("x", (1, 3, 4, 5))], ["y"], [from_array(table, "table")])
    mean, deviation = (10.0, 20.0, 30.0), (50.0, 60.0, 70.0)
    build = plugin(net, tmp_path, "color", preprocessing=Preparation(mean, deviation))
    pixels = np.random.default_rng(6).integers(0, 256, (4, 5, 3)).astype(np.uint8)
    (tmp_path / "frame").write_bytes(np.pad(pixels.reshape(4, 15), ((0, 0), (0, 1))).tobytes())
    caps = "video/x-raw,format=RGB,width=5,height=4,framerate=0/1"
    source = ["filesrc", f"location={tmp_path}/frame", "blocksize=64", "!", caps]
    done = launched(build, *source, "!", "colorinfer", "!", "filesink", f"location={tmp_path}/y")
    assert done.returncode == 0, done.stdout + done.stderr
    wanted = ((pixels - np.array(mean)) / np.array(deviation)).transpose(2, 0, 1).reshape(1, -1) @ table
    np.testing.assert_allclose(np.fromfile(tmp_path / "y", np.float32), wanted[0], rtol=1e-4, atol=1e-4)
    scaled = ["videotestsrc", "num-buffers=2", "!", "videoconvert", "!", "videoscale", "!"]
    done = launched(build, *scaled, "colorinfer", "!", "fakesink")
    assert done.returncode == 0 and len(messages(done.stdout, "color")) == 2, "the size is negotiated"


def test_bytes_of_several_inputs_and_outputs(tmp_path: Path) -> None:
    nodes = [node("Gather", ["table", "which"], ["rows"], axis=0), node("Add", ["rows", "x"], ["y"])]
    nodes += [node("Shape", ["y"], ["size"]), node("Identity", ["which"], ["same"])]
    table = np.arange(12, dtype=np.float32).reshape(4, 3)
    inputs = [tensor_input("which", (5,), TensorProto.INT64), tensor_input("x", (5, 3))]
    net = model(nodes, inputs, ["y", "same"], [from_array(table, "table")])
    build = plugin(net, tmp_path, "two")
    which, x = np.array([3, 0, 1, 2, 3]), np.random.default_rng(7).standard_normal((5, 3)).astype(np.float32)
    (tmp_path / "in").write_bytes(which.tobytes() + x.tobytes())
    source = ["filesrc", f"location={tmp_path}/in", "blocksize=100", "!", "twoinfer"]
    done = launched(build, *source, "!", "filesink", f"location={tmp_path}/out")
    assert done.returncode == 0, done.stdout + done.stderr
    raw = (tmp_path / "out").read_bytes()
    np.testing.assert_array_equal(np.frombuffer(raw[:60], np.float32).reshape(5, 3), table[which] + x)
    assert np.frombuffer(raw[60:], np.int64).tolist() == which.tolist()


def test_refused(tmp_path: Path) -> None:
    nodes, inputs = [node("Relu", ["x"], ["y"])], [tensor_input("x", ("n", 3))]
    net = model(nodes, inputs, ["y"])
    with pytest.raises(UsageError, match="fixed shapes"):
        edgec.build(net, tmp_path / "net", device="generic", app="gstreamer", dims={"n": (1, 4)}, compile=False)
    for device, message in (("mps2_an386", "is not for"), ("cuda_sm86", "is for networks in C")):
        with pytest.raises(UsageError, match=message):
            edgec.build(net, tmp_path / "net", device=device, app="gstreamer", dims={"n": 4}, compile=False)
    assert not (tmp_path / "net").exists()
