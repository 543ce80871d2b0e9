"""The demo: the shipped digits network, built, checked on pictures it has never seen, and timed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.console import Group, RenderableType
from rich.markup import escape

from edgec.api import bench
from edgec.bench.timing import Benched
from edgec.build import Built, build
from edgec.check.compare import compare_all, worst
from edgec.check.reference import Reference
from edgec.check.unavailable import Unavailable
from edgec.options import Settings
from edgec.progress import Progress, silent
from edgec.report import bench as bench_report
from edgec.report import build as build_report
from edgec.report.record import Record
from edgec.report.terminal import error_text, pairs, size
from edgec.resources import data_folder
from edgec.text import counted


@dataclass(frozen=True)
class Demo:
    """Result of the demo; ``max_abs`` and ``max_rel`` are relative to onnxruntime, None if that is not installed."""

    built: Built
    pictures: int
    right: int
    max_abs: float | None
    max_rel: float | None
    reference: str
    benched: Benched

    @property
    def accuracy(self) -> float:
        return self.right / self.pictures


def digits() -> tuple[Path, np.ndarray, np.ndarray]:
    """The network's file, the test pictures [N, 1, 8, 8] and their labels [N]."""
    folder = data_folder("apps") / "digits"
    with np.load(folder / "digits_test.npz") as data:
        return folder / "digits.onnx", data["image"], data["label"]


def demo(out: str | Path, settings: Settings, progress: Progress = silent) -> Demo:
    """Build the digits network in ``out``, read every test picture with it, and time it beside onnxruntime."""
    path, images, labels = digits()
    built = build(path, out, progress=progress, **settings)
    got = np.concatenate([built(image[None]) for image in images])
    right = int((got.argmax(1) == labels).sum())
    assert built.onnx is not None
    try:
        reference = Reference(built.onnx)
        want = np.concatenate([next(iter(reference.run({"image": image[None]}).values())) for image in images])
    except Unavailable as missing:
        return Demo(built, len(labels), right, None, None, missing.message, bench(built, progress=progress))
    difference = worst(compare_all({"": got}, {"": want}))
    benched = bench(built, vs="onnxruntime", inputs={"image": images[:1]}, progress=progress)
    return Demo(built, len(labels), right, difference.max_abs, difference.max_rel, reference.name, benched)


def record(done: Demo) -> Record:
    """The record of its build, with what was found on the pictures and its times."""
    return {
        **build_report.record(done.built),
        "command": "demo",
        "pictures": done.pictures,
        "accuracy": done.accuracy,
        "max_abs": done.max_abs,
        "max_rel": done.max_rel,
        "reference": done.reference,
        "bench": bench_report.record(done.benched, done.built.options.device.name),
    }


def draw(found: Record) -> RenderableType:
    bound = f"{size(found['arena_bytes'])} arena, {size(found['weights_bytes'])} weights"
    right = round(found["accuracy"] * found["pictures"])
    far = error_text(found["max_rel"])
    beside = "onnxruntime is not installed: nothing to compare with" if found["max_rel"] is None else (
        f"largest difference {error_text(found['max_abs'])}, {far} of the largest value, beside {found['reference']}"
    )  # fmt: skip
    rows: list[tuple[str, RenderableType]] = [
        (
            "network",
            f"handwritten digits: {counted(found['operators'], 'operator')} "
            f"in {counted(found['kernels'], 'kernel')}, {bound}",
        ),
        ("built in", f"{found['seconds']['total']:.2f} s by {escape(found['compiler'] or 'no compiler')}"),
        ("accuracy", f"[bold]{found['accuracy']:.1%}[/]: {right} of {found['pictures']} pictures it has never seen"),
        ("error", escape(beside)),
    ]
    sources = f"The C is in [bold]{escape(found['folder'])}/[/]: start with {found['name']}.h and main.c"
    return Group(pairs(rows), "", bench_report.draw(found["bench"]), "", sources)
