"""Times of NAME_bounds beside NAME_run on an NVIDIA GPU, and inputs that leave the bounds there: none may.

    python -m benchmarks.gpu.bounds [--only PATTERN ...] [--seconds 300] [--rows ROWS.jsonl] [--eps 0.001] [--dry]

A row is a network: the MLPerf Tiny networks in fp32, and matrix products of one and of 64 rows. Times are those of the
device, medians of five. Drawn inputs and corners of the box run for the rest of a network's share of ``--seconds``.
Rows are written as they come; those that are there are not made again. ``--dry`` runs in emulation, without times.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from fnmatch import fnmatch
from pathlib import Path

import numpy as np
import onnx

import edgec
from benchmarks.alone import Row, append_row, read_rows
from benchmarks.certify.rounding import TINY, made
from benchmarks.networks.catalog import models_folder
from edgec.build import Built

DEVICE, ROUNDS, RUNS, DRAWN = "cuda_sm90", 5, 100, 10_000


def models() -> Iterator[tuple[str, Path | onnx.ModelProto]]:
    for name, file in TINY.items():
        yield name, models_folder() / "mlperf_tiny" / file
    for rows in (1, 64):
        yield f"MLP of {rows} rows", made([("Gemm", (1024, 1024))] * 3, (rows, 1024))


def one(name: str, model: Path | onnx.ModelProto, eps: float, seconds: float, is_dry: bool) -> Row:
    """The row of a network."""
    end = time.perf_counter() + seconds
    built = edgec.build(model, device=DEVICE, bounds=True, compiler="emulated" if is_dry else None)
    alone = edgec.build(model, device=DEVICE, compile=False)
    assert built.program.bounds is not None
    random = np.random.default_rng(0)
    x = {p.onnx_name: random.uniform(0, 1, p.shape).astype(np.float32) for p in built.network.inputs}
    ends = built.bounds(x, eps)
    bounds = ends if isinstance(ends, dict) else {built.network.outputs[0].onnx_name: ends}
    row: Row = {
        "name": name, "arena": built.program.bounds.arena_bytes, "weights": built.weights_bytes,
        "weights of NAME_run": alone.weights_bytes, "kernels": len(built.program.bounds.kernels),
        "widest": max(float((high - low).max()) for low, high in bounds.values()),
    }  # fmt: skip
    drawn, left = 0, 0
    while drawn < DRAWN and (time.perf_counter() < end or not drawn):
        part = {n: random.uniform(-1, 1, v.shape) if drawn % 2 else random.choice([-1.0, 1.0], v.shape)
                for n, v in x.items()}  # fmt: skip
        near = {n: (v + eps * (1 - 1e-3) * part[n]).astype(np.float32) for n, v in x.items()}
        found = built.run(near)
        left += any(((found[n] < low) | (found[n] > high)).any() for n, (low, high) in bounds.items())
        drawn += 1
    return row | {"drawn": drawn, "left": left} | ({} if is_dry else _times(built))


def _times(built: Built) -> Row:
    net = built.network._net
    bounding = getattr(net._library, f"{built.network.name}_bounds_milliseconds")
    bounding.restype = ctypes.c_float
    run, bounds = [], []
    for _ in range(ROUNDS):
        run.append(1e3 * net.milliseconds(RUNS))
        bounds.append(1e3 * bounding(net._interval, RUNS))
    return {"us": round(statistics.median(run), 2), "us of bounds": round(statistics.median(bounds), 2)}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", default=["*"], help="patterns of names")
    parser.add_argument("--seconds", type=float, default=300.0, help="for all networks together")
    parser.add_argument("--rows", type=Path, default=Path("bounds_in_cuda.jsonl"))
    parser.add_argument("--eps", type=float, default=1e-3)
    parser.add_argument("--dry", action="store_true")
    asked = parser.parse_args(arguments)
    done = read_rows(asked.rows)
    wanted = [(n, m) for n, m in models() if any(fnmatch(n, p) for p in asked.only) and n not in done]
    for name, model in wanted:
        row = one(name, model, asked.eps, asked.seconds / len(wanted), asked.dry)
        append_row(asked.rows, row)
        print(json.dumps(row), flush=True)
    return int(any(row["left"] for row in read_rows(asked.rows).values()))


if __name__ == "__main__":
    sys.exit(main())
