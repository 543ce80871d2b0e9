"""Pictures as inputs of a network: decoded by Pillow, brought to size, and made numbers."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from edgec.errors import UsageError
from edgec.media import words
from edgec.untrusted import reason, regular

if TYPE_CHECKING:
    from PIL.Image import Image

#: Endings of the files that are read.
ENDINGS = (".bmp", ".jpeg", ".jpg", ".png", ".ppm", ".webp")
#: Pixels that a picture may have before it is brought to size.
MOST_PIXELS = 100_000_000
OPTION = "--picture"
_MODES = {1: "L", 3: "RGB", 4: "RGBA"}
_READERS = {
    "fit": words.choice("crop", "stretch", "pad"),
    "resize": words.whole(1 << 14),
    "filter": words.choice("bilinear", "bicubic", "lanczos", "nearest"),
    "order": words.choice("rgb", "bgr"),
    "scale": words.positive,
    "mean": words.numbers,
    "std": words.positive,
    "fill": words.numbers,
    "layout": words.choice("first", "last"),
}


@dataclass(frozen=True)
class Preparation:
    """The way from a picture to an input.

    ``fit``: crop cuts the middle out of the picture, whose shorter side is ``resize`` pixels before (by default those
    that cover the input); stretch changes both sides; pad keeps all of it, and the rest has the value ``fill``. Then
    each value is (value / ``scale`` - ``mean``) / ``std``, of which the last two are in the order of the input's
    channels. ``layout`` says whether channels are first or last where the input's shape does not.
    """

    fit: str = "crop"
    resize: int | None = None
    filter: str = "bilinear"
    order: str = "rgb"
    scale: tuple[float, ...] = (255.0,)
    mean: tuple[float, ...] = (0.0,)
    std: tuple[float, ...] = (1.0,)
    fill: tuple[float, ...] = (114.0,)
    layout: str | None = None

    @staticmethod
    def parse(text: str) -> Preparation:
        """The preparation that a text says; raises UsageError for another one."""
        found = words.parse(text, _READERS, OPTION)
        if found.get("fit", "crop") != "crop" and "resize" in found:
            raise UsageError("resize is of fit=crop alone", hint="leave out resize", where=OPTION)
        if "fill" in found and found.get("fit") != "pad":
            raise UsageError("fill is of fit=pad alone", hint="leave out fill, or add fit=pad", where=OPTION)
        return Preparation(**found)


@dataclass(frozen=True)
class Frame:
    """The input that a picture becomes: ``height`` and ``width`` in pixels, channels first or last, f32 or bytes."""

    height: int
    width: int
    channels: int
    is_first: bool
    is_bytes: bool


def read(path: Path, frame: Frame, wanted: Preparation) -> np.ndarray:
    """The input [C, H, W] or [H, W, C], f32 or u8. Raises UsageError for what is no picture, or too large a one."""
    image = _fitted(_opened(path, frame.channels), frame, wanted)
    values = np.asarray(image).reshape(frame.height, frame.width, frame.channels)
    if wanted.order == "bgr":
        values = np.concatenate([values[..., 2::-1], values[..., 3:]], axis=2)
    if not frame.is_bytes:
        scale, mean, std = (np.asarray(n, np.float32) for n in (wanted.scale, wanted.mean, wanted.std))
        values = (values.astype(np.float32) / scale - mean) / std
    return np.ascontiguousarray(values.transpose(2, 0, 1) if frame.is_first else values)


def check(frame: Frame, wanted: Preparation) -> None:
    """Raises UsageError where a preparation does not fit the input."""
    for name in ("scale", "mean", "std", "fill"):
        count = len(getattr(wanted, name))
        if count not in (1, frame.channels):
            told = f"{name} has {count} numbers, and the input {frame.channels} channels"
            raise UsageError(told, hint="give one, or one a channel", where=OPTION)
    if wanted.order == "bgr" and frame.channels == 1:
        raise UsageError("an input of one channel has no order", hint="leave out order", where=OPTION)
    own = Preparation()
    if frame.is_bytes and any(getattr(wanted, n) != getattr(own, n) for n in ("scale", "mean", "std")):
        raise UsageError("the input has bytes, which stay as they are", hint="leave out scale, mean, std", where=OPTION)
    if wanted.resize is not None and wanted.resize < max(frame.height, frame.width):
        told = f"resize={wanted.resize} is less than the input of {frame.height} x {frame.width}"
        raise UsageError(told, hint=f"give {max(frame.height, frame.width)} or more", where=OPTION)


def _opened(path: Path, channels: int) -> Image:
    """A picture, upright, with so many channels."""
    try:
        from PIL import Image, ImageOps
    except ImportError:
        raise UsageError("pictures are read by Pillow", hint="pip install 'edgec[pictures]'", where=OPTION) from None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the size, which is looked at here
            with Image.open(regular(path)) as image:
                if image.width * image.height > MOST_PIXELS:
                    told = f"it has {image.width} x {image.height} pixels, and {MOST_PIXELS:,} are the most"
                    raise UsageError(told, where=str(path))
                return ImageOps.exif_transpose(image).convert(_MODES[channels])
    except UsageError:
        raise
    except Exception as error:  # a damaged file raises whatever its decoder does
        raise UsageError(f"this picture cannot be read: {reason(error)}", where=str(path)) from None


def _fitted(image: Image, frame: Frame, wanted: Preparation) -> Image:
    """The picture with as many pixels as the input."""
    from PIL import Image as Images

    resampling: Any = getattr(Images.Resampling, wanted.filter.upper())
    height, width = frame.height, frame.width
    if wanted.fit == "stretch":
        return image.resize((width, height), resampling)
    if wanted.fit == "pad":
        share = min(width / image.width, height / image.height)
        inner = [max(1, min(most, round(n * share))) for n, most in ((image.width, width), (image.height, height))]
        whole = Images.new(image.mode, (width, height), _color(wanted.fill, frame.channels))
        whole.paste(image.resize((inner[0], inner[1]), resampling), ((width - inner[0]) // 2, (height - inner[1]) // 2))
        return whole
    shorter = min(image.size)
    if wanted.resize is None:
        share = max(width / image.width, height / image.height)
        sizes = [max(most, round(n * share)) for n, most in ((image.width, width), (image.height, height))]
    else:
        sizes = [wanted.resize if n == shorter else wanted.resize * n // shorter for n in image.size]
    if max(sizes) > 1 << 15:
        raise UsageError(
            f"it would have {sizes[0]} x {sizes[1]} pixels", hint="use fit=stretch or fit=pad", where=OPTION
        )
    left, top = (round((n - most) / 2) for n, most in zip(sizes, (width, height)))
    return image.resize((sizes[0], sizes[1]), resampling).crop((left, top, left + width, top + height))


def _color(fill: tuple[float, ...], channels: int) -> Any:
    each = tuple(round(f) for f in (fill * channels if len(fill) == 1 else fill))
    return each[0] if channels == 1 else each
