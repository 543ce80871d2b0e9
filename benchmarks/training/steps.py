"""Training steps of ten networks beside PyTorch: gradients, losses, time and memory.

    python -m benchmarks.training.steps [--networks PATTERN ...] [--batches N ...] [--threads N ...] [--steps N]
        [--compiled] [--untimed] [--write PAGE]

Every network is a module of PyTorch with random weights (benchmarks/training/modules.py), exported to ONNX and built
with stochastic gradient descent and momentum on all weights. Gradients and losses are compared with the module itself
in double precision, and times taken in turns with it, eager and with --compiled by torch.compile. Needs what
`pip install 'edgec[torch]' torchvision timm transformers` brings. Beside the page is a picture of the losses of one
network, edgec's and PyTorch's.
"""

from __future__ import annotations

import argparse
import math
import tempfile
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatch
from functools import partial
from pathlib import Path
from typing import Any

import onnx
import torch

import edgec
from benchmarks.training.modules import CASES, Case
from edgec.artifact.folder import read_lock
from edgec.artifact.trainer import Trainer
from edgec.bench.timing import Timing
from edgec.bench.turns import pinned, take_turns
from edgec.check.torch_training import TorchTraining
from edgec.check.training import TrainingChecked, batch_of, check_training
from edgec.errors import EdgecError
from edgec.progress import silent

OPTIMIZER = "sgd:lr={rate},momentum=0.9"
CURVE = "digits"


@dataclass(frozen=True)
class Held:
    """A training of one kind: 10th percentile of a step in milliseconds by threads, and its bytes."""

    name: str
    bytes: int
    ms: dict[int, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Row:
    """A network at a batch: its check, and what edgec and its peers take; or why it is not trained."""

    name: str
    batch: int
    checked: TrainingChecked | None = None
    single: float = 0.0
    held: Sequence[Held] = ()
    refused: str = ""

    @property
    def is_right(self) -> bool:
        return self.checked is not None and self.checked.ok


def exported(case: Case, batch: int) -> onnx.ModelProto:
    """The module as ONNX, with its parameters as they are: none folded into another, none stored once for two."""
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        program = torch.export.export(case.module(), (case.example(batch),))
        proto = torch.onnx.export(program, dynamo=True, verbose=False, optimize=False).model_proto
    return shared(proto, case.module())


def shared(proto: onnx.ModelProto, module: torch.nn.Module) -> onnx.ModelProto:
    """The model with one initializer for a parameter of several names, as the module has it."""
    first = {id(p): name for name, p in module.named_parameters()}
    every = module.named_parameters(remove_duplicate=False)
    names = {name: first[id(p)] for name, p in every if name != first[id(p)]}
    kept = set(first.values()) & {t.name for t in proto.graph.initializer}
    for t in list(proto.graph.initializer):
        if names.get(t.name) in kept:
            proto.graph.initializer.remove(t)
    for node in proto.graph.node:
        node.input[:] = [names[i] if names.get(i) in kept else i for i in node.input]
    return proto


def measured(name: str, batch: int, given: argparse.Namespace, folder: Path) -> Row:
    case = CASES[name]
    module = case.module()
    try:
        optimizer = OPTIMIZER.format(rate=case.rate)
        edgec.build(exported(case, batch), folder, loss=case.loss, optimizer=optimizer, threads=2)
        with Trainer(folder) as trainer:
            lost = {n for n, _ in module.named_parameters()} ^ set(trainer.weights)
            if lost:
                return Row(name, batch, refused=f"trained in one alone: {', '.join(sorted(lost)[:4])}")
            checked = check_training(
                trainer,
                vs=None,
                steps=given.steps,
                peer=lambda: TorchTraining(trainer, is_double=True, module=module),
                draw=case.batch,
            )
            single = in_single(case, trainer, module, given.steps)
        held = [] if given.untimed else timed(folder, case, module, given)
    except (EdgecError, NotImplementedError) as problem:
        return Row(name, batch, refused=str(problem).splitlines()[0])
    return Row(name, batch, checked, single, held)


def in_single(case: Case, trainer: Trainer, module: torch.nn.Module, steps: int) -> float:
    """The largest difference of the losses of PyTorch in floats of 32 and 64 bits, as a check tells those of edgec."""
    kinds = [TorchTraining(trainer, is_double=wide, module=module) for wide in (False, True)]
    data, rate, apart = [case.batch(trainer, k) for k in range(8)], trainer.learning_rate / 10, 0.0
    for k in range(steps):
        narrow, wide = (kind.step(*data[k % 8], rate=rate) for kind in kinds)
        apart = max(apart, abs(narrow - wide) / max(1.0, abs(wide)))
    return apart


def timed(folder: Path, case: Case, module: torch.nn.Module, given: argparse.Namespace) -> list[Held]:
    """edgec and PyTorch in turns, on each number of threads, with a learning rate of 0."""
    found: list[Held] = []
    for threads in given.threads:
        with Trainer(folder, threads) as trainer:
            facts, batch = read_lock(folder)["training"], case.batch(trainer, 0)
            calls: list[Any] = [partial(trainer.step, *batch, learning_rate=0.0)]
            kinds = [Held("edgec", int(facts["state_bytes"]) + int(facts["arena_bytes"]))]
            for compiled in (False, True) if given.compiled else (False,):
                peer = TorchTraining(
                    trainer, is_double=False, compiled=compiled, threads=threads, rate=0.0, module=module
                )
                tensors = peer.tensors(*batch)
                kinds.append(Held("compiled" if compiled else "eager", peer.peak_bytes(tensors)))
                calls.append(partial(peer.advance, tensors))
            with pinned(threads):
                times = [Timing.of(t) for t in take_turns(calls, given.seconds, 3, silent)]
        found = found or kinds
        for kind, t in zip(found, times):
            kind.ms[threads] = t.p10_ms
    return found


def curves(folder: Path, module: torch.nn.Module, steps: int) -> tuple[list[float], list[float]]:
    """The losses of a training from the model's own weights on eight random batches: edgec's and PyTorch's."""
    with Trainer(folder) as trainer:
        theirs = TorchTraining(trainer, is_double=False, module=module)
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


def page(rows: list[Row], given: argparse.Namespace) -> str:
    """The page of results: rows where PyTorch is faster, and networks that are refused, included."""
    words = f"--networks {' '.join(given.networks)} --batches {' '.join(map(str, given.batches))}"
    words += f" --threads {' '.join(map(str, given.threads))}"
    words += "".join(f" --{flag}" for flag in ("compiled", "untimed") if getattr(given, flag))
    lines = [
        "# Training steps beside PyTorch", "",
        f"Written by `python -m benchmarks.training.steps {words}",
        f"--steps {given.steps} --write docs/results/training.md`, with PyTorch {torch.__version__}.",
        f"Random weights and data, `{OPTIMIZER.format(rate=0.01)}` on all weights (`lr=0.001` for resnet18 and",
        "vit_tiny); batch normalization uses its statistics. Gradients and losses are compared with the module in",
        "double precision: the largest difference over the largest gradient of a weight (at most 1e-4 passes), and of",
        f"{given.steps} losses at a tenth of the learning rate over the larger of 1 and the loss (at most 1e-3), then",
        "those of PyTorch itself in fp32. Times are 10th percentiles in milliseconds of steps in turns, so that other",
        "work of the machine meets both; the ratio is edgec's time over the least of PyTorch's. Memory is weights,",
        "moments and what a step takes beside them (PyTorch: what its allocator held at most), in MiB.", "",
        *(["![losses](training.svg)", ""] if any(r.name == CURVE and r.checked for r in rows) else []),
        "| network | batch | gradients | losses | PyTorch fp32 | threads | edgec ms | PyTorch ms | ratio |"
        " edgec MiB | PyTorch MiB |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]  # fmt: skip
    for row in rows:
        if row.checked is None:
            continue
        apart = f"{row.checked.gradients:.1e} | {row.checked.losses:.1e}{'' if row.is_right else ' (fails)'}"
        begin = f"| {row.name} | {row.batch} | {apart} | {row.single:.1e}"
        if not row.held:
            lines.append(f"{begin} | | | | | | |")
            continue
        ours, *theirs = row.held
        for threads, ms in ours.ms.items():
            each = " / ".join(f"{p.ms[threads]:.3g} {p.name}" for p in theirs)
            ratio = ms / min(p.ms[threads] for p in theirs)
            held = " / ".join(f"{p.bytes / 2**20:.1f}" for p in theirs)
            lines.append(f"{begin} | {threads} | {ms:.3g} | {each} | {ratio:.2f} | {ours.bytes / 2**20:.1f} | {held} |")
    refused = [r for r in rows if r.refused]
    lines += ["", *(f"* {r.name}, batch {r.batch}: not measured: {r.refused}" for r in refused)]
    return "\n".join(lines).rstrip() + "\n"


def main() -> None:
    p = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    p.add_argument("--networks", nargs="+", default=["*"], help=f"patterns of {', '.join(CASES)}")
    p.add_argument("--batches", type=int, nargs="+", default=[1, 8], help="samples of a step")
    p.add_argument("--steps", type=int, default=200, help="of losses to compare")
    p.add_argument("--threads", type=int, nargs="+", default=[1, 2], help="threads to time")
    p.add_argument("--seconds", type=float, default=1.0, help="that each is timed in a round")
    p.add_argument("--compiled", action="store_true", help="time torch.compile too")
    p.add_argument("--untimed", action="store_true", help="compare gradients and losses alone")
    p.add_argument("--write", type=Path, help="the page of results")
    given = p.parse_args()
    torch.set_num_threads(1)  # of comparisons: threads that wait for cores would take most of the time
    rows = []
    for name in CASES:
        if not any(fnmatch(name, pattern) for pattern in given.networks):
            continue
        for batch in given.batches:
            with tempfile.TemporaryDirectory() as scratch:
                begun = time.perf_counter()
                row = measured(name, batch, given, Path(scratch) / "out")
                rows.append(row)
                told = [f"{h.name} {h.bytes / 2**20:.1f} MiB {h.ms}" for h in row.held]
                told.append(f"{time.perf_counter() - begun:.0f} s")
                print(name, batch, row.refused or row.checked, f"fp32 {row.single:.1e}", *told, flush=True)
                if name == CURVE and row.checked and given.write is not None:
                    title = f"{name}, batch {batch}, {OPTIMIZER.format(rate=CASES[name].rate)}: loss"
                    picture = svg(*curves(Path(scratch) / "out", CASES[name].module(), given.steps), title)
                    given.write.with_suffix(".svg").write_text(picture)
            if given.write is not None:  # after each, so that what was measured is there whatever follows
                given.write.write_text(page(rows, given))
    wrong = [f"{r.name} at batch {r.batch}" for r in rows if not r.is_right]
    if wrong:
        raise SystemExit(f"not right: {', '.join(wrong)}")


if __name__ == "__main__":
    main()
