"""Networks that look at a picture or listen to a word: what apps have to know to show them one."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from edgec.errors import UsageError
from edgec.media.before import SoundSamples
from edgec.media.way import Way

_FLOAT, _BYTES = "f32", ("u8", "i8")


@dataclass(frozen=True)
class Preparation:
    """Image preprocessing, which a model file does not record: (pixel - mean) / deviation, one number or one a channel.

    ``labels`` are the names of the classes, in order, and ``rate`` the samples a second of sounds (0: none).
    """

    mean: tuple[float, ...] = ()
    deviation: tuple[float, ...] = ()
    labels: tuple[str, ...] = ()
    rate: int = 0


#: Nothing is said.
AS_IS = Preparation()


@dataclass(frozen=True)
class Picture:
    """The one input, a picture of so many pixels; the output whose largest element is the answer."""

    port: Any
    scores: Any
    width: int
    height: int
    channels: int
    channels_last: bool
    mean: tuple[float, ...]
    deviation: tuple[float, ...]


@dataclass(frozen=True)
class Flow(Picture):
    """Two pictures, and an output [1, 2, height, width]: where every pixel of the first went."""

    output: int


def flow_of(inputs: Sequence[Any], outputs: Sequence[Any], given: Preparation) -> Flow | None:
    """The two images of one size that the network reads; None where it reads something else."""
    if len(inputs) != 2 or inputs[0].shape != inputs[1].shape or inputs[0].dtype != inputs[1].dtype:
        return None
    seen = picture_of(inputs[:1], outputs, given)
    if seen is None or any(p.is_open for p in inputs) or seen.port.dtype != _FLOAT:
        return None
    wanted = (1, 2, seen.height, seen.width)
    found = [k for k, p in enumerate(outputs) if p.shape == wanted and p.dtype == _FLOAT]
    facts = {f.name: getattr(seen, f.name) for f in fields(seen)}
    return Flow(**facts, output=found[-1]) if found else None  # the last one is the finest


@dataclass(frozen=True)
class Detector:
    """Boxes of a network that looks at a picture, by the number of the output that they are in.

    ``kind`` says how they lie there: "pair" [1, count, 4] corners as parts of the picture, beside ``scores`` [1, count,
    classes] (UltraLight); "columns" [1, 4 + classes, count] middles and sizes in pixels (YOLOv8); "rows" [1, count, 5 +
    classes] the same (YOLOv5); "grid" the same still to be decoded by cells of 8, 16 and 32 pixels (YOLOX); "cells" [1,
    5 + classes, down, across] (FastestDet).
    """

    kind: str
    boxes: int
    classes: int
    count: int = 0
    scores: int = 0
    down: int = 0
    across: int = 0


def detector_of(picture: Picture, outputs: Sequence[Any]) -> Detector | None:
    """The layout of boxes in the outputs of a network that reads an image; None without boxes."""
    if any(p.dtype != _FLOAT for p in outputs):
        return None
    cells = sum((picture.width // s) * (picture.height // s) for s in (8, 16, 32))
    shapes = [p.shape for p in outputs]
    if len(shapes) == 1 and len(shapes[0]) == 4 and shapes[0][0] == 1 and shapes[0][1] > 5:
        _, channels, down, across = shapes[0]
        is_coarse = 1 < down <= picture.height // 8 and 1 < across <= picture.width // 8
        return Detector("cells", 0, channels - 5, down=down, across=across) if is_coarse else None
    if any(len(s) != 3 or s[0] != 1 for s in shapes):
        return None
    if len(shapes) == 2 and shapes[0][1] == shapes[1][1] and 4 in (shapes[0][2], shapes[1][2]):
        boxes = 1 if shapes[1][2] == 4 else 0
        classes = shapes[1 - boxes][2]
        return Detector("pair", boxes, classes, shapes[0][1], scores=1 - boxes) if classes > 1 else None
    if len(shapes) != 1:
        return None
    _, first, second = shapes[0]
    if second == cells and first > 4:
        return Detector("columns", 0, first - 4, cells)
    if first in (cells, 3 * cells) and second > 5:
        return Detector("grid" if first == cells else "rows", 0, second - 5, first)
    return None


def picture_of(inputs: Sequence[Any], outputs: Sequence[Any], given: Preparation) -> Picture | None:
    """The image that the network reads; None where it reads something else.

    Without being told, floats go from 0 to 1, and bytes are as pixels are, less 128 where they have a sign.
    Raises UsageError for numbers that are not one a channel.
    """
    if len(inputs) != 1 or not outputs or any(p.is_open for p in (*inputs, *outputs)):
        return None
    port, shape = inputs[0], inputs[0].shape
    if len(shape) != 4 or shape[0] != 1 or port.dtype not in (_FLOAT, *_BYTES):
        return None
    is_first, is_last = shape[1] in (1, 3), shape[3] in (1, 3)
    if not (is_first or is_last):
        return None
    channels, height, width = (shape[1], shape[2], shape[3]) if is_first else (shape[3], shape[1], shape[2])
    mean = given.mean or ((128.0,) if port.dtype == "i8" else (0.0,))
    deviation = given.deviation or ((255.0,) if port.dtype == _FLOAT else (1.0,))
    for numbers in (mean, deviation):
        if len(numbers) not in (1, channels):
            raise UsageError(
                f"{len(numbers)} numbers for a picture of {channels} channel(s)", hint="one for all, or one a channel"
            )
    spread = [numbers * channels if len(numbers) == 1 else numbers for numbers in (mean, deviation)]
    return Picture(port, outputs[0], width, height, channels, not is_first, spread[0], spread[1])


def is_keyword_spotter(inputs: Sequence[Any], outputs: Sequence[Any]) -> bool:
    """True for the one input of MLPerf Tiny: 10 cepstral coefficients of 49 frames."""
    if len(inputs) != 1 or not outputs or any(p.is_open for p in (*inputs, *outputs)):
        return False
    return tuple(n for n in inputs[0].shape if n != 1) in ((49, 10), (490,)) and inputs[0].dtype in (_FLOAT, *_BYTES)


@dataclass(frozen=True)
class Sound:
    """The one input, as many ``samples`` at ``rate`` Hz, or what is made of them."""

    rate: int
    samples: int

    @property
    def seconds(self) -> float:
        return self.samples / self.rate


def sound_of(inputs: Sequence[Any], outputs: Sequence[Any], given: Preparation) -> Sound | None:
    """The sound that the network hears; None where it takes something else, or no rate is told."""
    if is_keyword_spotter(inputs, outputs):
        return Sound(16_000, 16_000)
    if not given.rate or len(inputs) != 1 or inputs[0].is_open or inputs[0].dtype not in (_FLOAT, "i16"):
        return None
    extents = [n for n in inputs[0].shape if n != 1]
    return Sound(given.rate, extents[0]) if len(extents) == 1 else None


def steps(name: str, metadata: Mapping[str, str]) -> tuple[float, int] | None:
    """Scale and zero of a quantized input or output, where the model tells one of each."""
    try:
        scale, zero = json.loads(metadata.get(f"quantization {name}", ""))
        return (float(scale), int(zero)) if math.isfinite(scale) else None
    except (ValueError, TypeError):
        return None


def by_way(given: Preparation, wanted: Way) -> Preparation:
    """The preparation for apps, of what ``--picture`` says where ``--normalize`` does not, and the rate of sounds.

    Raises UsageError where both do, or where apps would have to change the order of colors. What is part of the network
    (``--pre``) is no work of apps.
    """
    if isinstance(wanted.pre, SoundSamples) or wanted.sound is not None:
        rate = wanted.pre.rate if isinstance(wanted.pre, SoundSamples) else wanted.sound.rate if wanted.sound else 0
        given = replace(given, rate=rate)
    own = wanted.picture
    if own is None or wanted.pre is not None:
        if given.mean and wanted.pre is not None:
            raise UsageError("the network normalizes its pictures itself", hint="leave out --normalize, or --pre")
        return given
    if given.mean:
        raise UsageError("--normalize and --picture say the same", hint="leave out --normalize")
    if own.order != "rgb":
        hint = "--pre makes it a part of the network, or say --normalize without --picture"
        raise UsageError("apps give red, green and blue in this order", hint=hint, where="--picture")
    count = max(map(len, (own.mean, own.std, own.scale)))
    scale, mean, std = (n * count if len(n) == 1 else n for n in (own.scale, own.mean, own.std))
    means = tuple(m * s for m, s in zip(mean, scale))
    return replace(given, mean=means, deviation=tuple(d * s for d, s in zip(std, scale)))


def preparation(normalize: str, labels: Sequence[str] = ()) -> Preparation:
    """Of ``MEAN/DEVIATION``, with commas between channels; raises UsageError for what does not read."""
    if not normalize:
        return Preparation(labels=tuple(labels))
    try:
        mean, deviation = (tuple(float(n) for n in part.split(",")) for part in normalize.split("/"))
    except ValueError:
        mean, deviation = (), (0.0,)
    if not all(deviation):
        hint = "write --normalize 127/128, or one a channel: 124,116,104/58,57,57"
        raise UsageError(f"cannot read --normalize '{normalize}'", hint=hint)
    return Preparation(mean, deviation, tuple(labels))
