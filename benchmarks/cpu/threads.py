"""Gain of a second thread, kernel by kernel, and what limits it.

    python -m benchmarks.cpu.threads MODEL.onnx [--threads 2] [--top 20] [--loss cross_entropy] [--compiler KIND]

With --loss it is the training step of the model. Runs on one thread and on all are in turns. A thread's work in a
kernel ends where it enters the next barrier, and the rest is waiting. What a kernel takes beyond its part of the time
on one thread is in three columns: ``uneven``, what the longest share has beyond the mean; ``slower``, what the shares
take together beyond the work on one thread (memory, and what lies in the cache of another core); ``meeting``, the rest:
barriers, and the wait for a thread that was late at the one before.
"""

from __future__ import annotations

import argparse
import ctypes
import sys
from collections.abc import Callable
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import edgec
from benchmarks.cpu.kernels import details
from benchmarks.engines.engines import Edgec
from edgec.artifact.folder import read_lock
from edgec.artifact.trainer import Trainer
from edgec.bench.turns import pinned
from edgec.check.training import batch_of
from edgec.device.load import load_device
from edgec.device.toolchain import compile_shared, pick_compiler
from edgec.execute.samples import random_inputs
from edgec.schedule.program import Kernel

#: Of the times of runs: what other work of the machine has lengthened is left out.
PERCENTILE = 20
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
    options = p.parse_args(arguments)
    with TemporaryDirectory(prefix="edgec-threads-") as temporary:
        rows = measured(options, Path(temporary))
    show(options, rows)
    return 0


def measured(options: argparse.Namespace, folder: Path) -> list[Row]:
    """The kernels of the network, or of its step, with their times."""
    given = options.model.with_suffix(".in.npz")
    arrays = dict(np.load(given)) if given.is_file() else {}
    training = {"loss": options.loss, "optimizer": options.optimizer} if options.loss else {}
    built = edgec.build(
        options.model, folder / "net", compile=False, threads=options.threads,
        shapes={} if training else {name: a.shape for name, a in arrays.items()}, **training,
    )  # fmt: skip
    program = built.program.training.step if built.program.training else built.program
    instrument(built.folder, len(program.kernels), options.threads, options.compiler)
    runs = {t: _stepped(built.folder, t) for t in (1, options.threads)} if training else {}
    for t in (1, options.threads) if not training else ():
        inputs = arrays or random_inputs(built.stages.graph, 0)
        net = Edgec(built.folder, t, inputs, {})
        runs[t] = net.bound(), net.net._library
    with pinned(options.threads):
        times = _times(runs, len(program.kernels), options.runs)
    alone, together = times[1][1][0], times[options.threads]
    return [
        Row(k, kernel, alone[k], together[0][k], tuple(share[k] for share in together[1]))
        for k, kernel in enumerate(program.kernels)
    ]


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
    output = folder / f"lib{lock['name']}.so"
    if "ec_pool_barrier" not in (folder / "ec_pool.h").read_text():
        raise SystemExit("the network is built for one thread")
    compile_shared(
        pick_compiler(device, compiler), device, [*sources, clock], output, include=[folder], defines=["EC_PROFILE"]
    )


def _stepped(folder: Path, threads: int) -> tuple[Callable[[], object], Any]:
    """A step of the training at a learning rate of 0, and the library that it runs in."""
    trainer = Trainer(folder, threads)
    batch = batch_of(trainer, 0)
    return lambda: trainer.step(*batch, learning_rate=0.0), trainer.network.library


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


def show(options: argparse.Namespace, rows: list[Row]) -> None:
    alone, together = sum(r.alone for r in rows), sum(r.together for r in rows)
    print(
        f"{options.model.stem}{' step' if options.loss else ''}: {alone / 1e3:.4g} ms in {len(rows)} kernels on one "
        f"thread, {together / 1e3:.4g} on {options.threads}: {alone / together:.2f}x; lost "
        f"{sum(r.lost for r in rows) / together:.1%}: uneven {sum(r.uneven for r in rows) / together:.1%}, "
        f"slower {sum(r.slower for r in rows) / together:.1%}, meeting {sum(r.meeting for r in rows) / together:.1%}"
    )
    print(f"{'lost us':>8} {'alone':>8} {'all':>8} {'gain':>5} {'uneven':>7} {'slower':>7} {'meeting':>7}  kernel")
    for r in sorted(rows, key=lambda r: -r.lost)[: options.top]:
        print(
            f"{r.lost:8.1f} {r.alone:8.1f} {r.together:8.1f} {r.alone / max(r.together, 1e-3):5.2f} {r.uneven:7.1f} "
            f"{r.slower:7.1f} {r.meeting:7.1f}  {r.number} {r.kernel.template}: {details(r.kernel)}"
        )


if __name__ == "__main__":
    sys.exit(main())
