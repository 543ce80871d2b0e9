"""ImageDecoder: pictures of the model are decoded at build time, and an input that is one becomes its pixels."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from edgec.errors import ModelError
from edgec.frontend.onnx import ModelWarning, UnknownValue, import_model
from edgec.ir import evaluate

Image = pytest.importorskip("PIL.Image")


def network(order: str, held: bytes | None = None) -> Any:
    inputs = [] if held is not None else [helper.make_tensor_value_info("x", TensorProto.UINT8, [None])]
    tensors = [helper.make_tensor("x", TensorProto.UINT8, [len(held)], held, raw=True)] if held is not None else []
    made = helper.make_model(
        helper.make_graph(
            [helper.make_node("ImageDecoder", ["x"], ["y"], pixel_format=order)], "net", inputs,
            [helper.make_tensor_value_info("y", TensorProto.UINT8, [None, None, None])], tensors,
        ),
        opset_imports=[helper.make_opsetid("", 20)],
    )  # fmt: skip
    made.ir_version = 9
    return made


PIXELS = np.random.default_rng(7).integers(0, 256, (5, 7, 3)).astype(np.uint8)


def png(pixels: np.ndarray) -> bytes:
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


@pytest.mark.parametrize("order", ["RGB", "BGR"])
def test_pictures_of_the_model(order: str) -> None:
    found = evaluate.run(import_model(network(order, png(PIXELS))), {})["y"]
    assert np.array_equal(found, PIXELS if order == "RGB" else PIXELS[..., ::-1])


def test_gray_of_16_bits_keeps_its_levels() -> None:
    values = np.arange(0, 1 << 16, 1500, dtype=np.uint16).reshape(4, 11)
    found = evaluate.run(import_model(network("Grayscale", png(values))), {})["y"]
    assert np.array_equal(found[..., 0], values >> 8)


def test_pictures_that_are_inputs() -> None:
    with pytest.warns(ModelWarning, match="decoded picture"):
        graph = import_model(network("RGB"), {"x": (5, 7, 3)})
    assert np.array_equal(evaluate.run(graph, {"x": PIXELS})["y"], PIXELS)
    with pytest.raises(UnknownValue, match="input 'x'") as error:
        import_model(network("Grayscale"), {"x": (100,)})
    assert "--shape NAME=HEIGHT,WIDTH,1" in str(error.value.hint)
    with pytest.raises(ModelError, match="pixels"):
        import_model(network("Grayscale"), {"x": (5, 7, 3)})


def test_damaged_and_unknown_pictures() -> None:
    for content in (png(PIXELS)[:40], b"no picture", b""):
        with pytest.raises(ModelError, match="cannot be decoded"):
            import_model(network("RGB", content))
    with pytest.raises(ModelError, match="pixel_format"):
        import_model(network("HSV", png(PIXELS)))
