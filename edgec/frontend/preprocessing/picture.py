"""Pictures in bytes, brought to the size, color and scale of a network's input by ONNX operators.

A sum over pixels and a change of colors are both linear, so pictures are resized before their colors are changed: nv12
has its two planes resized alone. Nothing is rounded in between.
"""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from edgec.errors import UsageError
from edgec.frontend.preprocessing.nodes import Nodes
from edgec.media.before import FORMATS, MATRICES, OPTION, PictureBytes
from edgec.media.filters import taps
from edgec.media.pictures import Frame, Place, Preparation, check, placed

_FLOAT = TensorProto.FLOAT


def picture(nodes: Nodes, x: str, given: PictureBytes, frame: Frame, wanted: Preparation, element: int) -> str:
    """The network's input, of the ONNX type ``element``, of the bytes ``x``.

    Raises UsageError where the preparation does not fit the input, or nothing of the picture would be left.
    """
    check(frame, wanted)
    if frame.channels not in (1, 3):
        told = f"the input has {frame.channels} channels"
        raise UsageError(told, hint="preprocessing is for networks of 1 or 3 channels", where=OPTION)
    place = placed(given.width, given.height, frame, wanted)
    if given.format == "nv12":
        y = _of_planes(nodes, x, given, frame, place, wanted.filter)
    else:
        y = _of_pixels(nodes, x, given, frame, place, wanted.filter)
    y = _surrounded(nodes, y, frame, place, wanted)
    if wanted.order == "bgr":
        y = nodes.picked(y, 3, (2, 1, 0))
    if not frame.is_bytes:
        scale, mean, std = (
            np.broadcast_to(np.asarray(n, np.float64), frame.channels) for n in (wanted.scale, wanted.mean, wanted.std)
        )
        y = nodes.scaled(nodes.less(y, mean * scale), 1 / (scale * std))
    if frame.is_first:
        y = nodes.apply("Transpose", y, perm=[0, 3, 1, 2])
    if frame.is_bytes:
        y = nodes.apply("Floor", nodes.apply("Add", y, nodes.constant(0.5)))
    return y if element == _FLOAT else nodes.cast(y, element)


def _of_pixels(nodes: Nodes, x: str, given: PictureBytes, frame: Frame, place: Place, filter: str) -> str:
    """Red, green and blue, or gray: f32 [1, h, w, channels] from 0 to 255."""
    channels = FORMATS[given.format]
    if channels == 4:
        x, channels = nodes.rows(x, 3, 0, 3), 3
    y = _resized(nodes, nodes.cast(x, _FLOAT), (given.height, given.width, channels), place, filter)
    is_blue_first = given.format.startswith("bgr")
    if channels == 3 and frame.channels == 1:
        shares = _shares("bt601")
        return nodes.plus(
            *(
                nodes.scaled(nodes.rows(y, 3, k, k + 1), np.asarray(share))
                for k, share in enumerate(shares[::-1] if is_blue_first else shares)
            )
        )
    if channels == 1 and frame.channels == 3:
        return nodes.joined(3, y, y, y)
    return nodes.picked(y, 3, (2, 1, 0)) if is_blue_first else y


def _of_planes(nodes: Nodes, x: str, given: PictureBytes, frame: Frame, place: Place, filter: str) -> str:
    """The same of brightness and two differences of color."""
    height, width = given.height, given.width
    low, bright, colored = (16, 219, 224) if given.range == "limited" else (0, 255, 255)
    luma = nodes.reshaped(nodes.rows(x, 1, 0, height), 1, height, width, 1)
    y = _resized(nodes, nodes.cast(luma, _FLOAT), (height, width, 1), place, filter)
    y = nodes.scaled(nodes.less(y, np.asarray(low)), np.asarray(255 / bright))
    if frame.channels == 1:
        return nodes.within(y, 0, 255)
    chroma = nodes.reshaped(nodes.rows(x, 1, height, height * 3 // 2), 1, height // 2, width // 2, 2)
    c = _resized(nodes, nodes.cast(chroma, _FLOAT), (height // 2, width // 2, 2), place, filter)
    c = nodes.scaled(nodes.less(c, np.asarray(128)), np.asarray(255 / colored))
    red, green, blue = _shares(given.matrix)
    of_blue = np.asarray([0, -2 * (1 - blue) * blue / green, 2 * (1 - blue)])
    of_red = np.asarray([2 * (1 - red), -2 * (1 - red) * red / green, 0])
    colors = (nodes.scaled(nodes.rows(c, 3, k, k + 1), by) for k, by in enumerate((of_blue, of_red)))
    return nodes.within(nodes.plus(y, *colors), 0, 255)


def _shares(matrix: str) -> tuple[float, float, float]:
    """The shares of red, green and blue in brightness."""
    red, blue = MATRICES[matrix]
    return red, 1 - red - blue, blue


def _resized(nodes: Nodes, x: str, size: tuple[int, int, int], place: Place, filter: str) -> str:
    """The part [1, h, w, C] of a resized picture [1, H, W, C] that the input shows; rows are summed first."""
    height, width, channels = size
    (top, bottom), (left, right) = place.rows, place.columns
    y, count = x, bottom - top
    if height != place.height:  # pixels of a row lie next to each other, whatever their channel
        flat = nodes.reshaped(x, 1, height, width * channels)
        summed = nodes.weighted(flat, 1, 3, *taps(height, place.height, filter, top, count))
        nodes.kept += [summed] if width != place.width else []
        y = nodes.reshaped(summed, 1, count, width, channels)
    elif (top, bottom) != (0, height):
        y = nodes.rows(y, 1, top, bottom)
    if width != place.width:
        y = nodes.weighted(y, 2, 4, *taps(width, place.width, filter, left, right - left))
    elif (left, right) != (0, width):
        y = nodes.rows(y, 2, left, right)
    can_exceed = filter in ("bicubic", "lanczos") and (height, width) != (place.height, place.width)
    return nodes.within(y, 0, 255) if can_exceed else y


def _surrounded(nodes: Nodes, y: str, frame: Frame, place: Place, wanted: Preparation) -> str:
    """The picture with ``fill`` around it, where it does not cover the input."""
    fill = np.broadcast_to(np.rint(np.asarray(wanted.fill, np.float32)), frame.channels)
    above, left = max(-place.top, 0), max(-place.left, 0)
    shown = [end - start for start, end in (place.rows, place.columns)]
    for axis, before, behind in (
        (1, above, frame.height - shown[0] - above),
        (2, left, frame.width - shown[1] - left),
    ):
        shape = [1, frame.height if axis == 2 else shown[0], shown[1], frame.channels]
        parts = [y]
        for count, at in ((before, 0), (behind, len(parts) + 1)):
            if count:
                shape[axis] = count
                parts.insert(at, nodes.constant(np.broadcast_to(fill, shape)))
        y = nodes.joined(axis, *parts)
    return y
