"""Programs for boards: with Make and newlib on a microcontroller, with CMake on Linux."""

from __future__ import annotations

import ctypes
import os
import struct
import subprocess
from pathlib import Path

import numpy as np
import pytest
from needed import need
from onnx.numpy_helper import from_array
from small_models import model, node, tensor_input

import edgec
from edgec.emit.picture import Preparation
from edgec.resources import data_folder

DIGITS = data_folder("apps") / "digits"
MODELS = Path(__file__).resolve().parents[3] / "shared" / "models"
WORDS = ("Down", "Go", "Left", "No", "Off", "On", "Right", "Stop", "Up", "Yes", "Silence", "Unknown")
#: Names as people write them: with what means something in C, in HTML and to printf.
DIGIT_NAMES = ("zero's", 'o"ne', "t\\wo", "<three>", "fo&ur", "fünf", "six🙂", "s%seven", "??/eight", "9nine")


def pictures(folder: Path, count: int) -> list[tuple[Path, int]]:
    """Digits as PGM files, three times as large and with a margin to the left and right, and what they are."""
    with np.load(DIGITS / "digits_test.npz") as data:
        found = []
        for k in range(count):
            pixels = np.rint(data["image"][k, 0] * 255).astype(np.uint8).repeat(3, 0).repeat(3, 1)
            wide = np.pad(pixels, ((0, 0), (5, 5)))
            path = folder / f"{k}.pgm"
            path.write_bytes(b"P5\n# a digit\n%d %d\n255\n" % wide.shape[::-1] + wide.tobytes())
            found.append((path, int(data["label"][k])))
    return found


def make(folder: Path, *words: str, where: Path = Path()) -> str:
    here = {**os.environ, "PWD": str(where.absolute())}  # as a shell says it
    done = subprocess.run(
        ["make", "-s", "-C", folder.absolute(), *words], capture_output=True, text=True, check=False, env=here
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def need_board() -> None:
    need("make", "make")
    need("qemu-system-arm", "qemu-system-arm")
    need("arm-none-eabi-gcc", "gcc-arm-none-eabi", "libnewlib-arm-none-eabi")


def test_pictures_on_a_microcontroller(tmp_path: Path) -> None:
    need_board()
    out = tmp_path / "digits"
    prepared = Preparation(labels=DIGIT_NAMES)
    model = str(DIGITS / "digits.onnx")
    edgec.build(model, out, name="digits", device="mps2_an386", extras=["embedded"], preprocessing=prepared)
    make(out / "embedded")
    for path, digit in pictures(tmp_path, 2):
        (out / "embedded" / path.name).write_bytes(path.read_bytes())
        assert make(out / "embedded", "run", f"FILE={path.name}").splitlines()[0] == DIGIT_NAMES[digit]


def test_memory_is_cleared_at_its_own_address(tmp_path: Path) -> None:
    """Behind the data in flash, 1.2 MB of program and 3 MB of memory would be more than 4 MB of flash."""
    need_board()
    edgec.build(str(DIGITS / "digits.onnx"), tmp_path / "out", name="digits", device="mps2_an386", extras=["embedded"])
    make(tmp_path / "out" / "embedded")
    images = [p.read_bytes() for p in (tmp_path / "out" / "embedded").rglob("*") if p.is_file()]
    (image,) = [data for data in images if data[:4] == b"\x7fELF" and data[16] == 2]
    (begin,), (size, count) = struct.unpack_from("<I", image, 28), struct.unpack_from("<2H", image, 42)
    parts = [struct.unpack_from("<6I", image, begin + k * size) for k in range(count)]
    empty = [part for part in parts if part[0] == 1 and part[4] == 0]  # nothing in the file
    assert empty and all(physical == virtual for _, _, virtual, physical, *_ in empty)
    assert "__bss_start__; word < __bss_end__; ++word) *word = 0;" in (tmp_path / "out" / "ec_board.c").read_text()


def test_stack_and_heap_are_as_large_as_asked_for_and_needed(tmp_path: Path) -> None:
    need_board()
    out = tmp_path / "digits"
    edgec.build(str(DIGITS / "digits.onnx"), out, device="mps2_an386", extras=["embedded"])
    folder = out / "embedded"
    ((path, _),) = pictures(tmp_path, 1)
    (folder / "text").write_text("no picture")
    (folder / "picture").write_bytes(path.read_bytes())

    def sizes(program: str) -> tuple[int, int]:
        rows = subprocess.run(["arm-none-eabi-nm", folder / program], capture_output=True, text=True, check=True).stdout
        at = {row.split()[-1]: int(row.split()[0], 16) for row in rows.splitlines() if len(row.split()) == 3}
        return at["__stack"] - at["__stack_limit"], at["__heap_bytes"]

    make(folder)
    assert sizes("net.elf") == (16384, 4096)
    make(folder, "clean")
    make(folder, "STACK=2048")
    assert sizes("net.elf") == (2048, 4096)
    told = make(folder, "run", "STACK=2048", "FILE=picture")
    for name in ("beside", "a name, of $HOME's"):
        (tmp_path / name).write_bytes((folder / "picture").read_bytes())
        again = make(folder, "run", "STACK=2048", f"FILE={name.replace('$', '$$')}", where=tmp_path)
        assert again.splitlines()[0] == told.splitlines()[0]
    assert 0 < int(told.split(" bytes of stack")[0].split()[-1]) < 2048
    refused = subprocess.run(["make", "-s", "-C", folder, "run", "FILE=text"], capture_output=True, text=True)
    assert refused.returncode and "text cannot be read: it is to be a binary PPM or PGM file" in refused.stderr
    make(folder, "clean")
    refused = subprocess.run(["make", "-s", "-C", folder, "STACK=99999999"], capture_output=True, text=True)
    assert refused.returncode and "the network does not fit into RAM beside stack and heap" in refused.stderr
    (folder / "main.c").write_text(
        '#include "net.h"\n'
        "static _Alignas(NET_ALIGNMENT) unsigned char arena[NET_ARENA_BYTES];\n"
        "static float x[NET_IMAGE_ELEMENTS], y[NET_PROBABILITIES_ELEMENTS];\n"
        "int main(void) { return net_run(net_weights, arena, x, y); }\n"
    )
    make(folder)
    assert sizes("net.elf") == (16384, 0)


#: A Cortex-M0 with the memory of a Cortex-M3's board, which runs its instructions.
CORTEX_M0 = """
base = "mps2_an385"
vector_registers = 8

[toolchain]
cflags = ["-mcpu=cortex-m0", "-mthumb"]
zig_mcpu = "cortex_m0"
"""


def test_a_board_of_its_users_with_the_smallest_core(tmp_path: Path) -> None:
    """The smallest core lacks instructions that the start of a program could use by accident."""
    need_board()
    device = tmp_path / "my micro bit.toml"
    device.write_text(CORTEX_M0)
    ramp = np.arange(8, dtype=np.float32).reshape(4, 2)
    small = model([node("MatMul", ["x", "w"], ["y"])], [tensor_input("x", (1, 4))], ["y"], [from_array(ramp, "w")])
    out = tmp_path / "small"
    edgec.build(small, out, device=device, extras=["embedded"])
    make(out / "embedded")
    (out / "embedded" / "x.bin").write_bytes(np.array([0, 0, 1, 2], np.float32).tobytes())
    assert make(out / "embedded", "run", "FILE=x.bin").splitlines()[0] == "class 1"
    assert edgec.check(small, device=device, link="device").ok


def test_a_spoken_word_on_a_microcontroller(tmp_path: Path) -> None:
    spotter, sounds = MODELS / "mlperf_tiny" / "kws_ref_model.tflite", MODELS / "tflm"
    if not spotter.is_file() or not sounds.is_dir():
        pytest.skip("the trained models are not beside the project")
    need_board()
    out = tmp_path / "kws"
    edgec.build(
        str(spotter), out, name="kws", device="mps2_an386", extras=["embedded"], preprocessing=Preparation(labels=WORDS)
    )
    make(out / "embedded")
    for word, name in (("yes", "Yes"), ("silence", "Silence")):
        file = f"{word}_1000ms.wav"
        (out / "embedded" / file).write_bytes((sounds / file).read_bytes())
        assert make(out / "embedded", "run", f"FILE={file}").splitlines()[0] == name


def test_a_person_on_a_microcontroller(tmp_path: Path) -> None:
    """TensorFlow Lite Micro's own pictures, whose pixels have a sign."""
    network = MODELS / "tflm" / "person_detect.tflite"
    if not network.is_file():
        pytest.skip("the trained models are not beside the project")
    need_board()
    out = tmp_path / "person"
    prepared = Preparation(labels=("nobody", "a person"))
    edgec.build(str(network), out, name="person", device="mps2_an386", extras=["embedded"], preprocessing=prepared)
    make(out / "embedded")
    for file, answer in (("person.bmp", "a person"), ("no_person.bmp", "nobody")):
        raw = (network.parent / file).read_bytes()
        pixels = np.frombuffer(raw[int.from_bytes(raw[10:14], "little") :], np.uint8)[: 96 * 96].reshape(96, 96)
        (out / "embedded" / "seen.pgm").write_bytes(b"P5 96 96 255\n" + (pixels[::-1] ^ 128).tobytes())
        assert make(out / "embedded", "run", "FILE=seen.pgm").splitlines()[0] == answer


def test_coefficients(tmp_path: Path) -> None:
    """The front end beside the same in numpy: Hann windows, spectrum, triangles over mels, logarithm, cosines."""
    gcc = need("gcc", "gcc")
    net = model([node("Relu", ["x"], ["y"])], [tensor_input("x", [1, 49, 10, 1])])
    edgec.build(net, tmp_path / "net", device="mps2_an386", extras=["embedded"])
    library, source = tmp_path / "mfcc.so", tmp_path / "net" / "embedded" / "mfcc.c"
    subprocess.run(
        [gcc, "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", source, "-lm", "-o", library], check=True
    )
    random = np.random.default_rng(0)
    time = np.arange(16000) / 16000
    sound = np.sin(2 * np.pi * 440 * time * (1 + time)) + 0.05 * random.standard_normal(16000)
    samples = np.rint(sound / np.abs(sound).max() * 20000).astype(np.int16)
    got = np.empty((49, 10), np.float32)
    ctypes.CDLL(str(library)).mfcc(samples.ctypes.data_as(ctypes.c_void_p), got.ctypes.data_as(ctypes.c_void_p))
    np.testing.assert_allclose(got, coefficients(samples / np.abs(samples).max()), atol=2e-3)


def coefficients(sound: np.ndarray) -> np.ndarray:
    def mel(hertz: np.ndarray | float) -> np.ndarray:
        return 1127 * np.log1p(np.asarray(hertz) / 700)

    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(480) / 480)
    edges = np.linspace(mel(20), mel(4000), 42)
    bins = mel(np.arange(257) * 16000 / 512)[:, None]
    rising, falling = (bins - edges[:-2]) / (edges[1:-1] - edges[:-2]), (edges[2:] - bins) / (edges[2:] - edges[1:-1])
    triangles = np.maximum(np.minimum(rising, falling), 0)
    cosines = np.cos(np.pi / 40 * (np.arange(40) + 0.5) * np.arange(10)[:, None]) * np.sqrt(2 / 40)
    frames = np.stack([sound[320 * t : 320 * t + 480] * window for t in range(49)])
    return np.log(np.abs(np.fft.rfft(frames, 512)) @ triangles + 1e-6) @ cosines.T


def test_pictures_on_linux(tmp_path: Path) -> None:
    cmake = need("cmake", "cmake")
    out = tmp_path / "digits"
    prepared = Preparation(labels=DIGIT_NAMES)
    edgec.build(
        str(DIGITS / "digits.onnx"),
        out,
        name="digits",
        device="generic",
        compile=False,
        extras=["pi"],
        preprocessing=prepared,
    )
    subprocess.run([cmake, "-S", out / "pi", "-B", tmp_path / "build"], check=True, capture_output=True)
    subprocess.run(
        [cmake, "--build", tmp_path / "build", "--target", "digits_pictures"], check=True, capture_output=True
    )
    given = pictures(tmp_path, 3)
    program = tmp_path / "build" / "digits_pictures"
    done = subprocess.run([program, "-t", "2", *(p for p, _ in given)], capture_output=True, text=True, check=True)
    best = [line.split()[0] for line in done.stdout.splitlines()[1::4]]
    assert best == [DIGIT_NAMES[digit] for _, digit in given]
    (tmp_path / "broken.ppm").write_bytes(b"P6\n10 10\n255\n")
    assert subprocess.run([program, tmp_path / "broken.ppm"], capture_output=True, check=False).returncode == 1


def test_scores_of_a_quantized_classifier_are_shares(tmp_path: Path) -> None:
    """Bytes without a sign are compared as such, and shown as what they mean, on Linux as on Android."""
    file = MODELS / "coral" / "mobilenet_v1_0.25_128_quant.tflite"
    if not file.is_file():
        pytest.skip("the shared models are not beside the project")
    cmake, out = need("cmake", "cmake"), tmp_path / "net"
    built = edgec.build(file, out, device="generic", app="pi")
    subprocess.run([cmake, "-S", out / "pi", "-B", tmp_path / "build"], check=True, capture_output=True)
    subprocess.run([cmake, "--build", tmp_path / "build", "--target", "net_pictures"], check=True, capture_output=True)
    light = np.random.default_rng(3).integers(0, 256, (4, 4, 3))
    pixels = np.kron(light, np.ones((32, 32, 1))).astype(np.uint8)
    (tmp_path / "x.ppm").write_bytes(b"P6\n128 128\n255\n" + pixels.tobytes())
    done = subprocess.run([tmp_path / "build" / "net_pictures", tmp_path / "x.ppm"], capture_output=True, check=True)
    shown = [float(line.split()[-1]) for line in done.stdout.decode().splitlines()[1:]]
    wanted = np.sort(np.asarray(built(pixels[None]), np.float64).ravel())[::-1][:3] / 256
    np.testing.assert_allclose(shown, wanted, rtol=1e-4)
    android = tmp_path / "android"
    edgec.build(file, android, device="android_arm64", app="android", compile=False)
    (activity,) = android.glob("android/camera/**/CameraActivity.java")
    assert "0xff" in activity.read_text(), "a byte of Java has a sign"
