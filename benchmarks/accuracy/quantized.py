"""Accuracy of int8: fp32 networks quantized by edgec, on labeled data, compared with fp32.

    python -m benchmarks.accuracy.quantized --write docs/results/quantized-accuracy.md

Networks and data are those of the folder of trained models (EDGEC_MODELS, or ../shared/models) and of wheels. What has
labels is scored by them; where a network's data cannot be had (pictures of its own kind without labels), the decisions
of the floats are taken for right, and the int8 file that its makers ship is scored beside. Inputs that are calibrated
on are not scored. The exit code is 1 when a network misses its bound.
"""

from __future__ import annotations

import argparse
import csv
import json
import shlex
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

import edgec
from benchmarks.accuracy.cover_images import line, natural, read
from benchmarks.accuracy.decisions import pictures
from benchmarks.engines.peer import Peer
from benchmarks.networks import catalog as networks
from benchmarks.networks.real_inputs import keyword
from benchmarks.table import markdown

Arrays = dict[str, np.ndarray]
#: Results by name -> what they are worth, in percent; the second are the results of the floats.
Judge = Callable[[list[Arrays], list[Arrays]], float]


@dataclass
class Case:
    """A network of floats: inputs to calibrate on and others to judge, and what its loss may be.

    ``bound`` is the most points that int8 may lose, or with ``least`` the least it must be. ``shipped`` is the int8
    file of its makers, which is judged beside; ``adapt`` makes its inputs and results those of the floats.
    """

    name: str
    path: Path
    shapes: Mapping[str, tuple[int, ...]]
    calibration: list[Arrays]
    inputs: list[Arrays]
    judge: Judge
    metric: str
    bound: float
    least: float | None = None
    shipped: Path | None = None
    settings: Mapping[str, str] = field(default_factory=dict)


CASES: dict[str, Callable[[Path, Path | None], Case]] = {}


def case(name: str) -> Callable[[Callable[[Path, Path | None], Case]], Callable[[Path, Path | None], Case]]:
    def register(make: Callable[[Path, Path | None], Case]) -> Callable[[Path, Path | None], Case]:
        CASES[name] = make
        return make

    return register


def decided(labels: list[int]) -> Judge:
    """The largest score against labels."""

    def judge(got: list[Arrays], floats: list[Arrays]) -> float:
        found = [int(np.argmax(next(iter(g.values())))) for g in got]
        return 100 * float(np.mean([a == b for a, b in zip(found, labels)]))

    return judge


def as_floats(got: list[Arrays], floats: list[Arrays]) -> float:
    """Decisions that are those of the floats."""
    pairs = zip(got, floats)
    return 100 * float(
        np.mean([np.argmax(next(iter(a.values()))) == np.argmax(next(iter(b.values()))) for a, b in pairs])
    )


def wheel(name: str, cache: Path | None) -> tuple[Path, Mapping[str, tuple[int, ...]]]:
    found, missing = networks.find(only=[name], cache=cache)
    if not found:
        raise FileNotFoundError(missing[0].reason if missing else name)
    return found[0].path, found[0].shapes


@case("efficientnet_lite0")
def lite0(folder: Path, cache: Path | None) -> Case:
    path, shapes = wheel("efficientnet_lite0", cache)
    examples = list(pictures(folder / "imagenet_even"))
    fitted = range(0, len(examples), 19)
    rest = [k for k in range(len(examples)) if k not in fitted]
    return Case(
        "EfficientNet-Lite0", path, shapes, [{"image": examples[k][0]} for k in fitted],
        [{"image": examples[k][0]} for k in rest], decided([examples[k][1] for k in rest]),
        f"top-1 on {len(rest)} pictures", 0.7,
    )  # fmt: skip


@case("kws")
def kws(folder: Path, cache: Path | None) -> Case:
    with np.load(folder / "mlperf_tiny/kws01_1000.npz") as data:
        x, labels = [keyword(row) for row in data["x"]], data["y"].tolist()
    path = folder / "mlperf_tiny/kws_ref_model_float32.onnx"
    return Case(
        "MLPerf Tiny kws", path, networks.SHAPES[path.stem], [{"input_1": v} for v in x[::40]],
        [{"input_1": v} for v in x], decided(labels), "top-1 on 1000 MFCCs", 100, 90.0,
        folder / "mlperf_tiny/kws_ref_model.onnx",
    )  # fmt: skip


def _small(folder: Path, size: int, spread: float) -> list[np.ndarray]:
    """The pictures of imagenet_even, channels last, [1, size, size, 3]."""
    from PIL import Image

    with open(folder / "imagenet_even/labels.csv", newline="") as stream:
        files = [row["file"] for row in csv.DictReader(stream)]
    found = []
    for file in files:
        with Image.open(folder / "imagenet_even" / file) as image:
            found.append(np.asarray(image.convert("RGB").resize((size, size)), np.float32)[None] / np.float32(spread))
    return found


def _agreeing(name: str, stem: str, shipped: str, size: int, spread: float, folder: Path) -> Case:
    x = _small(folder, size, spread)
    path = folder / f"mlperf_tiny/{stem}.onnx"
    rest = [v for k, v in enumerate(x) if k % 20]
    return Case(
        name, path, networks.SHAPES[stem], [{"input_1": v} for v in x[::20]], [{"input_1": v} for v in rest],
        as_floats, f"decisions of the floats on {len(rest)} pictures", 1.0, None,
        folder / f"mlperf_tiny/{shipped}.onnx",
    )  # fmt: skip


@case("vww")
def vww(folder: Path, cache: Path | None) -> Case:
    return _agreeing("MLPerf Tiny vww", "vww_96_float", "vww_96_int8", 96, 255, folder)


@case("ic")
def ic(folder: Path, cache: Path | None) -> Case:
    return _agreeing("MLPerf Tiny ic", "pretrainedResnet", "pretrainedResnet_quant", 32, 1, folder)


@case("yolox_nano")
def yolox(folder: Path, cache: Path | None) -> Case:
    from PIL import Image

    with open(folder / "imagenet_even/labels.csv", newline="") as stream:
        files = [row["file"] for row in csv.DictReader(stream)][::6]
    x = []
    for file in files:
        with Image.open(folder / "imagenet_even" / file) as image:
            pixels = np.asarray(image.convert("RGB").resize((416, 416)), np.float32)[..., ::-1]
        x.append(np.ascontiguousarray(pixels.transpose(2, 0, 1)[None]))
    rest = [v for k, v in enumerate(x) if k % 5]
    return Case(
        "YOLOX-nano", folder / "det_yolox_nano/yolox_nano.onnx", {}, [{"images": v} for v in x[::5]],
        [{"images": v} for v in rest], boxes, f"boxes of the floats found (F1, IoU > .5) on {len(rest)} pictures", 10.0,
    )  # fmt: skip


def boxes(got: list[Arrays], floats: list[Arrays]) -> float:
    """F1 of the boxes above .3 against those of the floats: same class, overlapping by more than a half."""
    right = found = there = 0
    for a, b in zip(got, floats):
        mine, theirs = (_detections(next(iter(v.values()))[0]) for v in (a, b))
        found, there = found + len(mine), there + len(theirs)
        left = list(theirs)
        for box in mine:
            match = next((t for t in left if t[4] == box[4] and _overlap(box, t) > 0.5), None)
            if match is not None:
                left.remove(match)
                right += 1
    return 100 * 2 * right / max(found + there, 1)


def _detections(rows: np.ndarray) -> list[tuple[float, ...]]:
    """(left, top, right, bottom, class) of raw YOLOX rows, after suppression by class."""
    places = [(x, y, s) for s in (8, 16, 32) for y in range(416 // s) for x in range(416 // s)]
    grid = np.array(places, np.float32)
    scores = rows[:, 4:5] * rows[:, 5:]
    center = (rows[:, :2] + grid[:, :2]) * grid[:, 2:]
    extent = np.exp(rows[:, 2:4]) * grid[:, 2:]
    best = scores.argmax(1)
    chosen: list[tuple[float, ...]] = []
    for k in np.argsort(-scores.max(1)):
        if scores[k, best[k]] < 0.3:
            break
        box = (*(center[k] - extent[k] / 2), *(center[k] + extent[k] / 2), float(best[k]))
        if all(c[4] != box[4] or _overlap(box, c) < 0.45 for c in chosen):
            chosen.append(box)
    return chosen


def _overlap(a: tuple[float, ...], b: tuple[float, ...]) -> float:
    width, height = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
    both = max(width, 0) * max(height, 0)
    return float(both / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - both))


def _minilm(name: str, settings: Mapping[str, str]) -> Callable[[Path, Path | None], Case]:
    def make(folder: Path, cache: Path | None) -> Case:
        path, shapes = wheel("minilm", cache)
        text = (folder / "lm_stories260k/eval.txt").read_text(encoding="utf-8")
        sets = [_tokens(part) for part in _sentences(text)[:72]]
        return Case(
            name, path, shapes, sets[:8], sets[8:], sentence_cosine,
            f"cosine of {len(sets) - 8} sentence vectors with those of the floats", 1.0, 99.0, None, settings,
        )  # fmt: skip

    return make


def _sentences(text: str) -> list[str]:
    return [part.strip() for part in text.replace("\n", " ").split(".") if len(part.split()) > 4]


def _tokens(sentence: str) -> Arrays:
    """Numbers for words by a hash: what words mean does not matter for how near two ways to compute them are."""
    words = sentence.lower().split()[:62]
    numbers = [1000 + sum(ord(c) * 31**k for k, c in enumerate(word)) % 28000 for word in words]
    ids = np.zeros((1, 64), np.int64)
    ids[0, : len(numbers) + 2] = [101, *numbers, 102]
    return {"input_ids": ids, "attention_mask": (ids > 0).astype(np.int64), "token_type_ids": np.zeros_like(ids)}


def sentence_cosine(got: list[Arrays], floats: list[Arrays]) -> float:
    """Of the means over tokens; these inputs have no padding in the middle, so zeros of the mask come last."""
    found = []
    for a, b in zip(got, floats):
        x, y = (v["last_hidden_state"][0].mean(0) for v in (a, b))
        found.append(float(x @ y / (np.linalg.norm(x) * np.linalg.norm(y))))
    return 100 * float(np.mean(found))


CASES["minilm"] = _minilm("MiniLM, int8", {})
CASES["minilm_dynamic"] = _minilm("MiniLM, int8-dynamic", {"quantize": "int8-dynamic"})


@case("ppocr_rec")
def ocr(folder: Path, cache: Path | None) -> Case:
    path, _ = wheel("ch_PP-OCRv4_rec_infer", cache)
    with (folder / "ocr_lines/imgs/labels.csv").open(encoding="utf-8") as file:
        truth = {row["file"]: row["truth"] for row in csv.DictReader(file) if row["kind"].startswith("line")}
    # One width for all, so that one network reads them. The fifth line stands on its head and has no label.
    lines = [*((name, 0) for name in truth), ("text_cls.jpg", 2)]
    width = max(natural(name) for name, _ in lines)
    shape = {"x": (1, 3, 48, width)}
    inputs = [{"x": line(each, width)[None]} for each in lines]
    shifted = [{"x": np.roll(line(each, width), 7 * k, axis=2)[None]} for each in lines for k in (1, 2)]
    alphabet = ["", *Peer(path, shape, 1).session.get_modelmeta().custom_metadata_map["character"].splitlines(), " "]

    def judge(got: list[Arrays], floats: list[Arrays]) -> float:
        texts, known = ([read(next(iter(g.values()))[0], alphabet) for g in each] for each in (got, floats))
        return 100 * float(np.mean([a == b for a, b in zip(texts, [*truth.values(), known[-1]])]))

    return Case("PP-OCRv4 rec", path, shape, shifted, inputs, judge, f"{len(inputs)} lines read exactly", 0.0)


def run(found: Case, options: argparse.Namespace) -> tuple[list[str], bool]:
    """A row of the table, and whether the bound is kept."""
    peer = Peer(found.path, found.shapes, 1)
    floats = [peer.run(i) for i in found.inputs]
    base = found.judge(floats, floats)
    settings = {"quantize": "int8", "observer": options.observer, "corrections": options.corrections, **found.settings}
    if options.max_loss:
        settings |= {"quantize": "mixed", "max_loss": options.max_loss}
    with TemporaryDirectory(prefix="edgec-accuracy-") as folder:
        data = Path(folder, "calibration.npz")
        np.savez(data, **{k: np.stack([c[k] for c in found.calibration]) for k in found.calibration[0]})
        if settings["quantize"] != "int8-dynamic":
            settings["calibrate"] = str(data)
        begun = time.perf_counter()
        built = edgec.build(found.path, Path(folder, "net"), shapes=found.shapes, **settings)  # type: ignore[arg-type]
        seconds = time.perf_counter() - begun
        narrow = [built.network.run(i) for i in found.inputs]
        report = built.stages["compress"].report
    value = found.judge(narrow, floats)
    shipped = "-"
    if found.shipped is not None and found.shipped.is_file():
        shipped = f"{found.judge(_shipped(found), floats):.1f}"
    kept = value >= base - found.bound if found.least is None else value >= found.least
    if found.shipped is not None and found.least is None and shipped != "-":
        kept = value >= float(shipped) - found.bound
    assert report is not None
    layers = sum(not row.reason for row in report.layers)
    bound = f">= {found.least:g}" if found.least is not None else f"-{found.bound:g}"
    cells = [found.name, found.metric, f"{base:.1f}", f"{value:.1f}", shipped, bound, "yes" if kept else "NO",
             f"{layers} of {len(report.layers)}", f"{seconds:.0f}"]  # fmt: skip
    return cells, kept


def _shipped(found: Case) -> list[Arrays]:
    """Results of the int8 file of the network's makers, its input rounded as its TensorFlow Lite twin says."""
    assert found.shipped is not None
    twin = edgec.load(found.shipped.with_suffix(".tflite"))
    (name,) = twin.inputs
    scale, zero = json.loads(twin.graph.metadata[f"quantization {name}"])
    peer = Peer(found.shipped, networks.SHAPES.get(found.shipped.stem, {}), 1)
    return [
        peer.run({name: np.clip(np.rint(x / np.float32(scale)) + zero, -128, 127).astype(np.int8)})
        for arrays in found.inputs
        for x in arrays.values()
    ]


def main() -> int:
    p = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    p.add_argument("--only", nargs="+", choices=list(CASES), default=list(CASES))
    p.add_argument("--observer", default="minmax")
    p.add_argument("--corrections", default="auto")
    p.add_argument("--max-loss", help="search for mixed precision within it, instead of all in int8")
    p.add_argument("--cache", type=Path, help="where wheels and what is made of them are kept")
    p.add_argument("--write", type=Path, metavar="FILE", help="write the page")
    options = p.parse_args()
    rows, ok = [], True
    for name in options.only:
        try:
            found = CASES[name](networks.models_folder(), options.cache)
        except (FileNotFoundError, ImportError) as problem:
            print(f"left out: {name}: {problem}", flush=True)
            continue
        cells, kept = run(found, options)
        print(" | ".join(cells), flush=True)
        rows.append(cells)
        ok = ok and kept
    head = ["network", "percent", "fp32", "int8", "shipped int8", "bound", "kept", "layers in bytes", "build, s"]
    table = markdown(head, rows)
    if options.write:
        command = shlex.join(["python", "-m", "benchmarks.accuracy.quantized", *sys.argv[1:]])
        text = f"# What int8 costs in accuracy\n\nWritten by `{command}` on {date.today().isoformat()}.\n\n{table}\n"
        options.write.write_text(text, encoding="utf-8")
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
