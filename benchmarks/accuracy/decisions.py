"""Accuracy on labeled data: edgec compared with onnxruntime, one example at a time.

    python -m benchmarks.accuracy.decisions

EfficientNet-Lite0 (from its wheel) reads the pictures of ``imagenet_even``, the keyword spotter of MLPerf Tiny the
1000 examples of ``kws01_1000.npz``; both lie in the folder of trained models (EDGEC_MODELS, or ../shared/models).
Decoding pictures needs Pillow. The exit code is 1 when a decision differs more often than --differing allows.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np

import edgec
from benchmarks.engines.peer import Peer
from benchmarks.networks import catalog as networks
from benchmarks.networks.catalog import Network
from benchmarks.networks.real_inputs import keyword
from benchmarks.table import markdown

#: What the Lite networks were trained with: pixels of 0 to 255, minus 127, over 128.
CENTER, SPREAD = np.float32(127), np.float32(128)
Example = tuple[np.ndarray, int]


@dataclass(frozen=True)
class Scores:
    """Number of correct decisions, and of those that differed between the two."""

    name: str
    examples: int
    ours: int
    theirs: int
    differing: int

    def cells(self) -> list[str]:
        def part(right: int) -> str:
            return f"{right / self.examples:.1%}"

        return [self.name, str(self.examples), part(self.ours), part(self.theirs), str(self.differing)]


def pictures(folder: Path) -> Iterator[Example]:
    """The middle 224x224 of every picture, f32[1,3,224,224], and its class."""
    from PIL import Image

    with open(folder / "labels.csv", newline="") as stream:
        for row in csv.DictReader(stream):
            with Image.open(folder / row["file"]) as image:
                pixels = np.asarray(image.convert("RGB"), np.float32)
            top, left = ((extent - 224) // 2 for extent in pixels.shape[:2])
            middle = (pixels[top : top + 224, left : left + 224] - CENTER) / SPREAD
            yield np.ascontiguousarray(middle.transpose(2, 0, 1)[None]), int(row["class_index"])


def keywords(folder: Path) -> Iterator[Example]:
    """Spectrograms f32[1,49,10,1] and their classes."""
    with np.load(folder / "kws01_1000.npz") as data:
        stored, labels = data["x"], data["y"]
    for x, label in zip(stored, labels):
        yield keyword(x), int(label)


def score(network: Network, examples: Iterator[Example], threads: int, **settings: str) -> Scores:
    """Both on every example; a decision is the largest score."""
    built = edgec.build(network.path, shapes=network.shapes, threads=threads, **settings)  # type: ignore[arg-type]
    peer = Peer(network.path, network.shapes, threads)
    name = next(iter(built.stages.graph.inputs)).attributes["name"]
    count = ours = theirs = differing = 0
    for array, label in examples:
        got = int(np.argmax(built(array)))
        want = int(np.argmax(next(iter(peer.run({name: array}).values()))))
        count += 1
        ours += got == label
        theirs += want == label
        differing += got != want
    return Scores(network.name, count, ours, theirs, differing)


def main() -> int:
    p = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--device", default="host")
    p.add_argument("--precision", help="of a GPU: fp32, tf32, fp16, int8, mixed")
    p.add_argument("--differing", type=int, default=1, help="decisions that may differ, a data set")
    p.add_argument("--cache", type=Path, help="where wheels and what is made of them are kept")
    options = p.parse_args()
    folder = networks.models_folder()
    data = {
        "efficientnet_lite0": (pictures, folder / "imagenet_even"),
        "kws_ref_model_float32": (keywords, folder / "mlperf_tiny"),
    }
    settings = {"device": options.device, **({"precision": options.precision} if options.precision else {})}
    found, missing = networks.find(only=list(data), cache=options.cache)
    for entry in missing:
        print(f"left out: {entry.name}: {entry.reason}")
    rows = []
    for network in found:
        read, where = data[network.name]
        if not where.is_dir():
            print(f"left out: {network.name}: no folder {where.name} in the folder of trained models")
        elif read is pictures and find_spec("PIL") is None:
            print(f"left out: {network.name}: pictures need Pillow (pip install pillow)")
        else:
            rows.append(score(network, read(where), options.threads, **settings))
    print(markdown(["network", "examples", "edgec", "onnxruntime", "decisions that differ"], [r.cells() for r in rows]))
    return 1 if any(r.differing > options.differing for r in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
