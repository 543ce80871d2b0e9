"""Sounds as inputs of a network: WAV files of PCM, one channel."""

from __future__ import annotations

import wave
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from edgec.errors import UsageError
from edgec.media import words
from edgec.untrusted import reason, regular

if TYPE_CHECKING:  # numpy is imported by what reads files: the command line starts without it
    import numpy as np

ENDINGS = (".wav",)
OPTION = "--sound"
#: Frames of a file that are read at most.
_MOST = 1 << 26
_READERS = {"rate": words.whole(1_000_000), "part": words.choice("first", "middle")}


@dataclass(frozen=True)
class Preparation:
    """The way from a sound to an input: its ``rate`` in Hz, and the ``part`` of a longer one; shorter ones end in 0."""

    rate: int
    part: str = "first"

    @staticmethod
    def parse(text: str) -> Preparation:
        """The preparation that a text says; raises UsageError for another one."""
        found = words.parse(text, _READERS, OPTION)
        if "rate" not in found:
            raise UsageError("the rate of the sounds is not said", hint="--sound rate=16000", where=OPTION)
        return Preparation(**found)


def read(path: Path, count: int, wanted: Preparation, whole: bool) -> np.ndarray:
    """So many samples [count], f32 from -1 to 1 or, if ``whole``, i16: the mean of all channels.

    Raises UsageError for what is no WAV file of PCM, and for one of another rate.
    """
    import numpy as np

    try:
        with wave.open(str(regular(path)), "rb") as file:
            channels, width, rate, frames = file.getparams()[:4]
            if rate == wanted.rate and frames <= _MOST:
                data = file.readframes(frames)
    except Exception as error:  # a damaged file raises whatever its reader does
        told = f"this is no sound that can be read: {reason(error)}"
        raise UsageError(told, hint="WAV files of PCM are read", where=str(path)) from None
    if rate != wanted.rate:
        told = f"its rate is {rate} Hz, and {wanted.rate} is asked for"
        raise UsageError(told, hint=f"sox IN.wav -r {wanted.rate} OUT.wav makes another one", where=str(path))
    if frames > _MOST:
        raise UsageError(f"it has {frames} samples, and {_MOST:,} are the most", where=str(path))
    values = _values(data, width, path)
    values = values[: len(values) // channels * channels].reshape(-1, channels).mean(axis=1)
    if wanted.part == "middle" and len(values) > count:
        values = values[(len(values) - count) // 2 :]
    values = np.pad(values[:count], (0, max(count - len(values), 0)))
    return np.rint(values * 32768).clip(-32768, 32767).astype(np.int16) if whole else values.astype(np.float32)


def _values(data: bytes, width: int, path: Path) -> np.ndarray:
    """PCM of 1 to 4 bytes as f64 from -1 to 1."""
    import numpy as np

    if width == 1:
        return (np.frombuffer(data, np.uint8) - 128.0) / 128.0
    if width not in (2, 3, 4):
        raise UsageError(f"its samples have {width} bytes", hint="WAV files of 8 to 32 bits are read", where=str(path))
    rows = np.frombuffer(data[: len(data) // width * width], np.uint8).reshape(-1, width)
    wide = np.zeros((len(rows), 4), np.uint8)
    wide[:, 4 - width :] = rows
    return wide.reshape(-1).view("<i4") / 2.0**31
