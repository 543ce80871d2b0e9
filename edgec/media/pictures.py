"""Pictures as inputs of a network: decoded by Pillow, brought to size, and made numbers."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgec.errors import UsageError
from edgec.media import words
from edgec.untrusted import reason, regular

if TYPE_CHECKING:  # numpy is imported by what reads files: the command line starts without it
    import numpy as np
    from PIL.Image import Image

#: Endings of the files that are read.
ENDINGS = (".bmp", ".jpeg", ".jpg", ".png", ".ppm", ".webp")
#: Pixels that a picture may have before it is brought to size.
MOST_PIXELS = 100_000_000
OPTION = "--picture"
_MODES = {1: "L", 3: "RGB", 4: "RGBA"}
#: The dimension of channels in each layout.
_SIDES = {"first": 1, "last": 3}


def _levels(text: str) -> tuple[float, ...]:
    """Values of pixels, one or one a channel."""
    found = words.numbers(text)
    if not 0 <= min(found) <= max(found) <= 255:
        raise ValueError("it is from 0 to 255, or one such number a channel")
    return found


_READERS = {
    "fit": words.choice("crop", "stretch", "pad"),
    "resize": words.whole(1 << 14),
    "filter": words.choice("bilinear", "bicubic", "lanczos", "nearest"),
    "order": words.choice("rgb", "bgr"),
    "scale": words.positive,
    "mean": words.numbers,
    "std": words.positive,
    "fill": _levels,
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


@dataclass(frozen=True)
class Place:
    """The size that a picture is brought to, and where in it the input begins: before it where that is padded."""

    width: int
    height: int
    left: int
    top: int
    frame: Frame

    @property
    def rows(self) -> tuple[int, int]:
        """First and last (exclusive) of the rows that the input shows."""
        return max(self.top, 0), min(self.top + self.frame.height, self.height)

    @property
    def columns(self) -> tuple[int, int]:
        """The same of columns."""
        return max(self.left, 0), min(self.left + self.frame.width, self.width)


def frame_of(shape: Sequence[Any], dtype: str, shown: str, layout: str | None) -> Frame:
    """The frame that an input of this shape is, with channels where ``layout`` says: "first", "last" or None.

    Raises UsageError for an input that is no picture, or one that could be either; ``shown`` is its name.
    """
    told = f"input '{shown}' is {dtype}{list(shape)}"
    if len(shape) != 4 or dtype not in ("f16", "f32", "u8"):
        raise UsageError(
            told, hint="pictures are f16, f32 or u8 with 4 dimensions, channels second or last", where=shown
        )
    fitting = [w for w, axis in _SIDES.items() if shape[axis] in _MODES and layout in (None, w)]
    if len(fitting) != 1:
        hint = "add layout=first or layout=last to --picture" if fitting else "pictures have 1, 3 or 4 channels"
        raise UsageError(told, hint=hint, where=shown)
    is_first = fitting == ["first"]
    channels, height, width = (shape[k] for k in ((1, 2, 3) if is_first else (3, 1, 2)))
    return Frame(height, width, channels, is_first, dtype == "u8")


def read(path: Path, frame: Frame, wanted: Preparation) -> np.ndarray:
    """The input [C, H, W] or [H, W, C], f32 or u8. Raises UsageError for what is no picture, or too large a one."""
    import numpy as np

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
                return in_bytes(ImageOps.exif_transpose(image), image.format).convert(_MODES[channels])
    except UsageError:
        raise
    except Exception as error:  # a damaged file raises whatever its decoder does
        raise UsageError(f"this picture cannot be read: {reason(error)}", where=str(path)) from None


def in_bytes(image: Image, format: str | None) -> Image:
    """A picture of 8 bits: the upper half of gray of 16 bits. Raises ValueError for floats, and for more bits.

    Pillow would convert those by cutting off what is above 255. ``format`` is that of its file.
    """
    import numpy as np
    from PIL import Image as Images

    if image.mode.startswith("I;16") or (image.mode == "I" and format in ("PNG", "PPM")):
        return Images.fromarray((np.asarray(image) >> 8).clip(0, 255).astype(np.uint8))
    if image.mode.startswith(("I", "F")):
        kind = "floats" if image.mode.startswith("F") else "integers of 32 bits"
        raise ValueError(f"its pixels are {kind}, not bytes")
    return image


def placed(width: int, height: int, frame: Frame, wanted: Preparation) -> Place:
    """The place of an input in a picture of so many pixels, resized. Raises UsageError for one that grows too large."""
    if wanted.fit == "stretch":
        return Place(frame.width, frame.height, 0, 0, frame)
    own, most = (width, height), (frame.width, frame.height)
    if wanted.fit == "pad":
        share = min(m / n for n, m in zip(own, most))
        inner = [max(1, min(m, round(n * share))) for n, m in zip(own, most)]
        left, top = (-((m - n) // 2) for n, m in zip(inner, most))
        return Place(inner[0], inner[1], left, top, frame)
    if wanted.resize is None:
        share = max(m / n for n, m in zip(own, most))
        sizes = [max(m, round(n * share)) for n, m in zip(own, most)]
    else:
        shorter = min(own)
        sizes = [wanted.resize if n == shorter else wanted.resize * n // shorter for n in own]
    if max(sizes) > 1 << 15:
        raise UsageError(
            f"it would have {sizes[0]} x {sizes[1]} pixels", hint="use fit=stretch or fit=pad", where=OPTION
        )
    left, top = (round((n - m) / 2) for n, m in zip(sizes, most))
    return Place(sizes[0], sizes[1], left, top, frame)


def _fitted(image: Image, frame: Frame, wanted: Preparation) -> Image:
    """The picture with as many pixels as the input."""
    from PIL import Image as Images

    resampling: Any = getattr(Images.Resampling, wanted.filter.upper())
    place = placed(image.width, image.height, frame, wanted)
    resized = image.resize((place.width, place.height), resampling)
    if wanted.fit == "pad":
        whole = Images.new(image.mode, (frame.width, frame.height), _color(wanted.fill, frame.channels))
        whole.paste(resized, (-place.left, -place.top))
        return whole
    return resized.crop((place.left, place.top, place.left + frame.width, place.top + frame.height))


def _color(fill: tuple[float, ...], channels: int) -> Any:
    each = tuple(round(f) for f in (fill * channels if len(fill) == 1 else fill))
    return each[0] if channels == 1 else each
