"""Resident memory of a training in a process of its own.

    python -m benchmarks.training.resident NETWORK BATCH KIND [FOLDER]

KIND is edgec (with the built FOLDER) or eager. Three steps of the network are made on one thread and forgotten, so that
libraries are loaded, and then three more from new weights: the number that is printed is the most bytes that are
resident meanwhile, less those before. Needs Linux.
"""

from __future__ import annotations

import ctypes
import gc
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import torch

from benchmarks.training.modules import CASES, Case
from edgec.artifact.trainer import Trainer

SECONDS = 400.0


def resident(network: str, batch: int, kind: str, folder: Path) -> int:
    """The bytes that the command prints; 0 where it fails or takes too long."""
    words = [sys.executable, "-m", "benchmarks.training.resident", network, str(batch), kind, str(folder)]
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return 0
    return int(done.stdout.split()[-1]) if done.returncode == 0 else 0


def _bytes(field: str) -> int:
    """A field of this process's status, in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith(field))


def _begun() -> int:
    """The resident bytes now, with which the peak begins anew."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")
    return _bytes("VmRSS")


def _ours(case: Case, folder: Path) -> None:
    with Trainer(folder, 1) as trainer:
        for _ in range(3):
            trainer.step(*case.batch(trainer, 0), learning_rate=0.0)


def _theirs(case: Case, batch: int) -> None:
    module, given = case.module(), case.example(batch)
    optimizer = torch.optim.SGD(module.parameters(), 0.0, 0.9)
    target: Any = None
    for _ in range(3):
        optimizer.zero_grad(set_to_none=True)
        answers = module(given)
        if case.loss == "cross_entropy":
            target = torch.zeros(len(answers), dtype=torch.int64) if target is None else target
            loss = torch.nn.functional.cross_entropy(answers, target)
        else:
            target = torch.zeros_like(answers) if target is None else target
            loss = torch.nn.functional.mse_loss(answers, target)
        loss.backward()
        optimizer.step()


def main() -> None:
    network, batch, kind, *folder = sys.argv[1:]
    torch.set_num_threads(1)
    case = CASES[network]
    steps = partial(_ours, case, Path(folder[0])) if kind == "edgec" else partial(_theirs, case, int(batch))
    steps()
    before = _begun()
    steps()
    print(_bytes("VmHWM") - before)


if __name__ == "__main__":
    main()
