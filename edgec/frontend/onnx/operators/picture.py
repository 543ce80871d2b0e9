"""ImageDecoder: pictures in a model are decoded at build time, others are inputs that are decoded already."""

from __future__ import annotations

import io
import warnings

import numpy as np

from edgec.errors import UsageError
from edgec.frontend.onnx.call import Call, onnx
from edgec.frontend.values import Value, constant
from edgec.media.pictures import in_bytes
from edgec.text import printable

#: The formats that the standard names, as Pillow calls them.
_FORMATS = ("BMP", "JPEG", "JPEG2000", "PNG", "PPM", "TIFF", "WEBP")
#: More pixels than a picture in a model has.
_MOST_PIXELS = 2**26


@onnx("ImageDecoder")
def image_decoder(call: Call) -> Value:
    """Pixels [height, width, channels] (u8): of a file's bytes [n], or the operand, where it is pixels already."""
    order = call.attribute("pixel_format", "RGB")
    if order not in ("RGB", "BGR", "Grayscale"):
        raise call.error(f"pixel_format '{order}' is none of RGB, BGR and Grayscale")
    x, channels = call[0], 1 if order == "Grayscale" else 3
    if x.rank == 3:
        if x.shape[2] != channels or x.dtype != "u8":
            raise call.error(f"pixels {x.type}", f"they are bytes [height, width, {channels}]")
        call.warn(f"its input is the decoded picture, as bytes [height, width, {channels}] in the order {order}")
        return x
    if not x.is_const:
        hint = f"let the decoded picture be the input: --shape NAME=HEIGHT,WIDTH,{channels}"
        raise call.unknown(0, "the bytes of a picture must be known at build time", hint)
    return constant(_decoded(call, call.constant(0).tobytes(), order))


def _decoded(call: Call, content: bytes, order: str) -> np.ndarray:
    try:
        from PIL import Image
    except ImportError:
        raise UsageError(
            "pictures are read by Pillow", hint="pip install 'edgec[pictures]'", where=call.label
        ) from None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the size, which is looked at here
            with Image.open(io.BytesIO(content), formats=_FORMATS) as image:
                if image.width * image.height <= _MOST_PIXELS:
                    pixels = np.array(
                        in_bytes(image, image.format).convert("L" if order == "Grayscale" else "RGB"), np.uint8
                    )
                    if order == "Grayscale":
                        return pixels[..., np.newaxis]
                    return pixels[..., ::-1] if order == "BGR" else pixels
                told = f"it has {image.width} x {image.height} pixels, and {_MOST_PIXELS:,} are the most"
    except Exception as error:  # a damaged file raises whatever its decoder does
        told = printable(str(error), 200)
    raise call.error(f"the picture cannot be decoded: {told}", "replace it in the model")
