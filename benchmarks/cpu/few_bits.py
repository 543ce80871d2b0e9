"""Matrix products by weights of few bits that lie in memory: bytes of weights read a second, beside plain reading.

    python -m benchmarks.cpu.few_bits [--threads 1 2] [--rows 1] [--sizes 576x1536] [--numeric reassociates]

Each product is repeated with other weights until they take 96 MB, and takes turns with a program that reads as many
bytes; the best of all rounds counts. Prints a line for each format, size and number of threads.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks.cpu import peak
from edgec import ops
from edgec.artifact.compile import compile_library
from edgec.artifact.folder import publish
from edgec.artifact.network import Network
from edgec.device.load import load_device
from edgec.device.toolchain import pick_compiler
from edgec.emit.project import files
from edgec.fuse import plan
from edgec.ir.graph import Graph, Node, constant, placeholder
from edgec.ir.types import DTYPES, Type
from edgec.rewrite.rule import Numeric
from edgec.schedule.build import schedule
from edgec.schedule.options import ScheduleOptions

#: Type of codes, length of a group, type of scales, and of offsets (none: ""); K: of superblocks of 256.
FORMATS = {
    "Q8_0": ("i8", 32, "f16", ""),
    "Q4_0": ("i4", 32, "f16", ""),
    "Q4_1": ("u4", 32, "f16", "f16"),
    "Q4_K": ("u4", 32, "K", "K"),
    "Q6_K": ("i8", 16, "K", ""),
    "MatMulNBits 32": ("i4", 32, "f32", ""),
    "MatMulNBits 128": ("i4", 128, "f32", ""),
}
SIZES = ("576x1536", "2048x8192", "576x49152")
BYTES = 96 << 20
RANDOM = np.random.default_rng(24)


def weights(name: str, batch: int, n: int, k: int) -> Node:
    """[batch, n, k] in a format, at random."""
    codes, group, scale, offset = FORMATS[name]
    low, high = {"i4": (-8, 8), "u4": (0, 16), "i8": (-32, 32) if name == "Q6_K" else (-127, 128)}[codes]
    values = RANDOM.integers(low, high, (batch, n, k), np.int8).astype(DTYPES[codes])
    numbers = [_numbers(kind, (batch, n, k // group), 256 // group) for kind in (scale, offset) if kind]
    return ops.node("dequantize", constant(values), *numbers, axis=2, block=group)


def _numbers(kind: str, shape: tuple[int, ...], span: int) -> Node:
    if kind != "K":
        return constant(RANDOM.uniform(0.5, 1, shape).astype(DTYPES[kind]))
    codes, factors = RANDOM.integers(1, 64, shape, np.int8), RANDOM.uniform(0.5, 1, (*shape[:2], shape[2] // span))
    return ops.node("dequantize", constant(codes), constant(factors.astype(np.float16)), axis=2, block=span)


def product(name: str, rows: int, k: int, n: int) -> Graph:
    codes = FORMATS[name][0]
    batch = max(1, round(BYTES / (n * k * (1 if codes == "i8" else 0.5))))
    x = placeholder("x", Type("f32", (batch, rows, k)))
    turned = ops.node("transpose", weights(name, batch, n, k), perm=(0, 2, 1))
    return Graph((x,), (("y", ops.node("matmul", x, turned)),), "net", {})


def taken(run: Callable[[], None]) -> float:
    """Seconds of one run."""
    begin = time.perf_counter()
    run()
    return time.perf_counter() - begin


def measure(name: str, size: str, threads: int, rows: int, numeric: Numeric, rounds: int) -> str:
    """One line: GB/s of weights, of plain reading, their ratio, milliseconds, and multiply-adds a second."""
    k, n = map(int, size.split("x"))
    device = load_device("host")
    compiler = pick_compiler(device)
    program = schedule(plan(product(name, rows, k, n)), device, ScheduleOptions(threads, numeric))
    with tempfile.TemporaryDirectory(prefix="edgec-few-bits-") as folder:
        where = Path(folder) / "net"
        publish(files(program, device, "net"), where)
        compile_library(where, device, compiler)
        reader = peak.programs(device, compiler, Path(folder))[0]
        network = Network(where, threads)
        shape = program.graph.inputs[0].type.shape
        run, _ = network.bind({"x": RANDOM.standard_normal(shape).astype(np.float32)})
        took, read = np.inf, 0.0
        for _ in range(rounds):
            took = min(took, *(taken(run) for _ in range(4)))
            read = max(read, peak.run(reader, threads, program.weights_bytes))
    speed, macs = program.weights_bytes / took / 1e9, shape[0] * rows * n * k / took / 1e9
    share = f"{speed:6.2f} of {read:6.2f} GB/s {speed / read:6.1%}"
    return f"{name:16} {size:11} rows {rows:3} threads {threads} {share} {took * 1e3:8.3f} ms {macs:8.1f} GMAC/s"


def main() -> None:
    p = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    p.add_argument("--formats", nargs="+", choices=FORMATS, default=list(FORMATS))
    p.add_argument("--sizes", nargs="+", default=SIZES)
    p.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    p.add_argument("--rows", type=int, nargs="+", default=[1])
    p.add_argument("--numeric", choices=("exact", "reassociates", "approximates"), default="reassociates")
    p.add_argument("--rounds", type=int, default=12)
    o = p.parse_args()
    for size in o.sizes:
        whole = int(size.partition("x")[0]) % 256 == 0
        for name in (f for f in o.formats if whole or "K" not in FORMATS[f]):
            for rows in o.rows:
                for threads in o.threads:
                    print(measure(name, size, threads, rows, o.numeric, o.rounds), flush=True)


if __name__ == "__main__":
    main()
