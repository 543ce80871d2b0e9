"""A training step of one network that nobody tuned for, built and held against PyTorch in a process of its own.

python -m benchmarks.training.unseen_one JOB.json ROW.json
"""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import edgec
from benchmarks.alone import Row, serve, write
from edgec.artifact.folder import read_lock
from edgec.artifact.trainer import Trainer
from edgec.check.training import check_training
from edgec.errors import EdgecError, UsageError
from edgec.ir.types import Type

#: What is drawn for each network; a bare `all` is drawn as often as the others together.
LORA = "lora=4"
UPDATES = ("all", "all", "all", "all", "bias", "norm", "last:2", LORA)
#: Operators with a matrix that an adapter stands beside.
MATRICES = {"MatMul", "Gemm"}
OPTIMIZERS = (
    "sgd:lr=0.001",
    "sgd:lr=0.001,momentum=0.9",
    "sgd:lr=0.001,momentum=0.9,weight_decay=0.01,clip=1",
    "adam:lr=0.0001",
    "adamw:lr=0.0001,weight_decay=0.01",
)
BATCHES = (1, 1, 2, 3)
#: Losses for answers of any shape, and classes of those that have one row of them a sample.
LOSSES, CLASSES = ("mse", "l1", "hinge"), 2


def drawn(name: str, seed: int, outputs: Mapping[str, Type], operators: Iterable[str]) -> dict[str, Any]:
    """Settings for a network with these outputs and operators, the same for the same seed; none without floats."""
    chance = random.Random(f"{seed} {name}")
    floats = [n for n, type in outputs.items() if type.dtype == "f32"]
    if not floats:
        return {}
    output = chance.choice(floats)
    shape = outputs[output].shape
    of_classes = len(shape) == 2 and isinstance(shape[1], int) and shape[1] >= CLASSES
    loss = chance.choice(("cross_entropy", *LOSSES) if of_classes else LOSSES)
    return {
        "loss": f"{loss}:{output}",
        "update": chance.choice([u for u in UPDATES if u != LORA or MATRICES & {*operators}]),
        "optimizer": chance.choice(OPTIMIZERS),
        "batch": chance.choice(BATCHES),
        "batch_norm": chance.choice(("file", "batch") if "BatchNormalization" in operators else ("file",)),
    }


def run(job: Mapping[str, Any], target: Path) -> None:
    """Write the row after every step."""
    row: Row = {"step": "import"}
    write(row, target)
    try:
        model = edgec.load(job["path"], shapes=job["shapes"], values=job["values"])
        settings = drawn(job["name"], job["seed"], model.outputs, model.operators)
        row.update(settings=settings)
        if not settings:
            row.update(refused="no output is of floats", step="draw")
            return
        row["step"] = "build"
        write(row, target)
        begun = time.process_time()
        with tempfile.TemporaryDirectory() as folder:
            built = edgec.build(
                job["path"], Path(folder) / "out", shapes=job["shapes"], values=job["values"], threads=2, **settings
            )
            row["build_seconds"] = round(time.process_time() - begun, 1)
            facts = read_lock(built.folder)["training"]
            row.update({k: facts[k] for k in ("trained", "state_bytes", "arena_bytes", "kernels")}, step="check")
            write(row, target)
            with Trainer(built.folder, 2) as trainer:
                try:
                    found = check_training(trainer, vs="torch", steps=job["steps"])
                except UsageError:  # an operator that is not run in PyTorch
                    found = check_training(trainer, vs=None, steps=job["steps"])
        row.update(
            right=found.ok, gradients=found.gradients, worst=found.worst, losses=found.losses, bounds=found.bounds,
            step="done",
            reference=found.reference, differences=found.differences,
        )  # fmt: skip
    except EdgecError as refusal:
        row["refused" if row["step"] in ("import", "build") else "error"] = " ".join(str(refusal).split())[:600]
    except Exception as problem:
        row["error"] = f"{type(problem).__name__}: {' '.join(str(problem).split())[:400]}"
    finally:
        write(row, target)


def main() -> None:
    serve(run, __doc__)


if __name__ == "__main__":
    main()
