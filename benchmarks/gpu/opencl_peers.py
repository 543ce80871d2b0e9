"""Networks through OpenCL compared with OpenCV's DNN module through OpenCL, on one device; fp32, batch 1.

    pip install 'opencv-python-headless<5'
    python -m benchmarks.gpu.opencl_peers [--device host_pocl] [--made FOLDER] [--write PAGE] [NAME ...]

OpenCV ships its own OpenCL kernels (ocl4dnn), tuned for Intel's GPUs; OPENCV_DNN_OPENCL_ALLOW_ALL_DEVICES lets them
run elsewhere, and what it has no kernel for it runs on the processor. The first run, which compiles and picks kernels,
does not count. Every run takes its input from the host and gives its result back. The last column of times is of OpenCV
without OpenCL. Milliseconds are the least of all rounds; errors are against onnxruntime, of the largest value.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.gpu.opencl import made, opened
from benchmarks.table import markdown, put_into

NAMES = ("dscnn_kws", "resnet8_cifar", "mobilenetv2_224", "resnet50_224")
COLUMNS = ["network", "edgec ms", "OpenCV ms", "ratio", "OpenCV, CPU, ms", "edgec error", "OpenCV error"]
PLACES = ("<!-- peers -->", "<!-- end of peers -->")
#: The kind of device that OpenCV takes, for the devices of edgec that are no GPU.
KINDS = {"host_pocl": ":CPU:", "host_intel": ":CPU:"}
Array = np.ndarray[Any, Any]


def opencv(path: Path, given: Array, target: str) -> Callable[[], Array]:
    """A run of OpenCV's network on its OpenCL device, or on the processor."""
    import cv2

    cv2.setNumThreads(os.cpu_count() or 1)
    cv2.ocl.setUseOpenCL(True)
    if not cv2.ocl.useOpenCL():
        sys.exit("OpenCV finds no OpenCL device")
    net = cv2.dnn.readNetFromONNX(str(path))
    net.setPreferableBackend(cv2.dnn.DNN_BACKEND_OPENCV)
    net.setPreferableTarget(getattr(cv2.dnn, f"DNN_TARGET_{target}"))

    def run() -> Array:
        net.setInput(given)
        result: Array = net.forward()
        return result

    return run


def least(run: Callable[[], object], runs: int) -> float:
    """Milliseconds of the quickest of so many runs."""
    times = []
    for _ in range(runs):
        begun = time.perf_counter()
        run()
        times.append((time.perf_counter() - begun) * 1e3)
    return min(times)


def error(got: Array, want: Array) -> float:
    return float(np.abs(got.reshape(want.shape).astype(np.float64) - want).max() / np.abs(want).max())


def row(name: str, models: Path, folder: Path, options: argparse.Namespace) -> list[str]:
    import edgec

    path = made(name, models)
    (given,), (want,) = (list(np.load(models / f"{name}.{what}.npz").values()) for what in ("in", "ref"))
    given = np.ascontiguousarray(given)
    built = edgec.build(str(path), folder / name, device=options.device, name="net")
    network, _ = opened(built.folder, folder)
    ways = [lambda: network(given), *(opencv(path, given, target) for target in ("OPENCL", "CPU"))]
    results = [run() for run in ways]
    times = [[least(run, options.runs) for run in ways] for _ in range(options.rounds)]
    ours, theirs, plain = (min(t[k] for t in times) for k in range(3))
    errors = [error(np.asarray(r), want) for r in results[:2]]
    shown = [f"{ours:.3g}", f"{theirs:.3g}", f"{theirs / ours:.1f}x", f"{plain:.3g}"]
    return [name, *shown, *(f"{e:.1e}" for e in errors)]


def main() -> None:
    p = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    p.add_argument("names", nargs="*", metavar="NAME")
    p.add_argument("--device", default="host_pocl")
    p.add_argument("--made", type=Path, help="where networks are, or are made")
    p.add_argument("--runs", type=int, default=5)
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--write", type=Path, help="a page to put the table into")
    options = p.parse_args()
    os.environ |= {
        "OPENCV_DNN_OPENCL_ALLOW_ALL_DEVICES": "1",
        "OPENCV_OPENCL_DEVICE": KINDS.get(options.device, ":GPU:"),
    }
    folder = Path(tempfile.mkdtemp(prefix="edgec-opencl-"))
    rows = []
    for name in options.names or NAMES:
        rows.append(row(name, options.made or folder, folder, options))
        print(*rows[-1], flush=True)
    table = markdown(COLUMNS, rows)
    print(table)
    if options.write:
        put_into(options.write, table, PLACES)


if __name__ == "__main__":
    main()
