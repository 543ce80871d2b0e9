"""Pictures in bytes as inputs of networks (``--pre picture=...``): beside Pillow, and beside formulas of their own."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import onnx
import pytest
from chance import RANDOM
from needed import need_opencl
from onnx import TensorProto
from small_models import model, node, tensor_input, weights

import edgec
from edgec import pipeline
from edgec.errors import UsageError
from edgec.execute.executor import run_graph
from edgec.frontend.onnx.trainable import weights_of
from edgec.frontend.source import read
from edgec.media.filters import taps
from edgec.options import resolve
from edgec.pipeline.context import Context
from edgec.pipeline.preprocessing import with_preprocessing

Image = pytest.importorskip("PIL.Image", reason="pip install 'edgec[pictures]'")
FILTERS = ("bilinear", "bicubic", "lanczos", "nearest")
MEAN, STD = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])


def network(shape: list[int], opset: int = 17, element: int = TensorProto.FLOAT) -> onnx.ModelProto:
    """A network that gives its input as floats."""
    return model([node("Cast", ["x"], ["y"], to=1)], [tensor_input("x", shape, element)], opset=opset)


def given(proto: onnx.ModelProto, pre: str, picture: str, bytes_: np.ndarray) -> np.ndarray:
    """The input that a network gets of bytes."""
    graph = pipeline.import_(proto, Context(resolve({"pre": pre, "picture": picture})))
    assert graph.inputs[0].type.dtype == "u8"
    return run_graph(graph, {"picture": bytes_[None]})["y"]


def resized(values: np.ndarray, height: int, width: int, filter: str) -> np.ndarray:
    """Numbers [H, W, C] made so many, by Pillow, without rounding."""
    planes = [Image.fromarray(p.astype(np.float32), mode=None) for p in np.moveaxis(values, 2, 0)]
    found = [np.asarray(p.resize((width, height), Image.Resampling[filter.upper()])) for p in planes]
    return np.stack(found, axis=2).clip(0, 255)


def as_input(values: np.ndarray, layout: str) -> np.ndarray:
    return (values.transpose(2, 0, 1) if layout == "first" else values)[None]


SHAPES = {"first": lambda c, h, w: [1, c, h, w], "last": lambda c, h, w: [1, h, w, c]}
#: Height and width of the picture and of the input: odd, smaller, larger, the same.
SIZES = (((31, 41), (20, 17)), ((13, 9), (20, 17)), ((20, 17), (20, 17)), ((60, 17), (20, 17)))


@pytest.mark.parametrize(
    ("format", "layout", "fit"), [*product(("rgb8", "bgr8", "rgba8", "gray8"), SHAPES, ("", "all"))]
)
def test_pixels(format: str, layout: str, fit: str) -> None:
    """Every size, with a filter, a number of channels and a version of ONNX that are drawn."""
    for own, (height, width) in SIZES:
        filter, channels = FILTERS[RANDOM.integers(4)], int(RANDOM.choice([1, 3]))
        values = RANDOM.integers(0, 256, (*own, {"gray8": 1, "rgba8": 4}.get(format, 3)), np.uint8)
        colors = values[..., ::-1] if format == "bgr8" else values[..., :3]
        if fit:
            wanted = resized(colors, height, width, filter)
        else:
            scale = max(height / own[0], width / own[1])
            rows, columns = max(height, round(own[0] * scale)), max(width, round(own[1] * scale))
            top, left = round((rows - height) / 2), round((columns - width) / 2)
            wanted = resized(colors, rows, columns, filter)[top : top + height, left : left + width]
        if wanted.shape[2] == 3 and channels == 1:
            wanted = wanted @ np.array([[0.299], [0.587], [0.114]])
        wanted = np.broadcast_to(wanted, (height, width, channels))
        text = f"filter={filter},mean=0.4,std=0.2,layout={layout}" + (",fit=stretch" if fit else "")
        proto = network(SHAPES[layout](channels, height, width), int(RANDOM.choice([8, 9, 12, 17])))
        got = given(proto, f"picture={format}:{own[0]}x{own[1]}", text, values)
        np.testing.assert_allclose(got, as_input((wanted / 255 - 0.4) / 0.2, layout), atol=2e-4, err_msg=filter)


def test_padding_and_order() -> None:
    values = RANDOM.integers(0, 256, (30, 41, 3), np.uint8)
    wanted = np.broadcast_to([1.0, 2.0, 3.0], (20, 17, 3)).copy()
    wanted[4:16] = resized(values, 12, 17, "bilinear")  # 17 / 41 is the lesser scale
    text = "fit=pad,fill=1/2/3,order=bgr,scale=1,mean=5/6/7,std=2/3/4"
    got = given(network([1, 3, 20, 17]), "picture=rgb8:30x41", text, values)
    want = (wanted[..., ::-1] - [5, 6, 7]) / [2, 3, 4]
    np.testing.assert_allclose(got, as_input(want, "first"), atol=1e-3)


@pytest.mark.parametrize("layout", SHAPES)
def test_bytes_stay_bytes(layout: str) -> None:
    """A network of bytes: within a level of Pillow, which rounds twice."""
    values = RANDOM.integers(0, 256, (33, 47, 3), np.uint8)
    wanted = np.asarray(Image.fromarray(values).resize((17, 20), Image.Resampling.BILINEAR))
    proto = network(SHAPES[layout](3, 20, 17), element=TensorProto.UINT8)
    got = given(proto, "picture=rgb8:33x47", "fit=stretch", values)
    assert np.abs(got - as_input(wanted.astype(int), layout)).max() <= 1


#: Brightness, blue and red to red, green and blue, as the standards print them, and the range of brightness.
COLORS = {
    ("bt601", "limited"): (1.164384, [0, -0.391762, 2.017232], [1.596027, -0.812968, 0], 16),
    ("bt601", "full"): (1.0, [0, -0.344136, 1.772], [1.402, -0.714136, 0], 0),
    ("bt709", "limited"): (1.164384, [0, -0.213249, 2.112402], [1.792741, -0.532909, 0], 16),
    ("bt709", "full"): (1.0, [0, -0.187324, 1.8556], [1.5748, -0.468124, 0], 0),
}


@pytest.mark.parametrize(("matrix", "range_"), COLORS)
@pytest.mark.parametrize("channels", [1, 3])
def test_nv12(matrix: str, range_: str, channels: int) -> None:
    height, width = 24, 36
    planes = RANDOM.integers(0, 256, (height * 3 // 2, width), np.uint8)
    gain, of_blue, of_red, low = COLORS[matrix, range_]
    y = resized(planes[:height, :, None], 15, 20, "bilinear")
    c = resized(planes[height:].reshape(height // 2, width // 2, 2), 15, 20, "bilinear") - 128
    wanted = ((y - low) * gain + c[..., :1] * of_blue + c[..., 1:] * of_red).clip(0, 255)
    wanted = wanted if channels == 3 else ((y - low) * gain).clip(0, 255)
    pre = f"picture=nv12:{height}x{width},matrix={matrix},range={range_}"
    got = given(network([1, channels, 15, 20]), pre, "fit=stretch,scale=1", planes)
    np.testing.assert_allclose(got, as_input(wanted, "first"), atol=2e-3)


def convolution(layout: str, height: int = 20, width: int = 17, shape: bool = True) -> onnx.ModelProto:
    """A network of one convolution over a picture."""
    sides = SHAPES[layout](3, height, width)
    port = tensor_input("x", sides if shape else ["batch", *sides[1:]])
    nodes = [node("Transpose", ["x"], ["t"], perm=[0, 3, 1, 2])] if layout == "last" else []
    nodes.append(node("Conv", ["t" if nodes else "x", "w"], ["y"], strides=[2, 2], pads=[1, 1, 1, 1]))
    return model(nodes, [port], initializers=[weights("w", RANDOM.standard_normal((8, 3, 3, 3)).astype(np.float32))])


IMAGENET = "mean=0.485/0.456/0.406,std=0.229/0.224/0.225"
#: Options with which the code is compiled and run, one drawn picture each.
OPTIONS: tuple[dict[str, object], ...] = (
    {}, {"threads": 2}, {"quantize": "int8", "calibrate": "random"}, {"quantize": "int8-dynamic"}, {"ram": "64K"},
    {"fuse": "none"}, {"numeric": "exact"}, {"device": "arm64", "link": "qemu"}, {"device": "riscv64", "link": "qemu"},
    {"device": "host_pocl"}, {"device": "cuda_sm89", "compiler": "emulated"},
    {"device": "cuda_sm89", "compiler": "emulated", "precision": "fp16"},
)  # fmt: skip


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_compiled_code(options: dict[str, object]) -> None:
    """Beside onnxruntime, for a format and a layout that are drawn; inputs are bytes."""
    if options.get("device") == "host_pocl":
        need_opencl()
    layout = str(RANDOM.choice(list(SHAPES)))
    format = str(RANDOM.choice(["rgb8", "bgra8", "nv12"]))
    checked = edgec.check(
        convolution(layout, shape=bool(RANDOM.integers(2))), pre=f"picture={format}:30x46", picture=IMAGENET, samples=1,
        **options,
    )  # fmt: skip
    assert checked.ok and checked.threads, str(checked)
    assert checked.reference.startswith("onnxruntime")


def test_a_call_takes_bytes() -> None:
    values = RANDOM.integers(0, 256, (30, 41, 3), np.uint8)
    proto = convolution("first")
    fused = edgec.build(proto, pre="picture=rgb8:30x41", picture=f"fit=stretch,{IMAGENET}")
    alone = edgec.build(proto)
    want = (np.asarray(Image.fromarray(values).resize((17, 20), Image.Resampling.BILINEAR)) / 255 - MEAN) / STD
    np.testing.assert_allclose(fused(values[None]), alone(as_input(want, "first").astype(np.float32)), atol=0.3)


def test_a_build_is_found_again(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the compile cache, and from its folder; not where the preprocessing is another."""
    onnx.save(convolution("first"), f"{tmp_path}/net.onnx")
    settings = {"pre": "picture=rgb8:30x41", "picture": IMAGENET, "shapes": {"x": [1, 3, 20, 17]}}
    path = f"{tmp_path}/net.onnx"
    edgec.build(path, f"{tmp_path}/net", **settings)
    assert edgec.check(f"{tmp_path}/net", samples=1).ok
    for _ in range(2):
        assert edgec.check(path, samples=1, **settings).ok
    with pytest.raises(UsageError, match="another model"):
        edgec.check(f"{tmp_path}/net", samples=1, pre="picture=rgb8:30x40", picture=IMAGENET)


#: What is refused: the option, the shape of the input, and what is said.
REFUSED = (
    ("picture=rgb9:4x4", [1, 3, 4, 4], "did you mean 'rgb8'"),
    ("picture=rgb8:4", [1, 3, 4, 4], "it is a format with height and width"),
    ("picture=rgb8:0x4", [1, 3, 4, 4], "from 1 to 16384"),
    ("picture=nv12:5x4", [1, 3, 4, 4], "height and width of nv12 are even"),
    ("picture=rgb8:4x4,range=full", [1, 3, 4, 4], "range and matrix are of nv12"),
    ("picture=rgb8:4x4,input=z", [1, 3, 4, 4], "there is no input 'z'"),
    ("photo=rgb8:4x4", [1, 3, 4, 4], "is no preprocessing"),
    ("picture=rgb8:4x4", [1, 3, 4], r"input 'x' is f32\[1, 3, 4\]"),
    ("picture=rgb8:4x4", [1, 5, 4, 5], r"input 'x' is f32\[1, 5, 4, 5\]"),
    ("picture=rgb8:4x4", [1, 3, 4, 3], "layout=first or layout=last"),
    ("picture=rgb8:4x4", [2, 3, 4, 4], "input 'x' takes 2 pictures"),
    ("picture=rgb8:4x4", [1, 4, 9, 9], "the input has 4 channels"),
    ("picture=rgb8:4x4", ["n", 3, "h", "w"], "input 'x' has open dimensions"),
)


@pytest.mark.parametrize(("pre", "shape", "told"), REFUSED)
def test_refused(pre: str, shape: list[int], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        pipeline.import_(network(shape), Context(resolve({"pre": pre})))


def test_old_models_and_other_formats_are_refused() -> None:
    with pytest.raises(UsageError, match="operator set 7"):
        pipeline.import_(network([1, 3, 4, 4], opset=7), Context(resolve({"pre": "picture=rgb8:4x4"})))


def test_preprocessing_is_not_trained() -> None:
    settings = {"pre": "picture=rgb8:30x46", "picture": IMAGENET}
    parsed, _ = with_preprocessing(read(convolution("first")), resolve(settings))
    assert [(w.name, w.node, w.layer) for w in weights_of(parsed)] == [("w", "y", 0)]


def test_a_saved_stage_takes_no_preprocessing(tmp_path: Path) -> None:
    edgec.build(convolution("first"), save_stages=tmp_path, compile=False)
    (stage,) = tmp_path.glob("1_*.txt")
    with pytest.raises(UsageError, match="not of a saved stage"):
        edgec.build(stage, start="simplify", pre="picture=rgb8:30x46", compile=False)


@pytest.mark.parametrize(("before", "after"), [(2, 7), (2, 43), (51, 34)])
def test_nearest_pixels_are_pillows_where_two_are_equally_near(before: int, after: int) -> None:
    row = Image.fromarray(np.arange(before, dtype=np.float32)[None])
    want = np.asarray(row.resize((after, 1), Image.Resampling.NEAREST))[0]
    places = taps(before, after, "nearest")[0][:, 0]
    np.testing.assert_array_equal(places, want)
    np.testing.assert_array_equal(taps(before, after, "nearest", 2, 3)[0][:, 0], want[2:5])


def test_a_layer_has_its_own_name() -> None:
    """Not that of the arithmetic before it, which became part of it."""
    settings = {"pre": "picture=rgb8:20x17", "picture": IMAGENET, "quantize": "int8", "calibrate": "random"}
    built = edgec.build(convolution("first"), compile=False, **settings)
    assert [layer.name for layer in built.stages.compressed.report.layers] == ["y"]


def test_dimensions_are_those_that_are_given() -> None:
    values = RANDOM.integers(0, 256, (9, 7, 3), np.uint8)
    proto = network(["n", 3, "h", None])
    for dims in ({"h": 9, "x.3": 7}, {"n": 1, "h": 9, "x.3": 7}):
        settings = {"pre": "picture=rgb8:9x7", "picture": "layout=first", "dims": dims}
        graph = pipeline.import_(proto, Context(resolve(settings)))
        got = run_graph(graph, {"picture": values[None]})["y"]
        np.testing.assert_allclose(got, as_input(values / 255, "first"), atol=1e-5)
    for dims, told in (({"h": (4, 9), "x.3": 7}, "'h' of input 'x' is from 4 to 9"), ({"h": 9}, "open dimensions"),
                       ({"n": 2, "h": 9, "x.3": 7}, "takes 2 pictures")):  # fmt: skip
        with pytest.raises(UsageError, match=told):
            pipeline.import_(proto, Context(resolve({**settings, "dims": dims})))
