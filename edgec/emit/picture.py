"""Networks that look at a picture or listen to a word: what apps have to know to show them one."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from edgec.errors import UsageError

_FLOAT, _BYTES = "f32", ("u8", "i8")


@dataclass(frozen=True)
class Preparation:
    """What the file of a model does not say: the input is (pixel - mean) / deviation, a number for all or each channel.

    ``labels`` are the names of the classes, in order.
    """

    mean: tuple[float, ...] = ()
    deviation: tuple[float, ...] = ()
    labels: tuple[str, ...] = ()


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


def picture_of(inputs: Sequence[Any], outputs: Sequence[Any], given: Preparation) -> Picture | None:
    """How the network takes a picture; None where it takes something else.

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
    """Whether the one input is MLPerf Tiny's: 10 cepstral coefficients of 49 frames."""
    if len(inputs) != 1 or not outputs or any(p.is_open for p in (*inputs, *outputs)):
        return False
    return tuple(n for n in inputs[0].shape if n != 1) in ((49, 10), (490,)) and inputs[0].dtype in (_FLOAT, *_BYTES)


def steps(name: str, metadata: Mapping[str, str]) -> tuple[float, int] | None:
    """Scale and zero of a quantized input or output, where the model tells one of each."""
    try:
        scale, zero = json.loads(metadata.get(f"quantization {name}", ""))
        return float(scale), int(zero)
    except (ValueError, TypeError):
        return None


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
