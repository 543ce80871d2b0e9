"""Features of sounds as part of networks (``--pre audio=...``): beside numpy's transform, and beside librosa."""

from __future__ import annotations

import wave
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from chance import RANDOM
from needed import need_opencl
from small_models import model, node, tensor_input, weights

import edgec
from edgec import pipeline
from edgec.errors import UsageError
from edgec.execute.executor import run_graph
from edgec.media.before import SoundSamples, asked
from edgec.options import resolve
from edgec.pipeline.context import Context

RATE = 16000


def network(shape: list[int]) -> onnx.ModelProto:
    return model([node("Identity", ["x"], ["y"])], [tensor_input("x", shape)])


def features(pre: str, shape: list[int], samples: np.ndarray) -> np.ndarray:
    graph = pipeline.import_(network(shape), Context(resolve({"pre": pre})))
    return run_graph(graph, {"sound": samples[None]})["y"]


def to_mel(hertz: np.ndarray, scale: str) -> np.ndarray:
    if scale == "htk":
        return 1127.01048 * np.log1p(hertz / 700)
    return np.where(hertz < 1000, hertz * 0.015, 15 + 27 * np.log(np.maximum(hertz, 1) / 1000) / np.log(6.4))


def reference(samples: np.ndarray, given: SoundSamples) -> np.ndarray:
    """Features [bands, frames] in double precision: frame by frame, bands by interpolation between edges."""
    length = given.win_length or given.n_fft
    window = {
        "hann": np.sin(np.pi * np.arange(length) / length) ** 2,
        "hamming": 0.08 + 0.92 * np.sin(np.pi * np.arange(length) / length) ** 2,
        "ones": np.ones(length),
    }[given.window]
    signal = samples.astype(np.float64) / (32768 if given.type == "i16" else 1)
    signal = np.pad(signal, given.n_fft // 2) if given.center else signal
    whole = np.zeros(given.n_fft)
    start = (given.n_fft - length) // 2
    whole[start : start + length] = window
    starts = range(0, len(signal) - given.n_fft + 1, given.hop_length)
    spectra = np.stack([np.abs(np.fft.rfft(signal[k : k + given.n_fft] * whole)) for k in starts]) ** given.power
    fine = np.linspace(0, given.rate, 1 << 20)
    low, high = to_mel(np.asarray([given.fmin, given.highest]), given.mel)
    edges = np.interp(np.linspace(low, high, given.n_mels + 2), to_mel(fine, given.mel), fine)
    places = np.fft.rfftfreq(given.n_fft, 1 / given.rate)
    bands = np.stack([np.interp(places, edges[k : k + 3], [0, 1, 0], 0, 0) for k in range(given.n_mels)])
    bands *= (2 / (edges[2:] - edges[:-2]))[:, None] if given.norm == "slaney" else 1
    energy = np.maximum(bands @ spectra.T, given.amin)
    found = {"db": lambda: 10 * np.log10(energy), "ln": lambda: np.log(energy), "log10": lambda: np.log10(energy)}[
        given.log
    ]()
    found = np.maximum(found, found.max() - given.top_db) if given.top_db is not None else found
    if given.kind == "mfcc":
        found = pytest.importorskip("scipy.fft", reason="pip install scipy").dct(found, axis=0, norm="ortho")
        found = found[: given.n_mfcc]
    return found


#: Options that are drawn, each from its values.
VALUES: dict[str, tuple[Any, ...]] = {
    "type": ("f32", "i16"), "n_fft": (256, 400, 321), "hop_length": (100, 160, 333), "win_length": (None, 200, 255),
    "window": ("hann", "hamming", "ones"), "center": ("yes", "no"), "power": (1, 2), "n_mels": (20, 31),
    "fmin": (0, 60), "fmax": (None, 7600), "mel": ("slaney", "htk"), "norm": ("slaney", "none"),
    "log": ("db", "ln", "log10"),
    "amin": (1e-10, 1e-3),
}  # fmt: skip


def drawn(kind: str, count: int) -> str:
    chosen = {name: RANDOM.choice(np.asarray(values, object)) for name, values in VALUES.items()}
    if chosen["log"] == "db" and RANDOM.integers(2):
        chosen["top_db"] = 30
    if kind == "mfcc":
        chosen["n_mfcc"] = int(RANDOM.choice([10, 20]))
    said = [f"{name}={value}" for name, value in chosen.items() if value is not None]
    return ",".join([f"audio={kind}:{count}", f"rate={RATE}", *said])


def sound(given: SoundSamples) -> np.ndarray:
    """A tone that rises, and noise."""
    time = np.arange(given.samples) / RATE
    values = 0.5 * np.sin(2 * np.pi * (300 + 2000 * time) * time) + 0.05 * RANDOM.standard_normal(given.samples)
    return (values * 32767).astype(np.int16) if given.type == "i16" else values.astype(np.float32)


@pytest.mark.parametrize("number", range(16))
def test_features(number: int) -> None:
    pre = drawn(("logmel", "mfcc")[number % 2], int(RANDOM.integers(500, 4000)))
    given = asked(pre)
    assert isinstance(given, SoundSamples)
    samples = sound(given)
    want = reference(samples, given)
    is_frames_first = bool(RANDOM.integers(2)) and want.shape[0] != want.shape[1]
    want = want.T if is_frames_first else want
    shape = [[1, *want.shape], [1, 1, *want.shape], [1, *want.shape, 1], list(want.shape)][RANDOM.integers(4)]
    got = features(pre, shape, samples)
    assert got.shape == tuple(shape)
    np.testing.assert_allclose(got.reshape(want.shape), want, atol=2e-4 * np.abs(want).max(), err_msg=pre)


@pytest.mark.parametrize("kind", ["logmel", "mfcc"])
def test_beside_librosa(kind: str) -> None:
    librosa = pytest.importorskip("librosa", reason="pip install librosa")
    pre = f"audio={kind}:8000,rate={RATE},n_fft=512,hop_length=128,n_mels=40,top_db=80,n_mfcc=13"
    pre = pre if kind == "mfcc" else pre.removesuffix(",n_mfcc=13")
    given = asked(pre)
    assert isinstance(given, SoundSamples)
    samples, words = sound(given), {"sr": RATE, "n_fft": 512, "hop_length": 128, "n_mels": 40}
    if kind == "mfcc":
        want = librosa.feature.mfcc(y=samples, n_mfcc=13, **words)
    else:
        want = librosa.power_to_db(librosa.feature.melspectrogram(y=samples, **words))
    got = features(pre, [1, *want.shape], samples)[0]
    np.testing.assert_allclose(got, want, atol=2e-4 * np.abs(want).max())


def classifier(frames: int, bands: int) -> onnx.ModelProto:
    """A network of two products over features [frames, bands]."""
    nodes = [
        node("MatMul", ["x", "v"], ["h"]), node("Relu", ["h"], ["r"]), node("Reshape", ["r", "s"], ["f"]),
        node("MatMul", ["f", "w"], ["y"]),
    ]  # fmt: skip
    constants = [
        weights("v", RANDOM.standard_normal((bands, 16)).astype(np.float32) / 8),
        weights("w", RANDOM.standard_normal((frames * 16, 4)).astype(np.float32) / 8),
        weights("s", np.array([1, frames * 16])),
    ]
    return model(nodes, [tensor_input("x", [1, frames, bands])], initializers=constants)


PRE = f"audio=mfcc:4000,rate={RATE},n_fft=400,hop_length=160,n_mels=40,n_mfcc=13,log=ln,amin=1e-3"


@pytest.mark.parametrize("options", [{}, {"threads": 2}, {"device": "arm64", "link": "qemu"}], ids=str)
@pytest.mark.parametrize("type_", ["f32", "i16"])
def test_compiled_code(options: dict[str, Any], type_: str) -> None:
    agrees(f"{PRE},type={type_}", options)


@pytest.mark.parametrize("options", [{"device": "host_pocl"}, {"device": "cuda_sm89", "compiler": "emulated"}], ids=str)
def test_kernels_of_gpus(options: dict[str, Any]) -> None:
    if options["device"] == "host_pocl":
        need_opencl()
    agrees("audio=mfcc:800,rate=8000,n_fft=64,hop_length=80,n_mels=16,n_mfcc=8,type=i16,log=ln,amin=1e-3", options)


def agrees(pre: str, options: dict[str, Any]) -> None:
    """Runs of a network on sounds give what onnxruntime gives."""
    given = asked(pre)
    assert isinstance(given, SoundSamples)
    inputs = {"sound": np.stack([sound(given) for _ in range(2)])[:, None]}
    checked = edgec.check(classifier(given.frames, given.bands), pre=pre, inputs=inputs, **options)
    assert checked.ok and checked.threads, str(checked)
    assert checked.reference.startswith("onnxruntime")


def test_folders_calibrate_and_features_stay_in_floats(tmp_path: Path) -> None:
    """A transform in int8 would be noise: only what was learned is quantized."""
    given = asked(f"{PRE},type=i16")
    assert isinstance(given, SoundSamples)
    (tmp_path / "sounds").mkdir()
    for k in range(3):
        with wave.open(str(tmp_path / "sounds" / f"{k}.wav"), "wb") as file:
            file.setnchannels(1)
            file.setsampwidth(2)
            file.setframerate(RATE)
            file.writeframes(sound(given).astype("<i2").tobytes())
    built = edgec.build(
        classifier(given.frames, 13), pre=f"{PRE},type=i16", quantize="int8", calibrate=tmp_path / "sounds"
    )
    layers = built.stages.compressed.report.layers
    assert len(layers) == 2 and not any("pre/" in layer.name for layer in layers)


#: What is refused: the option, the shape of the input, and what is said.
REFUSED = (
    ("audio=chroma:4000,rate=16000", [1, 26, 13], "did you mean|one of logmel, mfcc"),
    ("audio=mfcc:4000", [1, 26, 13], "the rate of the sounds is not said"),
    ("audio=mfcc:4000,rate=16000,amin=1e-300", [1, 26, 13], "at least 1.2e-38"),
    ("audio=mfcc:0,rate=16000", [1, 26, 13], "a whole number from 1"),
    ("audio=mfcc:100,rate=16000,center=no", [1, 26, 13], "100 samples have no frame of 400"),
    ("audio=mfcc:4000,rate=16000,n_mfcc=50", [1, 26, 50], "n_mfcc is more than n_mels"),
    ("audio=logmel:4000,rate=16000,n_mfcc=5", [1, 26, 40], "n_mfcc is of mfcc"),
    ("audio=mfcc:4000,rate=16000,fmax=9000", [1, 26, 13], "bands from 0 to 9000 Hz"),
    ("audio=mfcc:4000,rate=16000,win_length=500", [1, 26, 13], "win_length is longer than n_fft"),
    ("audio=mfcc:4000,rate=16000,log=ln,top_db=80", [1, 26, 13], "top_db is of log=db"),
    ("audio=mfcc:4000,rate=16000,n_fft=16384", [1, 26, 13], "the transform has 268,468,224 numbers"),
    ("audio=mfcc:4000,rate=16000", [1, 27, 13], r"input 'x' is \[1, 27, 13\], and there are 26 frames of 13 bands"),
)


@pytest.mark.parametrize(("pre", "shape", "told"), REFUSED)
def test_refused(pre: str, shape: list[int], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        pipeline.import_(network(shape), Context(resolve({"pre": pre})))


def test_a_folder_of_another_rate_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.wav").touch()
    with pytest.raises(UsageError, match="takes sounds of 16000 Hz, not of 8000"):
        edgec.check(classifier(26, 13), pre=PRE, sound="rate=8000", inputs=tmp_path)
