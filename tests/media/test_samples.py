"""`edgec samples`: folders of pictures and sounds as arrays, beside arrays made by hand."""

from __future__ import annotations

import json
import shutil
import subprocess
import wave
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from chance import RANDOM
from small_models import model, node, tensor_input

import edgec
from edgec.check.score import labelled
from edgec.cli.main import main
from edgec.compress import calibrate
from edgec.errors import UsageError
from edgec.frontend.onnx import import_model
from edgec.ir.graph import Graph
from edgec.media import folder, pictures, sounds
from edgec.media.way import FIND, Way
from edgec.options import resolve

Image = pytest.importorskip("PIL.Image", reason="pip install 'edgec[pictures]'")
SHAPES = {"first": lambda c, h, w: [1, c, h, w], "last": lambda c, h, w: [1, h, w, c]}
TYPES = {"f32": 1, "u8": 2, "i16": 5}


def network(shape: list[int], dtype: str = "f32") -> Graph:
    return import_model(model([node("Cast", ["x"], ["y"], to=1)], [tensor_input("x", shape, TYPES[dtype])]))


def way(picture: str | None = None, sound: str | None = None) -> Way:
    return resolve({"picture": picture, "sound": sound}).way


def saved(place: Path, height: int, width: int, channels: int = 3) -> np.ndarray:
    """A picture of random values [H, W, C], in a file without loss."""
    values = RANDOM.integers(0, 256, (height, width, channels), np.uint8)
    place.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(values[..., 0] if channels == 1 else values).save(place)
    return values


def resized(values: np.ndarray, height: int, width: int) -> np.ndarray:
    image = Image.fromarray(values[..., 0] if values.shape[2] == 1 else values)
    return np.asarray(image.resize((width, height), Image.Resampling.BILINEAR)).reshape(height, width, -1)


@pytest.mark.parametrize(
    ("layout", "channels", "dtype", "fit"),
    [*product(("first", "last"), (1, 3, 4), ("f32", "u8"), ("crop", "resized", "stretch", "pad"))],
)
def test_a_picture(layout: str, channels: int, dtype: str, fit: str, tmp_path: Path) -> None:
    values = saved(tmp_path / "p.png", 30, 41, channels)
    text = {"crop": "", "resized": "resize=23", "stretch": "fit=stretch", "pad": "fit=pad,fill=7"}[fit]
    scale, mean, std = 2.0, RANDOM.random(channels), RANDOM.random(channels) + 0.5
    if dtype == "f32":
        each = "/".join
        text += f",scale=2,mean={each(map(repr, mean.tolist()))},std={each(map(repr, std.tolist()))}"
    if channels > 1:
        text += ",order=bgr"
    graph = network(SHAPES[layout](channels, 20, 17), dtype)
    found = folder.samples(graph, tmp_path, way(text))

    if fit == "crop":  # 30 x 41 covers 20 x 17 as 20 x 27; the middle 17 columns of it
        wanted = resized(values, 20, 27)[:, 5:22]
    elif fit == "resized":  # the shorter side is 23, the other one 23 * 41 // 30
        wanted = resized(values, 23, 31)[2:22, 7:24]
    elif fit == "stretch":
        wanted = resized(values, 20, 17)
    else:  # 17 / 41 is the lesser scale: 12 rows
        wanted = np.full((20, 17, channels), 7, np.uint8)
        wanted[4:16] = resized(values, 12, 17)
    if channels > 1:
        wanted = wanted[..., [2, 1, 0, 3][:channels]]
    result = wanted if dtype == "u8" else (wanted / scale - mean) / std
    result = result.transpose(2, 0, 1) if layout == "first" else result
    (got,) = found.arrays["x"]
    assert got.dtype == {"f32": np.float32, "u8": np.uint8}[dtype] and not found.classes
    np.testing.assert_allclose(got, result, rtol=1e-5, atol=1e-5)


def test_pictures_lie_upright_and_gray_ones_get_three_channels(tmp_path: Path) -> None:
    values = saved(tmp_path / "gray.png", 6, 8, 1)
    image = Image.fromarray(values[..., 0])
    turned = image.getexif()
    turned[0x0112] = 6  # to be turned by 90 degrees, as cameras say it
    (tmp_path / "gray.png").unlink()
    image.save(tmp_path / "turned.png", exif=turned)
    (got,) = folder.samples(network([1, 3, 8, 6]), tmp_path).arrays["x"]
    np.testing.assert_allclose(got, np.stack([np.rot90(values[..., 0], -1)] * 3) / np.float32(255), rtol=1e-6)


def test_folders_are_classes_and_a_draw_is_the_same_again(tmp_path: Path) -> None:
    for name, count in (("b", 3), ("a", 4)):
        for k in range(count):
            saved(tmp_path / name / f"{k}.png", 5, 5)
    graph = network([1, 3, 5, 5])
    found = folder.samples(graph, tmp_path)
    assert found.classes == ("a", "b") and found.arrays["labels"].tolist() == [0, 0, 0, 0, 1, 1, 1]
    few, again, other = (folder.samples(graph, tmp_path, most=3, seed=s) for s in (1, 1, 2))
    assert len(few.arrays["x"]) == 3
    np.testing.assert_array_equal(few.arrays["x"], again.arrays["x"])
    assert not np.array_equal(few.arrays["x"], other.arrays["x"])
    rows = {row.tobytes() for row in found.arrays["x"]}
    assert all(row.tobytes() in rows for row in few.arrays["x"])


def stored(place: Path, values: np.ndarray, width: int, rate: int = 8000) -> None:
    """Whole numbers [samples, channels] as PCM of so many bytes."""
    with wave.open(str(place), "wb") as file:
        file.setnchannels(values.shape[1])
        file.setsampwidth(width)
        file.setframerate(rate)
        shifted = values + 128 if width == 1 else values
        file.writeframes(b"".join(int(v).to_bytes(width, "little", signed=width > 1) for v in shifted.reshape(-1)))


@pytest.mark.parametrize(("width", "channels", "count"), [*product((1, 2, 3, 4), (1, 2), (9, 30))])
def test_a_sound(width: int, channels: int, count: int, tmp_path: Path) -> None:
    most = 2 ** (8 * width - 1)
    values = RANDOM.integers(-most, most, (count, channels))
    stored(tmp_path / "s.wav", values, width)
    mono = (values / most).mean(axis=1)
    first = np.pad(mono, (0, 20))[:20]
    middle = first if count < 20 else mono[5:25]
    for part, wanted in (("first", first), ("middle", middle)):
        (got,) = folder.samples(network([1, 20]), tmp_path, way(sound=f"rate=8000,part={part}")).arrays["x"]
        np.testing.assert_allclose(got, wanted, rtol=1e-6, atol=1e-7)
        (got,) = folder.samples(network([1, 20], "i16"), tmp_path, way(sound=f"rate=8000,part={part}")).arrays["x"]
        np.testing.assert_array_equal(got, np.rint(wanted * 32768).clip(-32768, 32767))


#: Preparations that are refused, and what is said.
REFUSED = {
    "resize=0": "a whole number from 1",
    "resize=1_0": "a whole number from 1",
    "resize=4": "resize=4 is less than the input of 8 x 6",
    "fit=pad,resize=20": "resize is of fit=crop alone",
    "fill=3": "fill is of fit=pad alone",
    "mean=1/2": "mean has 2 numbers, and the input 3 channels",
    "mean=inf": "it is a number",
    "std=0": "it is above 0",
    "order=grb": "one of rgb, bgr",
    "size=3": "'size=3' is no preparation",
    "order": "one of rgb, bgr",
    "mean=1,mean=2": "'mean' is given twice",
    "layout=last": "pictures have 1, 3 or 4 channels",
}


@pytest.mark.parametrize("text", REFUSED)
def test_preparations_that_are_refused(text: str, tmp_path: Path) -> None:
    saved(tmp_path / "p.png", 9, 9)
    with pytest.raises(UsageError, match=REFUSED[text]):
        folder.samples(network([1, 3, 8, 6]), tmp_path, way(text))


def test_folders_that_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = network([1, 3, 8, 6])

    def told(match: str, *more: str) -> None:
        with pytest.raises(UsageError, match=match):
            folder.samples(graph, tmp_path, *more)

    told("no files that end in")
    found = subprocess.run(FIND, shell=True, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert (found.returncode, found.stdout) == (0, "")
    saved(tmp_path / "deep" / "er" / "a" / "a.png", 9, 9)
    deep = tmp_path / "deep" / "er" / "a"
    listed = subprocess.run(FIND, shell=True, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert listed.stdout.split() == ["1", "./deep/er/a"]
    for classes in ("a", "b"):
        saved(tmp_path / "deep" / "er" / classes / "a.png", 9, 9)
        named = deep if classes == "a" else deep.parent
        for reads in (
            lambda: folder.samples(graph, tmp_path),
            lambda: labelled(graph, tmp_path),
            lambda: calibrate.digest(tmp_path),
        ):
            with pytest.raises(UsageError) as refused:
                reads()
            assert str(refused.value.hint) == f"files lie deeper: name {named}"
        assert len(folder.samples(graph, named).arrays["x"]) == (1 if classes == "a" else 2)
    shutil.rmtree(tmp_path / "deep")
    (tmp_path / "a.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(40))
    told("this picture cannot be read")
    saved(tmp_path / "a.png", 9, 9)
    told("the folder has pictures", way(sound="rate=8000"))
    monkeypatch.setattr(pictures, "MOST_PIXELS", 80)
    told("it has 9 x 9 pixels, and 80 are the most")
    monkeypatch.undo()
    monkeypatch.setattr(folder, "MOST_BYTES", 300)
    told("--most 0|take")
    monkeypatch.undo()
    saved(tmp_path / "c" / "a.png", 9, 9)
    told("files lie beside folders of files")
    (tmp_path / "a.png").unlink()
    (tmp_path / "empty").mkdir()
    told("the folder of class 'empty' is empty")
    (tmp_path / "empty").rmdir()
    stored(tmp_path / "c" / "s.wav", np.zeros((3, 1), int), 2)
    told("both pictures and sounds")
    (tmp_path / "c" / "a.png").unlink()
    told("the folder has sounds", way("scale=1"))
    told("the rate of the sounds is not said")
    told("is f32\\[1, 3, 8, 6\\]", way(sound="rate=8000"))
    graph = network([1, 4])
    told("its rate is 8000 Hz, and 16000", way(sound="rate=16000"))
    (tmp_path / "c" / "s.wav").write_bytes(b"RIFF")
    told("no sound that can be read", way(sound="rate=16000"))


def test_tall_pictures_are_not_made_large(tmp_path: Path) -> None:
    """A picture of 2 x 4000 pixels would be 32 x 64000 before its middle is cut out."""
    saved(tmp_path / "p.png", 4000, 2)
    with pytest.raises(UsageError, match="it would have 32 x 64000 pixels"):
        folder.samples(network([1, 3, 32, 32]), tmp_path)
    assert folder.samples(network([1, 3, 32, 32]), tmp_path, way("fit=pad")).arrays["x"].shape == (1, 3, 32, 32)


def test_sounds_of_a_size_that_nobody_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stored(tmp_path / "s.wav", np.zeros((30, 1), int), 2)
    monkeypatch.setattr(sounds, "_MOST", 20)
    with pytest.raises(UsageError, match="it has 30 samples, and 20 are the most"):
        folder.samples(network([1, 20]), tmp_path, way(sound="rate=8000"))


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """From files to a network in 8 bits, whose ranges are found in them, with the preparation in edgec.toml."""
    monkeypatch.chdir(tmp_path)
    for name, k in product(("cat", "dog"), range(2)):
        saved(tmp_path / "pets" / name / f"{k}.png", 12, 10)
    w = np.float32(RANDOM.standard_normal((4, 3, 3, 3)))
    from small_models import weights

    proto = model([node("Conv", ["x", "w"], ["y"])], [tensor_input("x", [1, 3, 8, 8])], initializers=[weights("w", w)])
    (tmp_path / "net.onnx").write_bytes(proto.SerializeToString())
    (tmp_path / "edgec.toml").write_text('model = "net.onnx"\n[samples]\npicture = "mean=0.5,std=0.25"\n')

    def run(*words: str) -> int:
        with pytest.raises(SystemExit) as ended:
            main(list(words))
        return int(ended.value.code or 0)

    assert run("samples", "edgec.toml", "pets", "--json") == 0
    record = json.loads(capsys.readouterr().out)
    assert record["classes"] == ["cat", "dog"] and record["arrays"]["x"]["shape"] == [4, 3, 8, 8]
    assert "0.5) / 0.25" in record["preparation"]
    held = np.load(record["file"])
    assert held["x"].min() < -1 and held["labels"].tolist() == [0, 0, 1, 1]
    assert run("samples", "net.onnx", "pets") == 2
    assert "the file is there, so nothing was written" in capsys.readouterr().err
    built = edgec.build("net.onnx", tmp_path / "out", quantize="int8", calibrate=record["file"], compile=False)
    assert built.folder.is_dir()
