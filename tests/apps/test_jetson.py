"""The program around a network on a Jetson, compiled for the processor: it reads pictures and video, and answers."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import onnx
import pytest
from emulated import nvcc
from needed import need
from onnx import numpy_helper
from small_models import model, node, tensor_input
from test_boards import DIGIT_NAMES, DIGITS, pictures

import edgec
from edgec.device.cuda import compile_cuda
from edgec.device.load import load_device
from edgec.emit.picture import Preparation
from edgec.errors import UsageError

FLAGS = ("-std=c++17", "-O0", "-DEC_ON_CPU", "-Wall", "-Wextra", "-Werror", "-Wno-unknown-pragmas")


def program(net: onnx.ModelProto | str, folder: Path, **prepared: tuple[object, ...]) -> Path:
    """The app of a network, its kernels emulated."""
    told = Preparation(**prepared)  # type: ignore[arg-type]
    edgec.build(net, folder, name="net", device="jetson", compile=False, extras=["jetson"], preprocessing=told)
    compiler, built = need("g++", "g++"), folder / "net_camera"
    sources = [*folder.glob("*.cu"), *folder.glob("jetson/*.cu"), *folder.glob("jetson/*.cpp")]
    linked = ["-x", "none", folder / "net_weights.S", "-o", built]
    command = [compiler, *FLAGS, f"-I{folder}", "-x", "c++", *sources, *linked]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:4000]
    return built


def run(built: Path, *words: object, given: bytes = b"") -> list[str]:
    done = subprocess.run([built, *map(str, words)], capture_output=True, input=given, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode().splitlines()


def video(frames: np.ndarray) -> bytes:
    """Grey pictures [n, height, width] as YUV4MPEG2."""
    _, height, width = frames.shape
    chroma = bytes([128]) * (2 * ((width + 1) // 2) * ((height + 1) // 2))
    luma = np.rint(16 + frames / 255 * 219).astype(np.uint8)
    return b"YUV4MPEG2 W%d H%d F30:1 C420jpeg\n" % (width, height) + b"".join(
        b"FRAME\n" + f.tobytes() + chroma for f in luma
    )


def test_classes_of_pictures_and_of_a_video(tmp_path: Path) -> None:
    built = program(str(DIGITS / "digits.onnx"), tmp_path / "digits", labels=DIGIT_NAMES)
    found = pictures(tmp_path, 3)
    said = run(built, *(path for path, _ in found))
    firsts = [said[k + 1].split()[0] for k, line in enumerate(said) if " frame " in line]
    assert firsts == [DIGIT_NAMES[digit] for _, digit in found]
    frames = np.stack([np.frombuffer(path.read_bytes()[-24 * 34 :], np.uint8).reshape(24, 34) for path, _ in found])
    said = run(built, "-n", 2, "-", given=video(frames))
    firsts = [said[k + 1].split()[0] for k, line in enumerate(said) if " frame " in line]
    assert firsts == [DIGIT_NAMES[digit] for _, digit in found[:2]]


@pytest.mark.parametrize("kind", ["grid", "pair"])
def test_boxes(kind: str, tmp_path: Path) -> None:
    """Two boxes on one thing, and another, found only where the picture is bright."""
    wanted = np.array([[8, 8, 8, 8, 0.9], [9, 8, 8, 8, 0.6], [24, 16, 8, 16, 0.7]], np.float32)  # middle, size, score
    rows = np.zeros((21, 7), np.float32)
    for k, (x, y, width, height, score) in enumerate(wanted):
        rows[k] = x, y, width, height, 1, score * (k < 2), score * (k == 2)
    if kind == "grid":
        cells = np.array([[i % 4, i // 4] for i in range(3)])
        rows[:3, :2] = rows[:3, :2] / 8 - cells
        rows[:3, 2:4] = np.log(rows[:3, 2:4] / 8)
    bright = [node("ReduceMax", ["x"], ["most"], axes=[0, 1, 2, 3], keepdims=0)]
    if kind == "pair":
        corners = np.concatenate([rows[:, :2] - rows[:, 2:4] / 2, rows[:, :2] + rows[:, 2:4] / 2], 1) / 32
        values = {"scores": np.concatenate([1 - rows[:, 5:].sum(1, keepdims=True), rows[:, 5:]], 1), "boxes": corners}
        made = [node("Mul", [f"_{n}", "most"], [n]) for n in values]
    else:
        values = {"y": rows if kind == "grid" else np.concatenate([rows[:, :4], rows[:, 5:]], 1).T}
        made = [node("Mul", ["_y", "most"], ["y"])]
    constants = [numpy_helper.from_array(v[None].astype(np.float32), f"_{n}") for n, v in values.items()]
    built = program(
        model([*bright, *made], [tensor_input("x", [1, 3, 32, 32])], list(values), constants), tmp_path / "net"
    )
    (tmp_path / "white.ppm").write_bytes(b"P6\n64 48\n255\n" + bytes([255]) * (64 * 48 * 3))
    said = run(built, "-o", tmp_path, tmp_path / "white.ppm")
    first = 1 if kind == "pair" else 0  # class 0 is the background
    boxes = [line.split()[1:] for line in said if line.startswith("  class")]
    assert boxes == [[str(first), "0.900", "8", "8", "24", "24"], [str(first + 1), "0.700", "40", "16", "56", "48"]]
    drawn = np.frombuffer((tmp_path / "white-0.ppm").read_bytes()[-64 * 48 * 3 :], np.uint8).reshape(48, 64, 3)
    assert (drawn[8, 8:25] == (255, 40, 40)).all() and (drawn[0] == 255).all()


def test_flow_between_frames(tmp_path: Path) -> None:
    """A "flow" that is the difference of two pictures: which one is first, and what is written."""
    cut = [numpy_helper.from_array(np.array(v, np.int64), n) for n, v in (("from", [0]), ("to", [2]), ("axis", [1]))]
    nodes = [node("Sub", ["b", "a"], ["d"]), node("Slice", ["d", "from", "to", "axis"], ["flow"])]
    net = model(nodes, [tensor_input(n, [1, 3, 4, 6]) for n in "ab"], ["flow"], cut)
    built = program(net, tmp_path / "net", mean=(0.0,), deviation=(1.0,))
    for k, value in enumerate((40, 50)):
        (tmp_path / f"{k}.pgm").write_bytes(b"P5 12 8 255\n" + bytes([value]) * 96)
    said = run(built, "-o", tmp_path, tmp_path / "0.pgm", tmp_path / "1.pgm")
    assert said[2] == "  moved by 14.14 pixels on average, 14.14 at most"
    raw = (tmp_path / "1-1.flo").read_bytes()
    assert raw[:4] == b"PIEH" and np.frombuffer(raw, np.int32, 2, 4).tolist() == [6, 4]
    assert (np.frombuffer(raw, np.float32, 48, 12) == 10).all()
    assert (tmp_path / "1-1.ppm").stat().st_size == len(b"P6\n6 4\n255\n") + 72


def test_a_source_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="CUDA"):
        edgec.build(str(DIGITS / "digits.onnx"), tmp_path / "c", device="generic", compile=False, extras=["jetson"])


def test_it_is_cuda_for_orin(tmp_path: Path) -> None:
    device = load_device("jetson")
    compiler = nvcc(device)
    out = tmp_path / "digits"
    edgec.build(str(DIGITS / "digits.onnx"), out, name="net", device="jetson", compile=False, extras=["jetson"])
    shutil.copytree(out / "jetson", out, dirs_exist_ok=True)  # headers are found beside a source
    compile_cuda(compiler, device, [out / "main.cu"], tmp_path / "main.so", link=False)
