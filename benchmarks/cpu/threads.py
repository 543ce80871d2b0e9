"""Gain of a second thread, kernel by kernel, and what limits it.

    python -m benchmarks.cpu.threads MODEL.onnx [--threads 2] [--top 20] [--loss cross_entropy] [--compiler KIND]
        [--under COMMAND]

With --loss it is the training step of the model. Runs on one thread and on all are in turns, and times are low
percentiles. First come those of whole runs, beside what the machine itself gains: multiply-adds, and reading as many
bytes as the network has. Then kernels, from a build with clocks: a thread's work in a kernel ends where it enters the
next barrier, and the rest is waiting. What a kernel takes beyond its part of the time on one thread is in three
columns: ``uneven``, what the longest share has beyond the mean; ``slower``, what the shares take together beyond the
work on one thread (memory, and what lies in the cache of another core); ``meeting``, the rest: barriers, and the wait
for a thread that was late at the one before. Replicas of a step share no kernels, and have whole runs alone.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import edgec
from benchmarks.cpu import peak
from benchmarks.cpu.kernels import details
from benchmarks.engines.engines import Edgec
from edgec.artifact.folder import read_lock
from edgec.artifact.trainer import Trainer
from edgec.bench.turns import pinned, take_turns
from edgec.check.training import batch_of
from edgec.device.load import load_device
from edgec.device.toolchain import compile_shared, pick_compiler
from edgec.execute.samples import random_inputs
from edgec.progress import silent
from edgec.schedule.program import Kernel

#: Of the times of runs: what other work of the machine has lengthened is left out.
PERCENTILE = 20
#: Bytes that the machine reads at least, beside which starting threads is nothing.
LEAST = 64 << 20
#: Of every thread: when each kernel began, and how long the thread waited in it; a run ends with the number of kernels.
_SOURCE = """\
#include <time.h>
#include "ec_pool.h"
double edgec_began[THREADS][KERNELS + 1], edgec_waited[THREADS][KERNELS + 1];
static struct { _Alignas(128) int kernel; } edgec_at[THREADS];
static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e6 + 1e-3 * (double)t.tv_nsec;
}
void ec_profile(int kernel, int thread);
void ec_profile(int kernel, int thread) {
  edgec_at[thread].kernel = kernel;
  edgec_waited[thread][kernel] = 0;
  edgec_began[thread][kernel] = now();
}
void edgec_barrier(ec_pool *pool, int thread);
void edgec_barrier(ec_pool *pool, int thread) {
  const double begun = now();
  BARRIER(pool, thread);
  edgec_waited[thread][edgec_at[thread].kernel] += now() - begun;
}
"""


@dataclass(frozen=True)
class Row:
    """Microseconds of one kernel on one thread, on all of them, and of each thread's share."""

    number: int
    kernel: Kernel
    alone: float
    together: float
    shares: tuple[float, ...]

    @property
    def uneven(self) -> float:
        return max(self.shares) - sum(self.shares) / len(self.shares)

    @property
    def slower(self) -> float:
        return (sum(self.shares) - self.alone) / len(self.shares)

    @property
    def lost(self) -> float:
        return self.together - self.alone / len(self.shares)

    @property
    def meeting(self) -> float:
        return self.lost - self.uneven - self.slower


def main(arguments: list[str] | None = None) -> int:
    p = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    p.add_argument("model", type=Path, help="MODEL.in.npz beside it is the input, where there is one")
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--runs", type=int, default=60)
    p.add_argument("--top", type=int, default=20, help="kernels to show, those that lose most")
    p.add_argument("--loss", help="of the training step to measure")
    p.add_argument("--optimizer", default="sgd:lr=0.01,momentum=0.9")
    p.add_argument("--compiler")
    p.add_argument("--under", type=shlex.split, default=[], metavar="COMMAND", help="run measurements under a command")
    p.add_argument("--measure", nargs=2, type=Path, metavar=("FOLDER", "FILE"), help=argparse.SUPPRESS)
    options = p.parse_args(arguments)
    if options.measure:
        folder, result = options.measure
        result.write_text(json.dumps(measured(options, folder)))
        return 0
    with TemporaryDirectory(prefix="edgec-threads-") as temporary:
        show(options, Path(temporary))
    return 0


def show(options: argparse.Namespace, folder: Path) -> None:
    """Build, measure in a process of its own, and print."""
    given = options.model.with_suffix(".in.npz")
    arrays = dict(np.load(given)) if given.is_file() else {}
    training = {"loss": options.loss, "optimizer": options.optimizer} if options.loss else {}
    built = edgec.build(
        options.model, folder / "net", threads=options.threads, compiler=options.compiler,
        shapes={} if training else {name: a.shape for name, a in arrays.items()}, **training,
    )  # fmt: skip
    if not training:
        np.savez(folder / "inputs.npz", **(arrays or random_inputs(built.stages.graph, 0)))
    taught = built.program.training
    program = taught.step if taught is not None else built.program
    has_kernels = program.threads > 1
    if has_kernels:
        shutil.copytree(built.folder, folder / "clocked")
        instrument(folder / "clocked", len(program.kernels), options.threads, options.compiler)
    result, words = folder / "times.json", [*sys.argv[1:], "--measure", str(folder)]
    subprocess.run([*options.under, sys.executable, "-m", __spec__.name, *words, str(result)], check=True)
    found = json.loads(result.read_text())
    whole, machine = found["whole"], found["machine"]
    replicas = f" in {taught.replicas.count} replicas" if taught is not None and taught.replicas is not None else ""
    print(
        f"{options.model.stem}{' step' if training else ''}: {whole[0]:.4g} ms on one thread, {whole[1]:.4g} on "
        f"{options.threads}{replicas}: {whole[0] / whole[1]:.2f}x; "
        f"the machine gains {machine[0]:.2f}x in multiply-adds, {machine[1]:.2f}x in reading {found['mib']:.4g} MiB"
    )
    if has_kernels:
        alone, together, shares = found["alone"], found["together"], found["shares"]
        table([Row(k, kernel, alone[k], together[k], tuple(s[k] for s in shares))
               for k, kernel in enumerate(program.kernels)], options.top)  # fmt: skip


def measured(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Milliseconds of whole runs on one thread and on all, what the machine gains, and times of kernels."""
    device, lock = load_device("host"), read_lock(folder / "net")
    compiler, counts = pick_compiler(device, options.compiler), (1, options.threads)
    facts = lock["training"] if options.loss else lock
    size = int(facts["arena_bytes"]) + int(facts["state_bytes"] if options.loss else facts["weights_bytes"])
    size = max(size, LEAST)
    rates = [[peak.gflops(device, compiler, t), peak.read_speed(device, compiler, t, size)] for t in counts]
    runs = {t: _run_of(options, folder, "net", t) for t in counts}
    with pinned(options.threads):
        times = take_turns([runs[t][0] for t in counts], 0.02 * options.runs, 8, silent)
        found: dict[str, Any] = {
            "whole": [float(np.percentile(t, PERCENTILE)) * 1e3 for t in times],
            "machine": [together / alone for alone, together in zip(*rates)],
            "mib": size / (1 << 20),
        }
        if (folder / "clocked").is_dir():
            clocked = {t: _run_of(options, folder, "clocked", t) for t in counts}
            kernels = json.loads((folder / "clocked" / "kernels.json").read_text())
            taken = _times(clocked, kernels, options.runs)
            found |= {"alone": taken[1][0].tolist(), "together": taken[options.threads][0].tolist()}
            found["shares"] = taken[options.threads][1].tolist()
    return found


def instrument(folder: Path, kernels: int, threads: int, compiler: str | None) -> None:
    """Compile the artefact with clocks before kernels and around barriers."""
    lock, device = read_lock(folder), load_device("host")
    clock = folder / "clock.c"
    barrier = f"{lock['name']}_ec_pool_barrier"
    clock.write_text(f"#define KERNELS {kernels}\n#define THREADS {threads}\n#define BARRIER {barrier}\n{_SOURCE}")
    sources = [folder / s for s in lock["sources"]]
    for source in (s for s in sources if s.name in (f"{lock['name']}.c", f"{lock['name']}_step.c")):
        text = source.read_text()
        text = text.replace("ec_pool_barrier(call", "edgec_barrier(call")
        head = '#include "ec_pool.h"\n'
        declared = "extern void edgec_barrier(struct ec_pool *pool, int thread);\n"
        source.write_text(text.replace(head, head + declared))
    (folder / "kernels.json").write_text(str(kernels))
    output = folder / f"lib{lock['name']}.so"
    compile_shared(
        pick_compiler(device, compiler), device, [*sources, clock], output, include=[folder], defines=["EC_PROFILE"]
    )


def _run_of(options: argparse.Namespace, folder: Path, name: str, threads: int) -> tuple[Callable[[], object], Any]:
    """A run of the network, or a step at a learning rate of 0, and the library that it runs in."""
    if options.loss:
        trainer = Trainer(folder / name, threads)
        batch = batch_of(trainer, 0)
        return lambda: trainer.step(*batch, learning_rate=0.0), trainer.network.library
    with np.load(folder / "inputs.npz") as inputs:
        net = Edgec(folder / name, threads, dict(inputs), {})
    return net.bound(), net.net._library


def _times(runs: dict[int, tuple[Callable[[], object], Any]], kernels: int, count: int) -> dict[int, Any]:
    """By the number of threads: low percentiles of the first thread's time in kernels, and of each thread's work."""
    found: dict[int, Any] = {}
    taken: dict[int, list[Any]] = {t: [] for t in runs}
    most = max(runs)
    for _ in range(8):
        for threads, (run, library) in runs.items():
            shape = ctypes.c_double * ((kernels + 1) * most)
            began = np.frombuffer(shape.in_dll(library, "edgec_began")).reshape(most, -1)
            waited = np.frombuffer(shape.in_dll(library, "edgec_waited")).reshape(most, -1)
            for k in range(3 + ceil(count / 8)):
                run()
                if k >= 3:
                    taken[threads].append((np.diff(began[:threads]), waited[:threads, :-1].copy()))
    for threads, each in taken.items():
        whole = np.percentile([w for w, _ in each], PERCENTILE, axis=0)
        work = np.percentile([w - waits for w, waits in each], PERCENTILE, axis=0)
        found[threads] = whole[0], work
    return found


def table(rows: list[Row], top: int) -> None:
    alone, together = sum(r.alone for r in rows), sum(r.together for r in rows)
    print(
        f"{len(rows)} kernels take {alone / 1e3:.4g} ms on one thread, {together / 1e3:.4g} on all; of that "
        f"{sum(r.lost for r in rows) / together:.1%} is lost: uneven {sum(r.uneven for r in rows) / together:.1%}, "
        f"slower {sum(r.slower for r in rows) / together:.1%}, meeting {sum(r.meeting for r in rows) / together:.1%}"
    )
    print(f"{'lost us':>8} {'alone':>8} {'all':>8} {'gain':>5} {'uneven':>7} {'slower':>7} {'meeting':>7}  kernel")
    for r in sorted(rows, key=lambda r: -r.lost)[:top]:
        print(
            f"{r.lost:8.1f} {r.alone:8.1f} {r.together:8.1f} {r.alone / max(r.together, 1e-3):5.2f} {r.uneven:7.1f} "
            f"{r.slower:7.1f} {r.meeting:7.1f}  {r.number} {r.kernel.template}: {details(r.kernel)}"
        )


if __name__ == "__main__":
    sys.exit(main())
