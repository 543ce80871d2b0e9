"""One way from pictures to inputs (``--picture``): calibration, checks, scores, apps and edgec.toml take the same."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from chance import RANDOM
from small_models import model, node, tensor_input, weights

import edgec
from edgec.check.metrics import class_axis
from edgec.cli.main import main
from edgec.compress.calibrate import digest, labels, samples
from edgec.emit.picture import AS_IS, Preparation, by_way
from edgec.errors import UsageError
from edgec.media.before import PictureBytes
from edgec.media.camera import nv12
from edgec.media.pictures import Frame, in_bytes, read
from edgec.media.pictures import Preparation as Way
from edgec.options import resolve
from edgec.untrusted import read_arrays

Image = pytest.importorskip("PIL.Image", reason="pip install 'edgec[pictures]'")
WORDS = "fit=stretch,mean=0.5,std=0.25/0.5/0.25"


def classifier() -> onnx.ModelProto:
    """The brightest channel of a picture [1, 3, 8, 6] whose edges are seen too."""
    kernel = RANDOM.standard_normal((3, 3, 3, 3)).astype(np.float32) / 40
    kernel[range(3), range(3), 1, 1] += 1
    nodes = [node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]), node("GlobalAveragePool", ["c"], ["p"]),
             node("Flatten", ["p"], ["y"])]  # fmt: skip
    return model(nodes, [tensor_input("x", [1, 3, 8, 6])], initializers=[weights("w", kernel)])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Pictures of three classes, each brightest in the channel of its number."""
    for label in range(3):
        place = tmp_path / "pictures" / f"{label}"
        place.mkdir(parents=True)
        for k in range(4):
            values = RANDOM.integers(0, 100, (16, 12, 3), np.uint8)
            values[..., label] += 120
            Image.fromarray(values).save(place / f"{k}.png")
    return tmp_path / "pictures"


def wanted(folder: Path) -> np.ndarray:
    """The inputs, by Pillow alone."""
    files = sorted(folder.rglob("*.png"))
    pixels = [np.asarray(Image.open(f).resize((6, 8), Image.Resampling.BILINEAR)) for f in files]
    return ((np.stack(pixels) / 255 - 0.5) / [0.25, 0.5, 0.25]).transpose(0, 3, 1, 2).astype(np.float32)


def test_calibration_data(folder: Path) -> None:
    proto = classifier()
    graph = edgec.load(proto).graph
    options = resolve({"quantize": "int8", "calibrate": folder, "picture": WORDS})
    got = np.concatenate([s["x"] for s in samples(options.calibrate, graph)])
    np.testing.assert_allclose(got, wanted(folder), atol=1e-5)
    assert [int(n) for n in labels(options.calibrate, graph)] == [0] * 4 + [1] * 4 + [2] * 4
    other = resolve({"quantize": "int8", "calibrate": folder, "picture": "fit=stretch"}).calibrate
    before = digest(options.calibrate)
    assert before == digest(options.calibrate) != digest(other)
    (folder / "0" / "0.png").write_bytes((folder / "1" / "0.png").read_bytes())
    assert digest(options.calibrate) != before


@pytest.mark.parametrize("pre", [None, "picture=rgb8:16x12", "picture=bgra8:16x12", "picture=nv12:16x12,range=full"])
def test_check_and_score(folder: Path, pre: str | None) -> None:
    """The same folder for all, whether the network takes floats or bytes."""
    proto, settings = classifier(), {"picture": WORDS, "pre": pre}
    checked = edgec.check(proto, inputs=folder, quantize="int8", calibrate=folder, **settings)
    assert checked.ok and checked.samples == 12, str(checked)
    scored = edgec.score(proto, folder, quantize="int8", calibrate=folder, **settings)
    assert scored.ok and scored.labels == "the data" and scored.samples == 12
    assert [v.value for v in scored.variants] == [100.0] * 3


def test_bytes_come_to_the_same_input(folder: Path) -> None:
    """Results of a network that takes bytes, on the bytes of files, are those of one that takes floats."""
    proto = classifier()
    floats = edgec.build(proto)
    settings = {"picture": WORDS, "pre": "picture=rgb8:16x12"}
    fused = edgec.build(proto, **settings)
    sets = list(samples(resolve({"calibrate": folder, **settings}).calibrate, fused.stages.graph))
    assert [s["picture"].shape for s in sets] == [(1, 16, 12, 3)] * 12
    for one, want in zip(sets, wanted(folder)):
        np.testing.assert_allclose(fused(one["picture"]), floats(want[None]), atol=0.02)


@pytest.mark.parametrize("range_", ["limited", "full"])
def test_nv12_of_plain_colors(range_: str) -> None:
    """White is brightest, gray has no color, and blue and red lie where BT.601 has them."""
    given = PictureBytes("nv12", 2, 2, range_)
    top, gain = (235, 219) if range_ == "limited" else (255, 255)
    colored = 224 if range_ == "limited" else 255
    for color, y, u, v in (
        ((255, 255, 255), top, 128, 128),
        ((0, 0, 255), top - gain * (1 - 0.114), 128 + colored / 2, 128 - colored * 0.114 / 1.402),
        ((255, 0, 0), top - gain * (1 - 0.299), 128 - colored * 0.299 / 1.772, 128 + colored / 2),
    ):
        got = nv12(np.full((2, 2, 3), color, np.uint8), given)
        np.testing.assert_array_equal(got, np.rint([[y, y], [y, y], [u, v]]).clip(0, 255))


def test_edgec_toml_says_it_once(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    onnx.save(classifier(), folder.parent / "net.onnx")
    monkeypatch.chdir(folder.parent)
    Path("edgec.toml").write_text(f'model = "net.onnx"\npicture = "{WORDS}"\n')
    for words in (["check", ".", "--inputs", "pictures"], ["check", ".", "--data", "pictures"]):
        with pytest.raises(SystemExit) as left:
            main([*words, "--json"])
        found = json.loads(capsys.readouterr().out)
        assert left.value.code == 0, found
        assert found["samples"] == 12
    with pytest.raises(SystemExit) as left:
        main(["samples", ".", "pictures", "-o", "made.npz", "--json"])
    assert left.value.code == 0
    np.testing.assert_allclose(np.load("made.npz")["x"], wanted(folder), atol=1e-5)


def test_apps_normalize_as_samples_are() -> None:
    way = resolve({"picture": "scale=255,mean=0.5/0.4/0.3,std=0.25"}).way
    got = by_way(Preparation(labels=("a",)), way)
    np.testing.assert_allclose(got.mean, [127.5, 102, 76.5])
    np.testing.assert_allclose(got.deviation, [63.75] * 3)
    assert got.labels == ("a",)
    assert by_way(AS_IS, resolve({}).way) == AS_IS
    fused = resolve({"picture": "mean=0.5", "pre": "picture=rgb8:4x4"}).way
    assert by_way(AS_IS, fused) == AS_IS
    for given, settings, told in (
        (Preparation((1.0,), (2.0,)), {"picture": "mean=0.5"}, "--normalize and --picture say the same"),
        (Preparation((1.0,), (2.0,)), {"pre": "picture=rgb8:4x4"}, "normalizes its pictures itself"),
        (AS_IS, {"picture": "order=bgr"}, "red, green and blue in this order"),
    ):
        with pytest.raises(UsageError, match=told):
            by_way(given, resolve(settings).way)


def test_what_a_folder_does_not_hold_is_said(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="of pictures or of WAV files"):
        edgec.build(classifier(), quantize="int8", calibrate=tmp_path / "empty", compile=False)


@pytest.mark.parametrize("channels", [1, 3])
def test_gray_of_16_bits_keeps_its_levels(tmp_path: Path, channels: int) -> None:
    values = RANDOM.integers(0, 1 << 16, (8, 6)).astype(np.uint16)
    Image.fromarray(values).save(tmp_path / "a.png")
    got = read(tmp_path / "a.png", Frame(8, 6, channels, False, True), Way())
    np.testing.assert_array_equal(got, np.repeat(values[..., None] >> 8, channels, axis=2))
    with pytest.raises(ValueError, match="its pixels are floats"):
        in_bytes(Image.fromarray(values.astype(np.float32)), "TIFF")


@pytest.mark.parametrize("fill", ["-1", "256", "0/300/0"])
def test_fill_is_a_value_of_pixels(fill: str) -> None:
    with pytest.raises(UsageError) as error:
        resolve({"picture": f"fit=pad,fill={fill}"})
    assert "from 0 to 255" in str(error.value.hint)


def test_pictures_of_a_network_of_halves(folder: Path) -> None:
    proto = model([node("Cast", ["x"], ["y"], to=1)], [tensor_input("x", [1, 3, 8, 6], onnx.TensorProto.FLOAT16)])
    options = resolve({"quantize": "int8", "calibrate": folder, "picture": WORDS})
    got = np.concatenate([s["x"] for s in samples(options.calibrate, edgec.load(proto).graph)])
    assert got.dtype == np.float16
    np.testing.assert_allclose(got, wanted(folder), atol=2e-3)


def test_a_score_without_labels_reads_classes_before_1_x_1(folder: Path) -> None:
    """The classes of [1, C, 1, 1] are C, where the reference labels a folder that has no classes."""
    flat = folder.parent / "flat"
    flat.mkdir()
    for k, path in enumerate(sorted(folder.rglob("*.png"))):
        path.rename(flat / f"{k}.png")
    kernel = np.eye(3, dtype=np.float32)[..., None, None] * [[[[-1]]], [[[1]]], [[[-1]]]]
    nodes = [node("Conv", ["x", "w"], ["c"]), node("GlobalAveragePool", ["c"], ["y"])]
    held = [weights("w", kernel.astype(np.float32))]
    proto = model(nodes, [tensor_input("x", [1, 3, 8, 6])], initializers=held)
    scored = edgec.score(proto, flat, picture="fit=stretch")
    assert [v.value for v in scored.variants] == [100.0] * len(scored.variants)
    assert class_axis(np.zeros((4, 1, 3, 1, 1))) == 2
    assert class_axis(np.zeros((4, 1, 5))) == 2


def test_a_folder_where_arrays_are_read_is_named(folder: Path) -> None:
    with pytest.raises(UsageError, match="this is a folder") as error:
        read_arrays(folder)
    assert "edgec samples" in str(error.value.hint)
