"""Training steps beside PyTorch: time, memory, and how far losses are apart after many steps.

    python -m benchmarks.training.steps [--only PATTERN ...] [--steps N] [--threads N ...] [--write PAGE]

Every network is built with stochastic gradient descent and momentum on all weights, for batches of 1 and of 8 where it
has a batch, and timed on one and two threads in turns with PyTorch, eager. Needs what `pip install 'edgec[torch]'`
brings. Written beside the page is a picture of the losses of one network, edgec's and PyTorch's.
"""

from __future__ import annotations

import argparse
import math
import tempfile
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

import onnx

import edgec
from benchmarks.training.networks import models
from edgec.artifact.trainer import Trainer
from edgec.bench.training import StepTimes, bench_training
from edgec.check.torch_training import TorchTraining
from edgec.check.training import TrainingChecked, batch_of, check_training
from edgec.errors import EdgecError
from edgec.progress import silent

OPTIMIZER = "sgd:lr=0.01,momentum=0.9"
#: The losses of networks whose answers are no scores of classes.
LOSSES = {"unet": "mse", "autoencoder": "mse"}
CURVE = "digits"


@dataclass(frozen=True)
class Row:
    """A network at a batch: its check, and edgec's and PyTorch's times by threads; or why it is not trained."""

    name: str
    batch: int
    checked: TrainingChecked | None = None
    times: tuple[tuple[StepTimes, StepTimes], ...] = ()
    refused: str = ""


def measured(name: str, model: onnx.ModelProto, batch: int, steps: int, counts: list[int], folder: Path) -> Row:
    try:
        edgec.build(model, folder, loss=LOSSES.get(name, "cross_entropy"), optimizer=OPTIMIZER, batch=batch, threads=2)
        with Trainer(folder) as trainer:
            checked = check_training(trainer, vs="torch", steps=steps)
        times = []
        for threads in counts:
            with Trainer(folder, threads) as trainer:
                pair = bench_training(
                    trainer, vs="torch", threads=threads, seconds=1.0, rounds=4, seed=0, progress=silent
                )
                times.append((pair[0], pair[1]))
    except (EdgecError, NotImplementedError) as problem:
        return Row(name, batch, refused=str(problem).splitlines()[0])
    return Row(name, batch, checked, tuple(times))


def curves(folder: Path, steps: int) -> tuple[list[float], list[float]]:
    """The losses of a training from the model's own weights on eight random batches: edgec's and PyTorch's."""
    with Trainer(folder) as trainer:
        theirs = TorchTraining(trainer, is_double=False)
        data = [batch_of(trainer, k) for k in range(8)]
        rate = trainer.learning_rate / 10
        found = [trainer.step(*data[k % 8], learning_rate=rate) for k in range(steps)]
        return found, [theirs.step(*data[k % 8], rate=rate) for k in range(steps)]


def svg(ours: list[float], theirs: list[float], title: str) -> str:
    """A picture of two curves on a logarithmic axis."""
    width, height, left = 640, 300, 56
    low, high = (math.log10(f([max(v, 1e-6) for v in (*ours, *theirs)])) for f in (min, max))

    def points(values: list[float]) -> str:
        spread = max(high - low, 1e-9)
        return " ".join(
            f"{left + k * (width - left - 16) / max(len(values) - 1, 1):.1f},"
            f"{24 + (high - math.log10(max(v, 1e-6))) * (height - 64) / spread:.1f}"
            for k, v in enumerate(values)
        )

    style = 'font-family="sans-serif" font-size="12"'
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" {style}>
<rect width="{width}" height="{height}" fill="white"/>
<text x="{left}" y="16">{title}</text>
<text x="8" y="30">{10**high:.3g}</text><text x="8" y="{height - 38}">{10**low:.3g}</text>
<text x="{width - 80}" y="{height - 12}">step {len(ours)}</text>
<path d="M{left} 20V{height - 36}H{width - 16}" fill="none" stroke="black"/>
<polyline points="{points(theirs)}" fill="none" stroke="#e07b39" stroke-width="5" stroke-opacity="0.5"/>
<polyline points="{points(ours)}" fill="none" stroke="#1f4e79" stroke-width="1.5"/>
<text x="{width - 220}" y="40" fill="#1f4e79">edgec (thin)</text>
<text x="{width - 120}" y="40" fill="#e07b39">PyTorch (wide)</text>
</svg>
"""


def page(rows: list[Row], version: str, steps: int, words: str) -> str:
    """The page of results: rows where PyTorch is faster, and networks that are refused, included."""
    lines = [
        "# Training steps beside PyTorch", "",
        f"Written by `python -m benchmarks.training.steps --steps {steps} {words}",
        f"--write docs/results/training.md`, with {version}, eager. Random data, `{OPTIMIZER}`, all weights.",
        "The two cores had much other work, from which PyTorch's times suffer more than edgec's: the ratio is no more",
        "than a hint. Two threads, tried on digits, are left out: PyTorch took 63.8 and 717.8 ms at batch 1 and 8",
        "as its threads waited for cores, and edgec 0.035 and 0.232 ms, no less than on one.",
        "Times are 10th percentiles in milliseconds, taken in turns; memory is weights, moments and what a step takes",
        "beside them (PyTorch: what its allocator held at most). Gradients and losses are compared with PyTorch in",
        "double precision: the largest difference over the largest gradient of a weight, and of",
        f"{steps} losses at a tenth of the learning rate. PyTorch runs the same ONNX operators; batch normalization",
        "uses the statistics in the file.", "",
        "![losses](training.svg)", "",
        "| network | batch | threads | edgec ms | PyTorch ms | ratio | edgec KiB | PyTorch KiB | gradients | losses |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]  # fmt: skip
    for row in rows:
        for ours, theirs in row.times:
            assert row.checked is not None
            taken = f"{ours.p10_ms:.3f} | {theirs.p10_ms:.3f} | {ours.p10_ms / theirs.p10_ms:.2f}"
            held = f"{ours.memory_bytes / 1024:.0f} | {theirs.memory_bytes / 1024:.0f}"
            apart = f"{row.checked.gradients:.1e} | {row.checked.losses:.1e}"
            lines.append(f"| {row.name} | {row.batch} | {ours.threads} | {taken} | {held} | {apart} |")
    refused = [r for r in rows if r.refused]
    lines += ["", *(f"* {r.name}, batch {r.batch}: not measured: {r.refused}" for r in refused)]
    return "\n".join(lines).rstrip() + "\n"


def main() -> None:
    p = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    p.add_argument("--only", nargs="+", default=["*"], help="networks by patterns")
    p.add_argument("--steps", type=int, default=100, help="of losses to compare")
    p.add_argument("--threads", type=int, nargs="+", default=[1, 2], help="threads to time")
    p.add_argument("--write", type=Path, help="the page of results")
    given = p.parse_args()
    rows, version, picture = [], "PyTorch", ""
    words = f"--only {' '.join(given.only)} --threads {' '.join(map(str, given.threads))}"
    with tempfile.TemporaryDirectory() as scratch:
        for name, model in models().items():
            if not any(fnmatch(name, pattern) for pattern in given.only):
                continue
            first = model.graph.input[0].type.tensor_type.shape.dim[0]
            for batch in (1, 8) if first.dim_value in (0, 1) else (first.dim_value,):
                folder = Path(scratch) / f"{name}_{batch}"
                row = measured(name, model, batch, given.steps, given.threads, folder)
                rows.append(row)
                version = row.times[0][1].name if row.times else version
                told = [f"{t.threads} threads {t.p10_ms:.3f} / {o.p10_ms:.3f} ms" for t, o in row.times]
                print(name, batch, row.refused or row.checked, *told, flush=True)
                if name == CURVE and batch == 8 and row.times:
                    title = f"{name}, batch {batch}, {OPTIMIZER}: loss"
                    picture = svg(*curves(folder, given.steps), title)
                if given.write is not None:  # after each, so that what was measured is there whatever follows
                    given.write.write_text(page(rows, version, given.steps, words))
                    given.write.with_suffix(".svg").write_text(picture)


if __name__ == "__main__":
    main()
