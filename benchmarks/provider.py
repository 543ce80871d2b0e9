"""Sessions of onnxruntime with the provider of a built network, beside sessions without it, and `edgec.Network`.

    python -m benchmarks.provider MODEL [--seconds 2] [--threads 1]

The model is built with `--app onnxruntime` in a folder that goes afterwards, and its library by CMake. The three take
turns on the same drawn inputs; times are milliseconds a run, the least and the median.
"""

from __future__ import annotations

import argparse
import importlib.util
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import onnxruntime

import edgec
from edgec.execute.samples import random_inputs


def milliseconds(runs: Mapping[str, Callable[[], Any]], seconds: float) -> dict[str, tuple[float, float]]:
    """The least and the median time of each, all in turns, after two calls that do not count."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    for run in [*runs.values()] * 2:
        run()
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for name, run in runs.items():
            begun = time.perf_counter()
            run()
            times[name].append(1e3 * (time.perf_counter() - begun))
    return {name: (min(found), statistics.median(found)) for name, found in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--threads", type=int, default=1)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "net"
        built = edgec.build(given.model, folder, name="net", app="onnxruntime", threads=given.threads)
        app = folder / "onnxruntime"
        for words in (("-S", app, "-B", app / "build"), ("--build", app / "build")):
            subprocess.run(["cmake", *words], check=True, stdout=subprocess.DEVNULL)
        spec = importlib.util.spec_from_file_location("net_session", app / "net_session.py")
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = given.threads
        plain = onnxruntime.InferenceSession(given.model, options, providers=["CPUExecutionProvider"])
        session = module.session(given.model, threads=given.threads)
        inputs = random_inputs(built.graph, 0)
        runs = {
            "session with the provider": lambda: session.run(None, inputs),
            f"session of onnxruntime {onnxruntime.__version__}": lambda: plain.run(None, inputs),
            "edgec.Network": lambda: built.network.run(inputs),
        }
        for name, (least, median) in milliseconds(runs, given.seconds).items():
            print(f"{name}: {least:.2f} ({median:.2f}) ms")


if __name__ == "__main__":
    main()
