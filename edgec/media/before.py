"""The option --pre: the bytes or samples that a network is to take, and the work in front of its input."""

from __future__ import annotations

import re
from dataclasses import dataclass

from edgec.errors import UsageError
from edgec.media import words
from edgec.text import one_of, printable

OPTION = "--pre"
#: Bytes of a pixel in each format of pictures; nv12 has a plane of brightness and one of colors, half as high and wide.
FORMATS = {"rgb8": 3, "bgr8": 3, "rgba8": 4, "bgra8": 4, "gray8": 1, "nv12": 1}
#: The most pixels in a row or column.
_MOST = 1 << 14
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


def _name(text: str) -> str:
    if not text:
        raise ValueError("it is the name of an input")
    return text


_OF_PICTURES = {
    "picture": _picture,
    "range": words.choice("limited", "full"),
    "matrix": words.choice(*MATRICES),
    "input": _name,
}
_EXAMPLE = "write --pre picture=rgb8:480x640"


def asked(text: str) -> PictureBytes:
    """The preprocessing that a text says; raises UsageError for another one."""
    first = text.partition("=")[0].strip()
    if first != "picture":
        raise UsageError(f"'{printable(text)}' is no preprocessing", hint=_EXAMPLE, where=OPTION)
    found = words.parse(text, _OF_PICTURES, OPTION)
    name, height, width = found.pop("picture")
    if name != "nv12" and {"range", "matrix"} & set(found):
        raise UsageError(f"range and matrix are of nv12, not of {name}", hint="leave them out", where=OPTION)
    return PictureBytes(name, height, width, **found)
