"""The option --pre: the bytes or samples that a network is to take, and the work in front of its input."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Union

from edgec.errors import UsageError
from edgec.media import words
from edgec.text import one_of, printable

OPTION = "--pre"
#: Bytes of a pixel in each format of pictures; nv12 has a plane of brightness and one of colors, half as high and wide.
FORMATS = {"rgb8": 3, "bgr8": 3, "rgba8": 4, "bgra8": 4, "gray8": 1, "nv12": 1}
#: The most pixels in a row or column, and the most samples of a sound.
_MOST, _MOST_SAMPLES = 1 << 14, 1 << 20
#: The smallest number of 32 bits with all its digits, a little rounded.
_SMALLEST = 1.2e-38
#: Shares of red and blue in brightness.
MATRICES = {"bt601": (0.299, 0.114), "bt709": (0.2126, 0.0722)}


@dataclass(frozen=True)
class PictureBytes:
    """Pictures as a camera or decoder gives them: ``height`` and ``width`` in pixels.

    ``range`` and ``matrix`` say what nv12 means: brightness from 16 to 235 (limited) or 0 to 255 (full). ``input`` is
    the name of the network's input, where there are several.
    """

    format: str
    height: int
    width: int
    range: str = "limited"
    matrix: str = "bt601"
    input: str | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the new input: [1, H, W, bytes of a pixel], or [1, H * 3 / 2, W] of nv12."""
        if self.format == "nv12":
            return (1, self.height * 3 // 2, self.width)
        return (1, self.height, self.width, FORMATS[self.format])


@dataclass(frozen=True)
class SoundSamples:
    """Sounds of so many ``samples`` at ``rate`` Hz, and the features that they become; names are those of librosa.

    ``kind`` is logmel or mfcc. ``type`` is that of samples: f32 from -1 to 1, or i16. Frames are ``n_fft`` samples long
    under a window of ``win_length``, ``hop_length`` apart; if ``center``, their middles begin at the first sample, and
    zeros surround the sound. ``log`` is of at least ``amin``, in decibels (db, at most ``top_db`` below the loudest
    where that is given), or ln or log10.
    """

    kind: str
    samples: int
    rate: int
    type: str = "f32"
    n_fft: int = 400
    hop_length: int = 160
    win_length: int | None = None
    window: str = "hann"
    center: bool = True
    power: int = 2
    n_mels: int = 40
    fmin: float = 0.0
    fmax: float | None = None
    mel: str = "slaney"
    norm: str = "slaney"
    log: str = "db"
    amin: float = 1e-10
    top_db: float | None = None
    n_mfcc: int = 13
    input: str | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the new input."""
        return (1, self.samples)

    @property
    def frames(self) -> int:
        return (self.samples + (self.n_fft // 2 * 2 if self.center else 0) - self.n_fft) // self.hop_length + 1

    @property
    def bands(self) -> int:
        """Numbers of a frame."""
        return self.n_mels if self.kind == "logmel" else self.n_mfcc

    @property
    def highest(self) -> float:
        """The upper end of the highest band, in Hz."""
        return self.rate / 2 if self.fmax is None else self.fmax


#: What stands in front of a network.
Before = Union[PictureBytes, SoundSamples]


def _picture(text: str) -> tuple[str, int, int]:
    """(format, height, width) of FORMAT:HEIGHTxWIDTH. Raises ValueError for others."""
    found = re.fullmatch(r"([a-z0-9]+):([0-9]{1,6})x([0-9]{1,6})", text)
    if found is None:
        raise ValueError("it is a format with height and width, as rgb8:480x640")
    name, height, width = found[1], int(found[2]), int(found[3])
    if name not in FORMATS:
        raise ValueError(one_of(name, FORMATS))
    if not (1 <= height <= _MOST and 1 <= width <= _MOST):
        raise ValueError(f"height and width are from 1 to {_MOST}")
    if name == "nv12" and (height % 2 or width % 2):
        raise ValueError("height and width of nv12 are even")
    return name, height, width


def _sound(text: str) -> tuple[str, int]:
    """(kind, samples) of KIND:SAMPLES. Raises ValueError for others."""
    kind, _, count = text.partition(":")
    if kind not in ("logmel", "mfcc"):
        raise ValueError(one_of(kind, ("logmel", "mfcc")))
    return kind, words.whole(_MOST_SAMPLES)(count)


def _name(text: str) -> str:
    if not text:
        raise ValueError("it is the name of an input")
    return text


def _number(read: Callable[[str], tuple[float, ...]]) -> Callable[[str], float]:
    """A reader of one number."""

    def one(text: str) -> float:
        found = read(text)
        if len(found) != 1:
            raise ValueError("it is one number")
        return found[0]

    return one


def _least(text: str) -> float:
    """A number that floats of 32 bits have with all digits."""
    found = _number(words.positive)(text)
    if found < _SMALLEST:
        raise ValueError(f"it is at least {_SMALLEST:g}")
    return found


_OF_PICTURES: Mapping[str, Callable[[str], Any]] = {
    "picture": _picture,
    "range": words.choice("limited", "full"),
    "matrix": words.choice(*MATRICES),
    "input": _name,
}
_LENGTH = words.whole(1 << 14)
_OF_SOUNDS: Mapping[str, Callable[[str], Any]] = {
    "audio": _sound,
    "rate": words.whole(1_000_000),
    "type": words.choice("f32", "i16"),
    "n_fft": _LENGTH,
    "hop_length": _LENGTH,
    "win_length": _LENGTH,
    "window": words.choice("hann", "hamming", "ones"),
    "center": lambda text: words.choice("yes", "no")(text) == "yes",
    "power": words.whole(2),
    "n_mels": words.whole(1024),
    "fmin": _number(words.numbers),
    "fmax": _number(words.positive),
    "mel": words.choice("slaney", "htk"),
    "norm": words.choice("slaney", "none"),
    "log": words.choice("db", "ln", "log10"),
    "amin": _least,
    "top_db": _number(words.positive),
    "n_mfcc": words.whole(1024),
    "input": _name,
}
_HINT = "write --pre picture=rgb8:480x640, or --pre audio=logmel:16000,rate=16000"


def asked(text: str) -> Before:
    """The preprocessing that a text says; raises UsageError for another one."""
    first = text.partition("=")[0].strip()
    if first == "audio":
        return _of_sound(words.parse(text, _OF_SOUNDS, OPTION))
    if first != "picture":
        raise UsageError(f"'{printable(text)}' is no preprocessing", hint=_HINT, where=OPTION)
    found = words.parse(text, _OF_PICTURES, OPTION)
    name, height, width = found.pop("picture")
    if name != "nv12" and {"range", "matrix"} & set(found):
        raise UsageError(f"range and matrix are of nv12, not of {name}", hint="leave them out", where=OPTION)
    return PictureBytes(name, height, width, **found)


def _of_sound(found: dict[str, Any]) -> SoundSamples:
    """Samples that can be divided into frames, and bands that lie within their spectrum."""
    if "rate" not in found:
        raise UsageError("the rate of the sounds is not said", hint="add rate=16000", where=OPTION)
    kind, count = found.pop("audio")
    if kind == "logmel" and "n_mfcc" in found:
        raise UsageError("n_mfcc is of mfcc, not of logmel", hint="leave it out", where=OPTION)
    if "top_db" in found and found.get("log", "db") != "db":
        raise UsageError("top_db is of log=db", hint="leave it out", where=OPTION)
    made = SoundSamples(kind, count, **found)
    if (made.win_length or 1) > made.n_fft:
        raise UsageError("win_length is longer than n_fft", hint=f"give {made.n_fft} or less", where=OPTION)
    if made.frames < 1:
        told = f"{count} samples have no frame of {made.n_fft}"
        raise UsageError(told, hint="give more samples, or a smaller n_fft", where=OPTION)
    if not 0 <= made.fmin < made.highest <= made.rate / 2:
        told = f"bands from {made.fmin:g} to {made.highest:g} Hz"
        raise UsageError(told, hint=f"fmin and fmax rise, from 0 to {made.rate / 2:g}", where=OPTION)
    if kind == "mfcc" and made.n_mfcc > made.n_mels:
        raise UsageError("n_mfcc is more than n_mels", hint=f"give {made.n_mels} or less", where=OPTION)
    return made
