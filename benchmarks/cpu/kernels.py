"""Time of every kernel of a network, compared with its lower bound on this machine.

    python -m benchmarks.cpu.kernels MODEL.onnx [--threads 2] [--top 20] [--under COMMAND]

The floor of a kernel is the longer of its multiply-adds at the measured peak and its bytes, each once, at the measured
speed of reading as much memory as the whole network has. ``over`` is what the kernel takes beyond it. With several
threads a kernel's time is that of the first one, the wait for the others included.
"""

from __future__ import annotations

import argparse
import ctypes
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import numpy as np

import edgec
from benchmarks.cpu import peak
from benchmarks.engines.engines import Edgec
from edgec.artifact.folder import read_lock
from edgec.device.load import load_device
from edgec.device.toolchain import compile_shared, pick_compiler
from edgec.emit.function_comment import describe
from edgec.execute.samples import random_inputs
from edgec.ops import meaning
from edgec.report.facts import multiply_adds
from edgec.schedule.program import Kernel

#: Times every kernel's begin, on the first thread; a run ends with the number of kernels.
_SOURCE = """\
#include <time.h>
double edgec_profile[KERNELS + 1];
void ec_profile(int kernel, int thread) {
  if (thread) return;
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  edgec_profile[kernel] = (double)t.tv_sec * 1e3 + 1e-6 * (double)t.tv_nsec;
}
"""


@dataclass(frozen=True)
class Row:
    """One kernel: milliseconds it takes and could take, multiply-adds and bytes."""

    number: int
    kernel: Kernel
    ms: float
    floor_ms: float
    macs: int
    bytes: int


def main(arguments: list[str] | None = None) -> int:
    p = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    p.add_argument("model", type=Path, help="MODEL.in.npz beside it is the input, where there is one")
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--runs", type=int, default=50)
    p.add_argument("--top", type=int, default=25, help="kernels to show, those farthest over their floors")
    p.add_argument("--precision", choices=("fp32", "fp16", "bf16"), help="floors stay those of fp32")
    p.add_argument("--compiler")
    p.add_argument("--under", type=shlex.split, default=[], metavar="COMMAND", help="run measurements under a command")
    p.add_argument("--measure", nargs=2, type=Path, metavar=("FOLDER", "FILE"), help=argparse.SUPPRESS)
    options = p.parse_args(arguments)
    if options.measure:
        folder, result = options.measure
        device, lock = load_device("host"), read_lock(folder)
        machine = device, pick_compiler(device), options.threads
        limits = peak.gflops(*machine), peak.read_speed(*machine, lock["weights_bytes"] + lock["arena_bytes"])
        np.save(result, [*limits, *times(folder, inputs_of(options.model), options.threads, options.runs)])
        return 0
    with TemporaryDirectory(prefix="edgec-kernels-") as temporary:
        show(options, Path(temporary))
    return 0


def inputs_of(model: Path) -> dict[str, np.ndarray]:
    with np.load(model.with_suffix(".in.npz"), allow_pickle=False) as data:
        return dict(data)


def show(options: argparse.Namespace, folder: Path) -> None:
    device = load_device("host")
    compiler = pick_compiler(device, options.compiler)
    given = options.model.with_suffix(".in.npz").is_file()
    shapes = {name: array.shape for name, array in inputs_of(options.model).items()} if given else {}
    precision = options.precision or device.precision
    built = edgec.build(
        options.model, folder / "net", compile=False, shapes=shapes, threads=options.threads, precision=precision
    )
    model = options.model
    if not given:
        model = folder / "random.onnx"
        np.savez(model.with_suffix(".in.npz"), **random_inputs(built.stages.graph, 0))
    instrument(built.folder, len(built.program.kernels))
    again = [
        sys.executable,
        "-m",
        __spec__.name,
        str(model),
        "--threads",
        str(options.threads),
        "--runs",
        str(options.runs),
    ]
    result = folder / "times.npy"
    subprocess.run([*options.under, *again, "--measure", str(built.folder), str(result)], check=True)
    rate, speed, *taken = np.load(result).tolist()
    rows = []
    for k, kernel in enumerate(built.program.kernels):
        macs = sum(multiply_adds(meaning(n)) for n in kernel.block.nodes if n.op != "copy") if kernel.block else 0
        size = sum(b.bytes for b in {*kernel.operands})
        rows.append(Row(k, kernel, taken[k], max(2e-6 * macs / rate, 1e-6 * size / speed), macs, size))
    total = sum(r.ms for r in rows)
    print(
        f"{options.model.stem}: {total:.4g} ms in {len(rows)} kernels on {options.threads} thread(s), {compiler}; "
        f"floor {sum(r.floor_ms for r in rows):.4g} ms at {rate:.0f} GFLOP/s and {speed:.0f} GB/s; "
        f"{2e-6 * sum(r.macs for r in rows) / total / rate:.0%} of peak"
    )
    print(f"{'over':>8} {'ms':>8} {'floor':>8} {'share':>6} {'GFLOP/s':>8} {'GB/s':>7}  number kind: what")
    for r in sorted(rows, key=lambda r: r.floor_ms - r.ms)[: options.top]:
        print(
            f"{r.ms - r.floor_ms:8.4f} {r.ms:8.4f} {r.floor_ms:8.4f} {r.ms / total:6.1%} {2e-6 * r.macs / r.ms:8.1f} "
            f"{1e-6 * r.bytes / r.ms:7.1f}  {r.number} {r.kernel.template}: {details(r.kernel)}"
        )


def details(kernel: Kernel) -> str:
    """The shape of a contraction and how it is tiled, and what is computed."""
    p, text = kernel.schedule, describe(kernel)[:110]
    if kernel.template != "contract":
        return text
    return f"M {p.m_extent} N {p.n_extent} K {p.k_extent} tile {p.rows}x{p.vectors} {p.l_mode}: {text}"


def instrument(folder: Path, kernels: int) -> None:
    """Compile the artefact with its clocks."""
    lock = read_lock(folder)
    device = load_device("host")
    clock = folder / "clock.c"
    clock.write_text(f"#define _GNU_SOURCE\n#define KERNELS {kernels}\n{_SOURCE}")
    sources = [*(folder / s for s in lock["sources"]), clock]
    output = folder / f"lib{lock['name']}.so"
    compile_shared(pick_compiler(device), device, sources, output, include=[folder], defines=["EC_PROFILE"])


def times(folder: Path, inputs: dict[str, np.ndarray], threads: int, runs: int) -> np.ndarray:
    """Milliseconds of every kernel: medians over the runs."""
    net = Edgec(folder, threads, inputs, {})
    run = net.bound()
    count = read_lock(folder)["kernels"]
    stamps = (ctypes.c_double * (count + 1)).in_dll(net.net._library, "edgec_profile")
    taken = []
    for _ in range(runs + 5):
        run()
        taken.append(np.diff(np.array(stamps)))
    return np.array([median(column) for column in np.array(taken[5:]).T])


if __name__ == "__main__":
    sys.exit(main())
