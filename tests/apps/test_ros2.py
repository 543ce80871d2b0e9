"""The package for ROS 2: its manifest by catkin_pkg, its node over a stand-in of rclcpp, beside onnxruntime."""

from __future__ import annotations

import subprocess
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest
from needed import need
from onnx.numpy_helper import from_array
from small_models import model, node, tensor_input
from test_boards import DIGIT_NAMES, DIGITS
from test_packages import call

import edgec
from benchmarks.targets import programs
from edgec.emit.picture import Preparation
from edgec.errors import UsageError

#: What the node finds of rclcpp, whose spin gives it images from standard input; what it publishes is printed.
ROS = Path(programs.__file__).with_name("ros")


def compiled(source: object, folder: Path, name: str, given: Preparation) -> Path:
    cmake = need("cmake", "cmake")
    out, build = folder / "net", folder / "build"
    edgec.build(source, out, name=name, device="generic", app="ros2", preprocessing=given, threads=2, compile=False)
    found = [f"-D{package}_DIR={ROS}" for package in ("ament_cmake", "rclcpp", "sensor_msgs", "std_msgs")]
    checked = "-Werror -fsanitize=address,undefined -fno-sanitize-recover=all"
    flags = [f"-DCMAKE_CXX_FLAGS={checked}", f"-DCMAKE_C_FLAGS={checked}"]
    call(cmake, "-S", out / "ros2", "-B", build, *found, *flags)
    call(cmake, "--build", build, "--target", f"{name}_node")
    return build / f"{name}_node"


def answers(program: Path, *images: tuple[str, np.ndarray, int], threads: int = 1) -> list[str]:
    """Lines of the node on images (rows of bytes, with so many pixels in a row) of an encoding."""
    text = ""
    for encoding, rows, width in images:
        text += f"{encoding} {width} {rows.shape[0]} {rows.shape[1]} {rows.size} {' '.join(map(str, rows.ravel()))}\n"
    environment = {"THREADS": str(threads), "ASAN_OPTIONS": "detect_leaks=0"}
    done = subprocess.run([program], input=text, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_the_node_publishes_scores(tmp_path: Path) -> None:
    """In color, with channels in both orders, padded rows and margins beside the square; other images are refused."""
    table = np.random.default_rng(5).standard_normal((3 * 4 * 5, 7)).astype(np.float32)
    nodes = [node("Flatten", ["x"], ["flat"]), node("MatMul", ["flat", "table"], ["y"])]
    net = model(nodes, [tensor_input("x", (1, 3, 4, 5))], ["y"], [from_array(table, "table")])
    mean, deviation = (10.0, 20.0, 30.0), (50.0, 60.0, 70.0)
    program = compiled(net, tmp_path, "color", Preparation(mean, deviation))
    pixels = np.random.default_rng(6).integers(0, 256, (20, 26, 3)).astype(np.uint8)
    square = pixels[2::5, 3:23][:, 2::4]
    wanted = ((square - np.array(mean)) / np.array(deviation)).transpose(2, 0, 1).reshape(-1) @ table
    padded = np.pad(pixels.reshape(20, -1), ((0, 0), (0, 2)))
    reverse = np.ascontiguousarray(pixels[:, :, ::-1]).reshape(20, -1)
    told = answers(program, ("rgb8", padded, 26), ("bgr8", reverse, 26), threads=9)
    assert len(told) == 2
    for line in told:
        assert line.startswith("7: ")
        np.testing.assert_allclose(np.array(line.split()[1:], float), wanted, rtol=1e-4, atol=1e-4)
    wrong = [("mono8", padded, 26), ("rgb8", padded[:, :70], 26), ("rgb8", padded[:0], 26)]
    assert [line.partition("'")[0] for line in answers(program, *wrong)] == ["error: an image of encoding "] * 3


def test_digits_as_onnxruntime_sees_them(tmp_path: Path) -> None:
    import onnxruntime

    program = compiled(DIGITS / "digits.onnx", tmp_path, "digits", Preparation(labels=DIGIT_NAMES))
    session = onnxruntime.InferenceSession(DIGITS / "digits.onnx", providers=["CPUExecutionProvider"])
    (port,) = session.get_inputs()
    with np.load(DIGITS / "digits_test.npz") as data:
        pixels = np.rint(data["image"][:4, 0] * 255).astype(np.uint8)
    told = answers(program, *(("mono8", image, 8) for image in pixels), threads=2)
    for image, line in zip(pixels, told, strict=True):
        (scores,) = session.run(None, {port.name: (image[None, None] / 255).astype(np.float32)})
        np.testing.assert_allclose(np.array(line.split()[1:], float), scores[0], atol=1e-5)


def test_the_manifest(tmp_path: Path) -> None:
    package = pytest.importorskip("catkin_pkg.package", reason="pip install catkin_pkg")
    out = tmp_path / "net"
    edgec.build(DIGITS / "digits.onnx", out, name="Digits_A", device="arm64", app="ros2", compile=False)
    path = out / "ros2" / "package.xml"
    warnings: list[str] = []
    read = package.parse_package(str(path), warnings=warnings)
    read.validate(warnings=warnings)
    assert not warnings and read.name == "edgec_digits_a" and read.get_build_type() == "ament_cmake"
    given = [d.name for d in (*read.buildtool_depends, *read.build_depends)]
    assert given == ["ament_cmake", "rclcpp", "sensor_msgs", "std_msgs"]
    lines = (out / "ros2" / "CMakeLists.txt").read_text()
    assert all(f"find_package({name} REQUIRED)" in lines for name in given) and f"project({read.name} " in lines
    assert ElementTree.parse(path).getroot().attrib["format"] == "3"


def test_refused(tmp_path: Path) -> None:
    net = model([node("Relu", ["x"], ["y"])], [tensor_input("x", (2, 3))], ["y"])
    for device, message in (("generic", "look at a picture"), ("mps2_an386", "is not for"), ("cuda_sm86", "in C")):
        with pytest.raises(UsageError, match=message):
            edgec.build(net, tmp_path / "net", device=device, app="ros2", compile=False)
    assert not (tmp_path / "net").exists()
