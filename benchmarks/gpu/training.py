"""Training steps on an NVIDIA GPU beside PyTorch's on the same machine, all in one run.

    python -m benchmarks.gpu.training [--only PATTERN ...] [--seconds 420] [--launches 12] [--rows ROWS.jsonl]
        [--write PAGE]

A row is a network at a batch and a precision. Modules are exported, built for CUDA with stochastic gradient descent and
momentum on all weights, and their gradients and losses compared with the module in double precision on the processor.
PyTorch runs the same module and optimizer eagerly, the eager step as a CUDA graph, and with the loss through
torch.compile. Each row has a process of its own; they get ready side by side, and take turns in being timed when all
are, or at three quarters of ``--seconds``. ``--launches`` prints the longest launches. ``--dry`` runs without a GPU:
kernels in emulation, no times. ``--write`` without a run (``--only none``) writes the page of the rows that are there.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
import tempfile
import time
from collections.abc import Callable
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from benchmarks.alone import Row, append_row, read_rows
from benchmarks.gpu import training_page, zoo_page
from benchmarks.gpu.turns import Turns, take

DEVICE, OPTIMIZER = "cuda_sm90", "sgd:lr={rate},momentum=0.9"
#: The part of the time in which rows are made ready, and steps whose losses are compared.
READY, STEPS = 0.75, 10
#: The rows: network, batch and precision.
ROWS = {
    f"{name}:{batch}:{precision}": {"network": name, "batch": batch, "precision": precision}
    for name, batches, precisions in (
        ("mobilenet_v2", (1, 8), ("fp32", "tf32", "fp16", "bf16")),
        ("resnet18", (1, 8), ("fp32", "tf32", "fp16", "bf16")),
        ("bert_large_layer", (8,), ("fp32", "tf32", "fp16", "bf16")),
        ("ds_cnn", (1, 8), ("fp32",)),
    )
    for batch in batches
    for precision in precisions
}


class One:
    """One row: the steps until it can be timed, and what was found."""

    def __init__(self, name: str, entry: dict[str, Any], folder: Path, is_dry: bool, launches: int) -> None:
        self.entry, self.folder, self.is_dry, self.launches = entry, folder, is_dry, launches
        self.row: Row = {"name": name, **entry}
        self.calls: dict[str, Callable[[], list[float]]] = {}

    def prepare(self) -> None:
        import torch

        from benchmarks.gpu.torch_steps import GRAPH, MODES, fastest, peak_bytes
        from benchmarks.gpu.training_cases import CASES

        torch.set_num_threads(4)
        case, precision = CASES[self.entry["network"]], self.entry["precision"]
        module = case.module()
        arrays = self._build(case, module)
        self._begin("torch")
        if not self.is_dry:
            self.row["torch_bytes"] = peak_bytes(module, case.loss, precision, arrays)
        theirs = fastest(module, case.loss, precision, arrays)
        self.row["channels_last"] = theirs.is_last
        if not self.is_dry:
            from benchmarks.gpu import torch_modes

            ways, self.row["torch"] = theirs.ways([m for m in MODES if m != GRAPH])
            #  A graph is captured when it is its turn: what is compiled after it takes memory that it has let go.
            self.calls |= {GRAPH: lambda: torch_modes.times(theirs.way(GRAPH))}
            self.calls |= {mode: lambda run=run: torch_modes.times(run) for mode, run in ways.items()}  # type: ignore[misc]
        self._begin("time")

    def _begin(self, step: str) -> None:
        """Says what comes next, also to those who wait."""
        self.row["step"] = step
        (self.folder / "step").write_text(step, encoding="utf-8")

    def _build(self, case: Any, module: Any) -> list[Any]:
        """Build the step, hold it against the module in double precision, and return a batch."""
        import edgec
        from benchmarks.training.steps import exported
        from edgec.artifact.folder import read_lock
        from edgec.artifact.trainer import Trainer
        from edgec.check.torch_training import TorchTraining
        from edgec.check.training import check_training

        self._begin("export")
        model = exported(case, self.entry["batch"])
        self._begin("build")
        given: dict[str, Any] = {"compiler": "emulated"} if self.is_dry else {}
        if self.entry["precision"] != "fp32":
            given["precision"] = self.entry["precision"]
        optimizer = OPTIMIZER.format(rate=case.rate)
        built = edgec.build(model, self.folder / "net", loss=case.loss, optimizer=optimizer, device=DEVICE, **given)
        self.row |= {"compile_s": round(built.seconds.get("compile", 0.0), 1)}
        facts = read_lock(self.folder / "net")["training"]
        self.row["bytes"] = int(facts["state_bytes"]) + int(facts["arena_bytes"]) + built.weights_bytes
        self.row["launches"] = int(facts["kernels"])
        self._begin("check")
        trainer = Trainer(self.folder / "net")
        place = "cpu" if self.is_dry else "cuda"
        checked = check_training(
            trainer, vs=None, steps=2 if self.is_dry else STEPS, draw=case.batch,
            peer=lambda: TorchTraining(trainer, is_double=True, module=module, place=place),
        )  # fmt: skip
        self.row |= {"gradients": checked.gradients, "worst": checked.worst, "losses": checked.losses}
        arrays: list[Any] = case.batch(trainer, 0)
        if not self.is_dry:
            training = built.program.training
            assert training is not None
            self.described = [f"{k.template} {k.describe}"[:300] for k in training.step.kernels]
            self.calls["edgec"] = lambda: self._ours(trainer, arrays)
        return arrays

    def _ours(self, trainer: Any, arrays: list[Any]) -> list[float]:
        trainer.step(*arrays, learning_rate=0.0)
        trainer.stepping.milliseconds(30)
        found = sorted(trainer.stepping.milliseconds(60) for _ in range(7))
        if self.launches:
            each = trainer.stepping.launches(len(self.described))
            longest = sorted(zip(each, range(len(each)), self.described), reverse=True)[: self.launches]
            self.row["longest"] = [[round(ms * 1e3, 1), k, said] for ms, k, said in longest]
            self.row["sum_of_launches"] = sum(each)
        return found

    def time(self) -> None:
        self.row["ms"] = {}
        for name, call in self.calls.items():
            try:
                self.row["ms"][name] = call()
            except Exception as error:
                self.row[f"{name}_failed"] = f"{type(error).__name__}: {error}"[:200]
        self.row["step"] = "done"


def one(job: dict[str, Any]) -> None:
    """The process of one row."""
    entry = dict(job["entry"])
    take(lambda: One(entry.pop("name"), entry, Path(job["folder"]), job["is_dry"], entry.pop("longest")))


def main() -> None:
    p = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    p.add_argument("--only", nargs="+", default=["*"], help=f"patterns of {', '.join(ROWS)}")
    p.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="rows made ready side by side")
    p.add_argument("--seconds", type=float, default=420, help="of the whole run")
    p.add_argument("--launches", type=int, default=0, help="the longest launches that are printed")
    p.add_argument("--rows", type=Path, default=Path(tempfile.gettempdir()) / "training_gpu.jsonl")
    p.add_argument("--write", type=Path, help="the page of results")
    p.add_argument("--dry", action="store_true")
    p.add_argument("--one", help=argparse.SUPPRESS)
    options = p.parse_args()
    if options.one:
        one(json.loads(options.one))
        return
    chosen = {name: e for name, e in ROWS.items() if any(fnmatch(name, pattern) for pattern in options.only)}
    if chosen:
        options.rows.unlink(missing_ok=True)
        until = time.time() + READY * options.seconds
        turns = Turns(__spec__.name, options.jobs, until, until + (1 - READY) * options.seconds)
        machine = zoo_page.machine(options.dry)
        entries = {name: {"name": name, "longest": options.launches, **e} for name, e in chosen.items()}
        for row in turns.rows(entries, options.dry):
            append_row(options.rows, row | machine | {"command": shlex.join(sys.argv[1:])})
            print(json.dumps({k: v for k, v in row.items() if k != "longest"})[:1200], flush=True)
            for us, k, said in row.get("longest", ()):
                print(f"    {us:8.1f} us  launch {k}: {said}", flush=True)
    text = training_page.text(list(read_rows(options.rows).values()))
    print(text)
    if options.write:
        options.write.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
