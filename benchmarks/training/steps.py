"""Training steps of ten networks beside PyTorch: gradients, losses, time and memory.

    python -m benchmarks.training.steps [--networks PATTERN ...] [--batches N ...] [--threads N ...] [--steps N]
        [--compiled] [--comparing N] [--only check|time|memory] [--until SECONDS] [--beside N] [--folder DIR]
        [--write PAGE]

Every network is a module of PyTorch with random weights (benchmarks/training/modules.py), exported to ONNX and built
with stochastic gradient descent and momentum on all weights. Gradients and losses are compared with the module itself
in double precision, and times taken in turns with it, eager and with --compiled by torch.compile. Needs what
`pip install 'edgec[torch]' torchvision timm transformers` brings. What was built and measured is kept in --folder, in
``rows.jsonl`` as it comes, and a run goes on where another of the same compiler ended; after --until seconds nothing
else is begun, and the page tells what is not measured. Losses of larger batches are compared over a fortieth of the
steps. Beside the page is a picture of the losses of one network, edgec's and PyTorch's.
"""

from __future__ import annotations

import argparse
import shlex
import tempfile
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fnmatch import fnmatch
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch

import edgec
from benchmarks.training.modules import CASES, Case
from benchmarks.training.page import CURVE, OPTIMIZER, page, svg
from benchmarks.training.resident import resident
from benchmarks.training.rows import Held, Row, Rows, code_of
from edgec.artifact.folder import read_lock
from edgec.artifact.trainer import Trainer
from edgec.bench.timing import Timing
from edgec.bench.turns import pinned, take_turns
from edgec.check.torch_training import TorchTraining
from edgec.check.training import check_training
from edgec.errors import EdgecError
from edgec.progress import silent

ROOT = Path(__file__).resolve().parents[2]
#: Builds and rows of runs that name no folder.
FOLDER = Path(tempfile.gettempdir()) / "edgec-training-steps"
#: Losses of larger batches are compared over so many times fewer steps.
FEWER = 40


def _is_asked(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatch(name, pattern) for pattern in patterns)


def exported(case: Case, batch: int) -> onnx.ModelProto:
    """The module as ONNX, with its parameters as they are: none folded into another, none stored once for two."""
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        program = torch.export.export(case.module(), (case.example(batch),))
        proto = torch.onnx.export(program, dynamo=True, verbose=False, optimize=False).model_proto
    return shared(proto, case.module())


def shared(proto: onnx.ModelProto, module: torch.nn.Module) -> onnx.ModelProto:
    """The model with one initializer for a parameter of several names: the first that the module has for it."""
    first = {id(p): name for name, p in module.named_parameters()}
    names = {name: first[id(p)] for name, p in module.named_parameters(remove_duplicate=False)}
    stored: set[str] = set()
    for t in list(proto.graph.initializer):
        t.name = names.get(t.name, t.name)
        if t.name in stored:
            proto.graph.initializer.remove(t)
        stored.add(t.name)
    for node in proto.graph.node:
        node.input[:] = [names.get(i, i) for i in node.input]
    return proto


class Recorded(TorchTraining):
    """PyTorch in double precision, with the losses of its steps."""

    def __init__(self, trainer: Trainer, module: torch.nn.Module) -> None:
        super().__init__(trainer, is_double=True, module=module)
        self.losses: list[float] = []

    def step(self, *arrays: np.ndarray, rate: float | None = None) -> float:
        self.losses.append(super().step(*arrays, rate=rate))
        return self.losses[-1]


def checked(name: str, batch: int, steps: int, folder: Path) -> Row:
    """A network that is built and held against PyTorch; its losses where they are drawn."""
    case = CASES[name]
    module = case.module()
    try:
        optimizer = OPTIMIZER.format(rate=case.rate)
        edgec.build(exported(case, batch), folder, loss=case.loss, optimizer=optimizer, threads=2)
        with Trainer(folder) as trainer:
            lost = {n for n, _ in module.named_parameters()} ^ set(trainer.weights)
            if lost:
                return Row(name, batch, refused=f"trained in one alone: {', '.join(sorted(lost)[:4])}")
            peers: list[Recorded] = []

            def peer() -> Recorded:
                peers.append(Recorded(trainer, module))
                return peers[-1]

            narrow = partial(TorchTraining, trainer, is_double=False, module=module)
            found = check_training(trainer, vs=None, steps=steps, peer=peer, draw=case.batch, narrow=narrow)
            single = in_single(case, trainer, module, peers[-1].losses)
            drawn = curves(case, trainer, module, steps) if name == CURVE else ()
    except (EdgecError, NotImplementedError) as problem:
        return Row(name, batch, refused=str(problem).splitlines()[0])
    return Row(name, batch, found, steps, single, curves=drawn)


def in_single(case: Case, trainer: Trainer, module: torch.nn.Module, wide: Sequence[float]) -> float:
    """The largest difference of the losses of PyTorch in floats of 32 bits from the ``wide`` ones, as a check tells
    those of edgec."""
    narrow = TorchTraining(trainer, is_double=False, module=module)
    data, rate = [case.batch(trainer, k) for k in range(min(8, len(wide)))], trainer.learning_rate / 10
    found = [narrow.step(*data[k % len(data)], rate=rate) for k in range(len(wide))]
    return max(abs(loss - w) / max(1.0, abs(w)) for loss, w in zip(found, wide))


def curves(case: Case, trainer: Trainer, module: torch.nn.Module, steps: int) -> tuple[list[float], list[float]]:
    """The losses of a training from the model's own weights on eight random batches: edgec's and PyTorch's."""
    trainer.reset()
    theirs = TorchTraining(trainer, is_double=False, module=module)
    data, rate = [case.batch(trainer, k) for k in range(8)], trainer.learning_rate / 10
    found = [trainer.step(*data[k % 8], learning_rate=rate) for k in range(steps)]
    return found, [theirs.step(*data[k % 8], rate=rate) for k in range(steps)]


def timed(row: Row, threads: int, compiled: bool, seconds: float, folder: Path) -> Row:
    """The row with times on a number of threads: edgec and PyTorch in turns, with a learning rate of 0."""
    case, before = CASES[row.name], {h.name: h for h in row.held}
    with Trainer(folder, threads) as trainer:
        facts, batch = read_lock(folder)["training"], case.batch(trainer, 0)
        calls: list[Any] = [partial(trainer.step, *batch, learning_rate=0.0)]
        kinds = [Held("edgec", int(facts["state_bytes"]) + int(facts["arena_bytes"]))]
        for is_compiled in (False, True) if compiled else (False,):
            peer = TorchTraining(
                trainer, is_double=False, compiled=is_compiled, threads=threads, rate=0.0, module=case.module()
            )
            tensors = peer.tensors(*batch)
            kinds.append(Held("compiled" if is_compiled else "eager", peer.peak_bytes(tensors)))
            calls.append(partial(peer.advance, tensors))
        with pinned(threads):
            times = [Timing.of(t) for t in take_turns(calls, seconds, 3, silent)]
    for k, (kind, t) in enumerate(zip(kinds, times)):
        old = before.get(kind.name, kind)
        kinds[k] = replace(kind, resident=old.resident, ms={**old.ms, threads: t.p10_ms})
    return replace(row, held=kinds)


def weighed(row: Row, folder: Path) -> Row:
    """The row with memory: as counted, where it was timed, and as resident in processes of their own."""
    facts = read_lock(folder)["training"]
    counted = {"edgec": int(facts["state_bytes"]) + int(facts["arena_bytes"])}
    held = [
        replace(
            h,
            bytes=counted.get(h.name, h.bytes),
            resident=resident(row.name, row.batch, h.name, folder) if h.name != "compiled" else 0,
        )
        for h in row.held
    ]
    return replace(row, held=held)


def measured(row: Row | None, name: str, batch: int, given: argparse.Namespace, folder: Path) -> Iterator[Row]:
    """The row, and again after each thing that was measured of what is asked for and not there yet."""
    if row is not None and row.checked is not None and not (folder / "edgec.lock").is_file():
        row = None  # the build is gone
    if row is None and given.only in (None, "check"):
        steps = given.steps if batch == min(given.batches) else max(3, given.steps // FEWER)
        yield (row := checked(name, batch, steps, folder))
    if row is None or row.checked is None:
        return
    for threads in given.threads if given.only in (None, "time") else ():
        if not row.held or threads not in row.held[-1].ms:
            yield (row := timed(row, threads, given.compiled, given.seconds, folder))
    if given.only in (None, "memory") and row.held and not row.held[0].resident:
        yield weighed(row, folder)


def left(row: Row | None, name: str, batch: int, given: argparse.Namespace) -> str:
    """The part of a network's row that is not measured, in words; nothing where it is whole or refused."""
    where = f"{name} at batch {batch}"
    if row is None:
        return where
    there = row.held[-1].ms if row.held else {}
    threads = [t for t in given.threads if t not in there]
    if row.checked is None or not threads:
        return ""
    return f"{where} on {' and '.join(map(str, threads))} thread{'s' if threads != [1] else ''}"


def main() -> None:
    p = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    p.add_argument("--networks", nargs="+", default=["*"], help=f"patterns of {', '.join(CASES)}")
    p.add_argument("--batches", type=int, nargs="+", default=[1, 8], help="samples of a step")
    p.add_argument("--steps", type=int, default=200, help="of losses to compare")
    p.add_argument("--threads", type=int, nargs="+", default=[1, 2], help="threads to time")
    p.add_argument("--seconds", type=float, default=1.0, help="that each is timed in a round")
    p.add_argument("--compiled", action="store_true", help="time torch.compile too")
    p.add_argument("--comparing", type=int, default=1, help="threads of PyTorch's steps that losses are compared with")
    p.add_argument("--only", choices=["check", "time", "memory"], help="one part of the measurement")
    p.add_argument("--until", type=float, default=2100.0, help="seconds after which nothing else is begun")
    p.add_argument("--beside", type=int, default=0, help="runs on other cores meanwhile, for the page to tell")
    p.add_argument("--folder", type=Path, default=FOLDER, help="what was built and measured")
    p.add_argument("--write", type=Path, help="the page of results")
    given = p.parse_args()
    torch.set_num_threads(given.comparing)  # threads that wait for cores would take most of the time
    begun = time.perf_counter()
    rows = Rows(given.folder / "rows.jsonl", code_of(ROOT))
    for name, batch in ((n, b) for n in CASES for b in given.batches):
        if not _is_asked(name, given.networks):
            continue
        folder = given.folder / f"{name}_{batch}_{rows.code}"
        for row in measured(rows.found.get((name, batch)), name, batch, given, folder):
            rows.put(row)
            told = [f"{h.name} {h.bytes / 2**20:.1f} {h.resident / 2**20:.1f} MiB {h.ms}" for h in row.held]
            print(name, batch, row.refused or row.checked, f"fp32 {row.single:.1e}", *told, flush=True)
            if time.perf_counter() - begun > given.until:
                break
        if time.perf_counter() - begun > given.until:
            print(f"{given.until:g} seconds are over: the same command goes on from here", flush=True)
            break
    of_page = [(name, batch) for name in CASES for batch in given.batches if _is_asked(name, given.networks)]
    found = [rows.found[key] for key in of_page if key in rows.found]
    if given.write is not None:
        flags = f"--steps {given.steps}{' --compiled' if given.compiled else ''} --seconds {given.seconds:g}"
        flags += f" --beside {given.beside}" if given.beside else ""
        flags += f" --networks {shlex.join(given.networks)}" if given.networks != ["*"] else ""
        missing = [what for name, batch in of_page if (what := left(rows.found.get((name, batch)), name, batch, given))]
        command = f"python -m benchmarks.training.steps {flags} --write docs/results/{given.write.name}"
        given.write.write_text(page(found, command, missing, given.beside, f"{given.write.stem}.svg"))
        drawn = next((r for r in found if r.curves), None)
        if drawn is not None:
            title = f"{drawn.name}, batch {drawn.batch}, {OPTIMIZER.format(rate=CASES[drawn.name].rate / 10)}: loss"
            given.write.with_suffix(".svg").write_text(svg(*map(list, drawn.curves), title))
    wrong = [f"{r.name} at batch {r.batch}" for r in found if not r.is_right]
    if wrong:
        raise SystemExit(f"not right: {', '.join(wrong)}")


if __name__ == "__main__":
    main()
