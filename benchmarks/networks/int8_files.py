"""Int8 files of other tools: results on real inputs compared with onnxruntime and LiteRT's reference kernels.

    python -m benchmarks.networks.int8_files [--only NAME ...]

The files are those of the folder of trained models (EDGEC_MODELS, or ../shared/models), quantized with
QuantizeLinear and DequantizeLinear (.onnx) or by TensorFlow Lite (.tflite). Differences are in steps: integers, or
1/255 of the largest value of a float. onnxruntime runs plain (in floats, a node at a time) and optimized (bytes). Where
both are more than a step off, every tensor that the file rounds is compared, to find where results begin to differ.
Decisions count where there is one; with labels, how many are right. The exit code is 1 when a result of a .tflite file
is more than a step off, when tensors of an .onnx file begin to differ by more than one, or when an accuracy differs by
more than a decision.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import onnx

import edgec
from benchmarks.engines.peer import Peer
from benchmarks.networks import catalog as networks
from benchmarks.table import markdown
from edgec.check.compare import quantized_outputs
from edgec.check.network import reference_for

#: Pictures that a network is run on.
PICTURES = 60
#: A step, with room for how its size is rounded.
STEP = 1.001
Example = tuple[np.ndarray, "int | None"]


def pictures(folder: Path, size: int, signed: bool, grey: bool = False, labels: bool = False) -> Iterator[Example]:
    """Bytes [1, size, size, 3] (or 1) of every fifth picture, and its class of 1001 where it has one."""
    from PIL import Image

    with open(folder / "imagenet_even/labels.csv", newline="") as stream:
        rows = list(csv.DictReader(stream))
    for row in rows[:: len(rows) // PICTURES][:PICTURES]:
        with Image.open(folder / "imagenet_even" / row["file"]) as image:
            sized = image.convert("L" if grey else "RGB").resize((size, size))
        pixels = np.asarray(sized, np.int16).reshape(1, size, size, -1)
        x = (pixels - 128).astype(np.int8) if signed else pixels.astype(np.uint8)
        yield x, int(row["class_index"]) + 1 if labels else None


def keywords(folder: Path) -> Iterator[Example]:
    with np.load(folder / "mlperf_tiny/kws01_1000.npz") as data:
        for x, label in zip(data["x"], data["y"]):
            yield x.reshape(1, 49, 10, 1), int(label)


def wake_words(folder: Path) -> Iterator[Example]:
    with np.load(folder / "mlperf_tiny/calibration_samples.npz") as data:
        stored = next(data[name] for name in data.files if data[name].ndim > 1)
    for x in stored.reshape(-1, 30, 1, 40):
        whole = x if x.dtype == np.int8 else np.clip(np.rint(x), -128, 127).astype(np.int8)
        yield whole[None].reshape(1, 30, 1, 40), None


def machine(folder: Path) -> Iterator[Example]:
    """Five frames of a spectrogram, by the scale that the network's TensorFlow Lite twin has."""
    frames = np.fromfile(folder / "mlperf_tiny/ad01_normal_id_01_00000000_hist_librosa.bin", np.float32)
    twin = edgec.load(folder / "mlperf_tiny/ad01_int8.tflite")
    scale, zero = np.array(eval_pair(twin.graph.metadata[f"quantization {next(iter(twin.inputs))}"]))
    for k in range(0, len(frames) - 640, 128 * 4):
        yield np.clip(np.rint(frames[k : k + 640] / scale) + zero, -128, 127).astype(np.int8).reshape(1, 640), None


def eval_pair(text: str) -> list[float]:
    import json

    found: list[float] = json.loads(text)
    return found


def bird(folder: Path) -> Iterator[Example]:
    from PIL import Image

    with Image.open(folder / "coral/bird_segmentation.bmp") as image:
        yield np.asarray(image.convert("RGB").resize((513, 513)), np.uint8)[None], None


def noise(folder: Path) -> Iterator[Example]:
    random = np.random.default_rng(0)
    for _ in range(20):
        yield random.integers(-128, 128, (1, 1960)).astype(np.int8), None


FILES: dict[str, Callable[[Path], Iterator[Example]]] = {
    "mlperf_tiny/kws_ref_model": keywords,
    "mlperf_tiny/pretrainedResnet_quant": lambda f: pictures(f, 32, signed=True),
    "mlperf_tiny/vww_96_int8": lambda f: pictures(f, 96, signed=True),
    "mlperf_tiny/ad01_int8": machine,
    "mlperf_tiny/str_ww_ref_model": wake_words,
    "tflm/person_detect": lambda f: pictures(f, 96, signed=True, grey=True),
    "tflm/micro_speech_quantized": noise,
    "coral/mobilenet_v1_0.25_128_quant": lambda f: pictures(f, 128, signed=False, labels=True),
    "coral/mobilenet_v2_1.0_224_quant": lambda f: pictures(f, 224, signed=False, labels=True),
    "coral/deeplabv3_mnv2_dm05_pascal_quant": bird,
}


def beginnings(path: Path, examples: Iterator[Example]) -> tuple[str, float]:
    """First difference of results from plain onnxruntime, in words, and its largest number of steps."""
    model = onnx.load(path)
    rounded = [n.output[0] for n in model.graph.node if n.op_type == "QuantizeLinear"]
    known = {o.name for o in model.graph.output}
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in rounded if name not in known)
    count, begun, alike, worst = 0, dict[str, int](), 0, 0.0
    with TemporaryDirectory(prefix="edgec-int8-files-") as folder:
        whole = Path(folder, path.name)
        onnx.save(model, whole)
        shapes = networks.SHAPES.get(path.stem, {})
        plain, quick = (Peer(whole, shapes, 1, optimize=optimize) for optimize in (False, True))
        built = edgec.build(whole, Path(folder, "net"), shapes=shapes)
        (x,) = built.stages.graph.inputs
        order = [name for name, _ in built.stages.graph.outputs]
        ours = dict(zip([o.name for o in model.graph.output], order))
        for array, _ in examples:
            given = {x.attributes["name"]: array.reshape(x.type.shape)}
            got, want, other = built.network.run(given), plain.run(given), quick.run(given)
            count += 1
            for name in rounded:
                far = np.abs(got[ours[name]].astype(np.int64) - want[name])
                if far.any():
                    begun[name] = begun.get(name, 0) + 1
                    alike += bool(np.array_equal(got[ours[name]], other[name]))
                    worst = max(worst, float(far.max()))
                    break
    where = ", ".join(f"{name} ({times})" for name, times in begun.items())
    total = sum(begun.values())
    text = f"{path.name}: {total} of {count} inputs begin to differ, by {worst:g} at most, at {where}; "
    return text + f"in {alike} of them onnxruntime's optimized form has our result there", worst


def row(path: Path, examples: Callable[[], Iterator[Example]]) -> tuple[list[str], bool]:
    """A row of the table, and whether it is as it should be."""
    with TemporaryDirectory(prefix="edgec-int8-files-") as folder:
        built = edgec.build(path, folder, shapes=networks.SHAPES.get(path.stem, {}))
        name, reference = reference_for(built, [])
        (x,) = built.stages.graph.inputs
        shapes = networks.SHAPES.get(path.stem, {})
        others = [reference, *([Peer(path, shapes, 1).run] if path.suffix == ".onnx" else [])]
        steps = quantized_outputs(built.stages.graph)
        worst, differing, count, ours, theirs, labelled = [0.0] * len(others), 0, 0, 0, 0, False
        for array, label in examples():
            given = {x.attributes["name"]: array.reshape(x.type.shape)}
            got, wanted = built.network.run(given), [other(given) for other in others]
            for k, want in enumerate(wanted):
                worst[k] = max(worst[k], _far(got, want, steps))
            a, b = (next(iter(found.values())) for found in (got, wanted[0]))
            count += 1
            if a.size <= 1001:
                differing += int(np.argmax(a) != np.argmax(b))
                ours, theirs = ours + (int(np.argmax(a)) == label), theirs + (int(np.argmax(b)) == label)
            labelled = labelled or label is not None
    accuracy = f"{ours / count:.3f} / {theirs / count:.3f}" if labelled else "-"
    figures = [*(f"{far:.2f}" for far in worst), "-"][:2]
    cells = [path.name, name.partition(",")[0], str(count), *figures, str(differing), accuracy]
    least = min(worst)
    if len(others) > 1 and least > STEP:
        text, least = beginnings(path, examples())
        print(text, flush=True)
    return cells, abs(ours - theirs) <= 1 and least <= STEP


def _far(got: Mapping[str, np.ndarray], wanted: Mapping[str, np.ndarray], steps: Mapping[str, float]) -> float:
    """The largest difference in steps."""
    worst = 0.0
    for output, expected in wanted.items():
        step = steps.get(output, 1.0) if expected.dtype.kind != "f" else steps.get(output)
        step = step if step is not None else float(np.abs(expected).max()) / 255
        worst = max(worst, float(np.abs(got[output].astype(np.float64) - expected).max() / step))
    return worst


def main() -> int:
    p = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    p.add_argument("--only", nargs="+", metavar="NAME", default=list(FILES))
    options = p.parse_args()
    folder, rows, ok = networks.models_folder(), [], True
    for entry in options.only:
        for suffix in (".onnx", ".tflite"):
            path = folder / f"{entry}{suffix}"
            if path.is_file():
                cells, fine = row(path, partial(FILES[entry], folder))
                print(" | ".join(cells), "" if fine else "NOT as it should be", flush=True)
                rows.append(cells)
                ok = ok and fine
    heads = ["file", "beside", "inputs", "largest difference, steps", "beside it optimized", "decisions that differ"]
    heads.append("accuracy ours / theirs")
    print(markdown(heads, rows, text_columns=2))
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
