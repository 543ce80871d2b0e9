"""One real input for each network whose data lie in the folder of trained models: a picture, a sound, a gesture."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

FACES = "face_ultralight/imgs/1.jpg"
#: Quantization of the stored keyword spectrograms: real = (stored - zero) * scale.
KEYWORD_SCALE, KEYWORD_ZERO = np.float32(0.5847029089927673), 83


@dataclass(frozen=True)
class Picture:
    """Image format of a network: its input, rows and columns, and (pixel - center) / spread."""

    input: str
    rows: int
    columns: int
    file: str = FACES
    center: float | tuple[float, ...] = 0.0
    spread: float | tuple[float, ...] = 255.0
    is_bgr: bool = False
    channels_last: bool = False

    def __call__(self, folder: Path) -> dict[str, np.ndarray]:
        from PIL import Image

        with Image.open(folder / self.file) as image:
            sized = image.convert("RGB").resize((self.columns, self.rows))
            pixels = np.asarray(sized, np.float32)
        pixels = pixels[..., ::-1] if self.is_bgr else pixels
        scaled = ((pixels - np.asarray(self.center, np.float32)) / np.asarray(self.spread, np.float32))[None]
        plain = scaled if self.channels_last else scaled.transpose(0, 3, 1, 2)
        return {self.input: np.ascontiguousarray(plain, np.float32)}


def _keyword(folder: Path) -> dict[str, np.ndarray]:
    with np.load(folder / "mlperf_tiny/kws01_1000.npz") as data:
        return {"input_1": keyword(data["x"][0])}


def keyword(stored: np.ndarray) -> np.ndarray:
    """The spectrogram f32[1,49,10,1] of a stored example i8[490]."""
    return ((stored.astype(np.float32) - KEYWORD_ZERO) * KEYWORD_SCALE).reshape(1, 49, 10, 1)


def _machine_sound(folder: Path) -> dict[str, np.ndarray]:
    """The first five frames of the spectrogram of a machine that works."""
    frames = np.fromfile(folder / "mlperf_tiny/ad01_normal_id_01_00000000_hist_librosa.bin", np.float32)
    return {"input_1": frames[:640].reshape(1, 640)}


def _gesture(folder: Path) -> dict[str, np.ndarray]:
    row = np.loadtxt(folder / "gesture/point_history.csv", np.float32, delimiter=",", max_rows=1)
    return {"input": row[None, 1:], "score_threshold": np.array(0.5, np.float32)}


def _story(folder: Path) -> dict[str, np.ndarray]:
    """Tokens of a sensible range; the tokenizer is not part of the network."""
    text = (folder / "lm_stories260k/eval.txt").read_bytes()[:31]
    return {"tokens": np.array([[1, *(3 + byte for byte in text)]], np.int64)}


def _file_content(folder: Path) -> dict[str, np.ndarray]:
    """The first and the last 1024 bytes of a text file; 256 stands where there is none."""
    content = np.frombuffer((folder / "lm_stories260k/eval.txt").read_bytes(), np.uint8).astype(np.int32)
    return {"bytes": np.concatenate([content[:1024], content[-1024:]])[None]}


_MEAN, _DEVIATION = (123.675, 116.28, 103.53), (58.395, 57.12, 57.375)
_LINE = "ocr_lines/imgs/text_rec.jpg"
READERS: dict[str, Callable[[Path], dict[str, np.ndarray]]] = {
    "kws_ref_model_float32": _keyword,
    "ad01_fp32": _machine_sound,
    "point_history_classifier": _gesture,
    "stories260k_prefill": _story,
    "magika": _file_content,
    "pretrainedResnet": Picture("input_1", 32, 32, spread=1, channels_last=True),
    "vww_96_float": Picture("input_1", 96, 96, channels_last=True),
    "selfie_segmentation": Picture("input_1", 256, 256, channels_last=True),
    "yolox_nano": Picture("images", 416, 416, spread=1, is_bgr=True),
    "FastestDet": Picture("input.1", 352, 352, is_bgr=True),
    "version-RFB-320": Picture("input", 240, 320, center=127, spread=128),
    "efficientnet_lite0": Picture("image", 224, 224, center=127, spread=128),
    "ch_PP-OCRv4_det_infer": Picture("x", 320, 320, "ocr_lines/imgs/text_det.jpg", _MEAN, _DEVIATION, is_bgr=True),
    "ch_ppocr_mobile_v2.0_cls_infer": Picture("x", 48, 192, _LINE, 127.5, 127.5, is_bgr=True),
    "ch_PP-OCRv4_rec_infer": Picture("x", 48, 320, _LINE, 127.5, 127.5, is_bgr=True),
}


def real_input(name: str, folder: Path) -> dict[str, np.ndarray]:
    """Arrays by input name; empty where there are no data, or no Pillow to read a picture with."""
    reader = READERS.get(name)
    try:
        return reader(folder) if reader is not None else {}
    except (ImportError, FileNotFoundError):
        return {}
