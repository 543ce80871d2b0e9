"""Retraining on EfficientNet-Lite0: points lost and milliseconds, dense, pruned in one shot, and retrained.

    python -m benchmarks.accuracy.retrain --keep DIR --write PAGE

The network is read from its wheel, pictures from ``imagenet_even`` in the folder of trained models (EDGEC_MODELS, or
../shared/models). One half of the pictures trains, without their labels, and some of these calibrate; the other half is
counted, and no build has seen it. Each picture is the only one of its class: what was trained on shows nothing of the
classes that are counted. ``--keep DIR`` holds data, networks, counts and the state of a retraining, and another run
goes on from there; ``--only make`` and ``--only time`` do one part. Times are on one thread, the least of several turns
that all networks take one after the other.
"""

from __future__ import annotations

import argparse
import csv
import json
import shlex
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

import edgec
from benchmarks.accuracy.decisions import CENTER, SPREAD, Example, pictures
from benchmarks.accuracy.prune import NETWORK
from benchmarks.networks import catalog as networks
from benchmarks.table import markdown
from benchmarks.training.machine import processor
from edgec.artifact.network import Network
from edgec.progress import Progress

SETTINGS = "--augment {augment} --batch {batch} --retrain-steps {steps}"


@dataclass(frozen=True)
class Made:
    """A network: what was asked for, its folder, the share of zeros, the kernels that leave them out, pictures that it
    reads right among those it was made by and among the others, seconds of the build, and the first and the last
    distance of a retraining."""

    sparsity: float
    is_retrained: bool
    folder: str
    zeros: float
    sparse: int
    seen: int
    unseen: int
    seconds: float
    losses: tuple[float, float] | None = None

    @property
    def told(self) -> str:
        if not self.sparsity:
            return "dense"
        return f"{self.sparsity:.0%}, {'retrained' if self.is_retrained else 'one shot'}"


def whole(folder: Path) -> list[np.ndarray]:
    """Every picture as the network takes it, f32[3,256,256], in the order of the labels."""
    from PIL import Image

    found = []
    with open(folder / "labels.csv", newline="") as stream:
        for row in csv.DictReader(stream):
            with Image.open(folder / row["file"]) as image:
                pixels = np.asarray(image.convert("RGB"), np.float32)
            found.append(((pixels - CENTER) / SPREAD).transpose(2, 0, 1))
    return found


def made(
    path: Path, sparsity: float, is_retrained: bool, given: argparse.Namespace, parts: Sequence[Sequence[Example]]
) -> Made:
    """A network that is built and counted; what an earlier run left, where there is something."""
    name = f"{sparsity:g}{'-retrained' if is_retrained else ''}" if sparsity else "dense"
    folder, kept = given.keep / name, given.keep / f"{name}.json"
    if kept.is_file():
        entry = json.loads(kept.read_text())
        return Made(**{**entry, "losses": tuple(entry["losses"]) if entry["losses"] else None})
    settings: dict[str, object] = {}
    if sparsity:
        settings = {"prune": "vector", "sparsity": sparsity, "calibrate": given.keep / "calibrate.npz"}
    if is_retrained:
        settings |= {
            "retrain": given.keep / "train.npz", "retrain_steps": given.steps, "augment": given.augment,
            "batch": given.batch, "retrain_state": given.keep / f"{name}-state.npz",
        }  # fmt: skip
    begun = time.monotonic()
    progress: Progress = _Told()
    built = edgec.build(path, folder, threads=1, progress=progress, **settings)  # type: ignore[arg-type]
    compressed = built.stages["compress"]
    zeros = compressed.pruned.report.zeros if sparsity else 0.0
    sparse = sum(k.sparsity is not None and k.sparsity.taken for k in built.stages["schedule"].kernels)
    run = Network(folder)
    seen, unseen = (sum(int(np.argmax(_result(run, x))) == label for x, label in part) for part in parts)
    learned = compressed.retrained
    losses = (learned.first, learned.last) if learned is not None else None
    spent = time.monotonic() - begun
    found = Made(sparsity, is_retrained, str(folder), float(zeros), sparse, seen, unseen, spent, losses)
    kept.write_text(json.dumps(asdict(found)))
    return found


class _Told:
    """Progress of a retraining on the standard error, a line every half a minute."""

    def __init__(self) -> None:
        self.last = 0.0

    def __call__(self, stage: str, detail: str = "", part: float | None = None) -> None:
        if part is not None and time.monotonic() - self.last > 30:
            self.last = time.monotonic()
            print(f"{stage}: {detail}", file=sys.stderr, flush=True)


def _result(run: Network, x: np.ndarray) -> np.ndarray:
    return next(iter(run.run({run.inputs[0].onnx_name: x}).values()))


def timed(found: Sequence[Made], x: np.ndarray, turns: int = 60) -> list[float]:
    """Seconds of each network, the least of its turns."""
    runs = [Network(m.folder) for m in found]
    best = [float("inf")] * len(runs)
    for _ in range(turns):
        for k, run in enumerate(runs):
            begun = time.perf_counter()
            _result(run, x)
            best[k] = min(best[k], time.perf_counter() - begun)
    return best


def page(found: Sequence[Made], seconds: Sequence[float], counts: Sequence[int], given: argparse.Namespace) -> str:
    """The page of results."""
    dense = found[0]
    rows = []
    for m, s in zip(found, seconds):
        zeros, sparse, points = ("",) * 3
        if m.sparsity:
            zeros, sparse, points = f"{m.zeros:.0%}", str(m.sparse), _points(m, dense, counts[1])
        distance = "" if m.losses is None else f"{m.losses[0]:.3g} to {m.losses[1]:.3g}"
        right = [f"{m.unseen / counts[1]:.1%}", points, f"{m.seen / counts[0]:.1%}"]
        ms = [f"{1e3 * s:.2f}", f"{seconds[0] / s:.2f}"] if np.isfinite(s) else ["", ""]
        rows.append([m.told, zeros, sparse, *right, *ms, distance])
    heads = [
        "network", "zeros", "sparse kernels", "top-1, unseen", "points", "top-1, seen", "ms", "over dense", "distance",
    ]  # fmt: skip
    flags = " ".join(f"{s:g}" for s in given.sparsity)
    command = shlex.join(["python", "-m", "benchmarks.accuracy.retrain", "--sparsity", *flags.split(), "--steps",
                          str(given.steps), "--keep", "DIR", "--write", str(given.write)])  # fmt: skip
    settings = SETTINGS.format(augment=given.augment, batch=given.batch, steps=given.steps)
    return f"""# Retraining a pruned network

Written by `{command}`
on {time.strftime("%Y-%m-%d")}, {processor()}: EfficientNet-Lite0, fp32, one thread, the least
of 60 turns that the networks take one after the other.

`edgec build efficientnet_lite0.onnx --prune vector --sparsity S --calibrate calibrate.npz` in one shot, and with
`--retrain train.npz {settings}`. {counts[0]} pictures
train, without labels, {given.calibrate} of them calibrate, and {counts[1]} others, each of another class, are counted
(*unseen*); *seen* are those that it was trained on. Points are those of top-1 on unseen pictures beside the dense
network; one picture is {100 / counts[1]:.2f} points. Zeros are those of all layers that can be pruned. The distance is
that of the answers and the results of the layers from the dense network's, over the first and the last twentieth of the
steps.

{markdown(heads, rows, 1)}"""


def _points(m: Made, dense: Made, count: int) -> str:
    return f"{100 * (m.unseen - dense.unseen) / count:+.1f}"


def main(arguments: list[str] | None = None) -> int:
    p = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    p.add_argument("--sparsity", nargs="+", type=float, default=[0.5, 0.8], help="shares of zeros")
    p.add_argument("--steps", type=int, default=500, help="of a retraining")
    p.add_argument("--calibrate", type=int, default=80, help="pictures that pruning is calibrated by")
    p.add_argument("--batch", type=int, default=4, help="pictures of a step")
    p.add_argument("--augment", default="mirror,mix,zoom", help="changes to pictures")
    p.add_argument("--network", type=Path, help=f"{NETWORK}.onnx, by default from its wheel")
    p.add_argument("--keep", type=Path, required=True, help="a folder for data, networks and counts, to go on from")
    p.add_argument("--only", choices=["make", "time"], help="networks and counts, or times of those there are")
    p.add_argument("--write", type=Path, help="the page of results")
    given = p.parse_args(arguments)
    path = given.network or next(n.path for n in networks.find(only=[NETWORK])[0])
    folder = networks.models_folder() / "imagenet_even"
    given.keep.mkdir(exist_ok=True, parents=True)
    examples = list(pictures(folder))
    order = np.random.default_rng(0).permutation(len(examples))
    seen, unseen = order[: len(order) // 2], order[len(order) // 2 :]
    if not (given.keep / "train.npz").is_file():
        everything = whole(folder)
        some = seen[: given.calibrate]
        np.savez(given.keep / "calibrate.npz", image=np.concatenate([examples[i][0] for i in some]))
        np.savez(given.keep / "train.npz", image=np.stack([everything[i] for i in seen]))
    parts = [[examples[i] for i in part] for part in (seen, unseen)]
    asked = [(0.0, False), *((s, r) for s in given.sparsity for r in (False, True))]
    if given.only == "time":
        names = [f"{s:g}{'-retrained' if r else ''}" if s else "dense" for s, r in asked]
        asked = [a for a, name in zip(asked, names) if (given.keep / f"{name}.json").is_file()]
    found = []
    for sparsity, is_retrained in asked:
        found.append(made(path, sparsity, is_retrained, given, parts))
        m = found[-1]
        told = f"{m.told}: {m.zeros:.0%} zeros, {m.unseen} of {len(unseen)} unseen, {m.seen} of {len(seen)} seen"
        print(f"{told} ({m.seconds:.0f} s)", file=sys.stderr, flush=True)
    seconds = timed(found, parts[1][0][0]) if given.only != "make" else [float("nan")] * len(found)
    text = page(found, seconds, [len(seen), len(unseen)], given)
    print(text)
    if given.write:
        given.write.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
