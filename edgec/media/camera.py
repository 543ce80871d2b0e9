"""Files of pictures as the bytes that a camera or a decoder would give a network that takes those."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from edgec.media.before import FORMATS, MATRICES, PictureBytes
from edgec.media.pictures import Frame, Preparation, read


def bytes_of(path: Path, given: PictureBytes) -> np.ndarray:
    """The middle of a picture that covers the format's pixels: u8 [H, W, C], or [H * 3 / 2, W] of nv12.

    Raises UsageError for what is no picture, or too large a one.
    """
    channels = 3 if given.format == "nv12" else FORMATS[given.format]
    order = "bgr" if given.format.startswith("bgr") else "rgb"
    values = read(path, Frame(given.height, given.width, channels, False, True), Preparation(order=order))
    return nv12(values, given) if given.format == "nv12" else values


def nv12(values: np.ndarray, given: PictureBytes) -> np.ndarray:
    """Two planes u8 [H * 3 / 2, W] of a picture u8 [H, W, 3] in red, green and blue."""
    red, blue = MATRICES[given.matrix]
    low, bright, colored = (16, 219, 224) if given.range == "limited" else (0, 255, 255)
    pixels = values.astype(np.float64)
    y = pixels @ (red, 1 - red - blue, blue)
    height, width = y.shape
    both = np.stack(((pixels[..., 2] - y) / (2 - 2 * blue), (pixels[..., 0] - y) / (2 - 2 * red)), axis=-1)
    chroma = both.reshape(height // 2, 2, width // 2, 2, 2).mean(axis=(1, 3)) * (colored / 255) + 128
    planes = np.concatenate([y * (bright / 255) + low, chroma.reshape(height // 2, width)])
    return np.asarray(np.rint(planes).clip(0, 255), np.uint8)
