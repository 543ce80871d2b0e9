"""Break-even curves: layers dense and with zero vectors, in edgec and compared with onnxruntime, in one run.

    python -m benchmarks.cpu.sparse --write docs/guide/pruning.md

One thread, warm caches, the least of several turns that all kernels take one after the other. fp32 has blocks of one
vector of outputs x 1 input (the vector of the device), int8 of one vector x 4. Kernels are sparse at every share of
zeros, even where the planner would refuse them: that is what a curve is for. onnxruntime gets the dense weights.
"""

from __future__ import annotations

import argparse
import json
import math
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnxruntime

from benchmarks.cpu.sparse_layers import F32, I8, LAYERS, Layer, graph, onnx_model
from benchmarks.cpu.sparse_page import page, put
from benchmarks.networks.catalog import wanted
from edgec.device.device import Device
from edgec.device.load import load_device
from edgec.device.toolchain import pick_compiler
from edgec.fuse import plan
from edgec.schedule.contract import sparse
from edgec.tune import single_kernel

LEVELS = (0.5, 0.7, 0.8, 0.9, 0.95)
#: Weights of 1 x 1 are one vector of outputs; of bytes, four inputs are one step.
TOGETHER = {F32: 1, I8: 4}


@dataclass(frozen=True)
class Case:
    """One kernel to time: a layer in a type, dense (0) or with this share of zeros, by an engine."""

    layer: Layer
    dtype: str
    zeros: float
    engine: str = "edgec"


def main(arguments: list[str] | None = None) -> int:
    p = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    p.add_argument("--only", action="append", default=[], metavar="PATTERN", help="networks to measure")
    p.add_argument("--types", nargs="+", choices=(F32, I8), default=(F32, I8))
    p.add_argument("--levels", nargs="+", type=float, default=LEVELS)
    p.add_argument("--turns", type=int, default=7)
    p.add_argument("--json", type=Path, help="keep what was measured")
    p.add_argument("--write", type=Path, help="put the page's tables between their marks")
    p.add_argument("--guard", help="a command that prints a line when the machine is ours, ended when timing is done")
    given = p.parse_args(arguments)
    device = load_device("host")
    layers = [layer for layer in LAYERS if wanted(layer.network, given.only)]
    cases = [Case(layer, t, z) for layer in layers for t in given.types for z in (0.0, *given.levels)]
    with tempfile.TemporaryDirectory(prefix="edgec-sparse-") as folder:
        calls = dict(zip(cases, compiled(cases, device, Path(folder))))
        for layer in layers:
            for dtype in given.types:
                calls[Case(layer, dtype, 0.0, "onnxruntime")] = peer(layer, dtype)
        with _guarded(given.guard):
            seconds = timed(calls, given.turns)
    rows = [
        {"network": c.layer.network, "layer": c.layer.name, "flops": c.layer.flops, "type": c.dtype, "zeros": c.zeros,
         "engine": c.engine, "us": s * 1e6} for c, s in seconds.items()
    ]  # fmt: skip
    if given.json:
        given.json.write_text(json.dumps(rows, indent=1))
    command = " ".join(
        ["python", "-m", "benchmarks.cpu.sparse", *(a for a in sys.argv[1:] if not a.startswith("--guard"))]
    )
    text = page(rows, command)
    print(text)
    if given.write:
        put(given.write, "break-even", text)
    return 0


def compiled(cases: list[Case], device: Device, folder: Path) -> list[Callable[[], None]]:
    """A function for every case, which runs its kernel once."""
    blocks = []
    for c in cases:
        w = c.layer.weights(c.zeros, device.vector_lanes, TOGETHER[c.dtype])
        (block,) = plan(graph(c.layer, c.dtype, w)).blocks
        blocks.append(block)
    found = []
    with _always_sparse():
        for start in range(0, len(blocks), 60):
            found += single_kernel.loaded(
                blocks[start : start + 60], device, pick_compiler(device), folder / str(start)
            )
            print(f"{len(found)} of {len(blocks)} compiled", file=sys.stderr)
    assert all(call is not None for call in found)
    return [call for call in found if call is not None]


@contextmanager
def _always_sparse() -> Iterator[None]:
    """A sparse kernel for whatever has zeros, whatever it costs."""
    margin, sparse.MARGIN = sparse.MARGIN, -math.inf
    try:
        yield
    finally:
        sparse.MARGIN = margin


def peer(layer: Layer, dtype: str) -> Callable[[], None]:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    model = onnx_model(layer, dtype, layer.weights(0.0, 16, TOGETHER[dtype]))
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    (port,) = session.get_inputs()
    x = np.random.default_rng(0).uniform(0, 255 if dtype == I8 else 1, port.shape)
    given = onnxruntime.OrtValue.ortvalue_from_numpy(x.astype(np.uint8 if dtype == I8 else np.float32))
    binding = session.io_binding()
    binding.bind_ortvalue_input(port.name, given)
    binding.bind_output(session.get_outputs()[0].name)
    return lambda: session.run_with_iobinding(binding)


def timed(calls: dict[Case, Callable[[], None]], turns: int) -> dict[Case, float]:
    """Seconds of every call, the least of its turns; in each turn all have theirs."""
    best = dict.fromkeys(calls, math.inf)
    for _ in range(turns):
        for case, call in calls.items():
            best[case] = min(best[case], single_kernel.seconds_of(call))
    return best


@contextmanager
def _guarded(command: str | None) -> Iterator[None]:
    if command is None:
        yield
        return
    process = subprocess.Popen(shlex.split(command), stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    try:
        yield
    finally:
        process.terminate()
        process.wait()


if __name__ == "__main__":
    sys.exit(main())
