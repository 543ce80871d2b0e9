"""Long runs: threads under ThreadSanitizer, many calls with flat memory, and the host code of GPUs under sanitizers.

`python -m benchmarks.robustness.long_runs threads --seconds 600`, `... calls --calls 1000000`, `... opencl`,
`... cuda`, `... cuda_threads`.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from edgec import api
from edgec.artifact.network import Network

HERE = Path(__file__).parent
CALLERS, WORKERS = 8, 3
#: How much memory may grow between a tenth of the calls and all of them, in KiB.
GROWTH = 256
EMULATED = ("-std=c++17", "-DEC_ON_CPU", "-Wno-unknown-pragmas", "-x", "c++")
STRICT = ("-std=gnu11", "-O1", "-g1", "-Wall", "-Wextra", "-Werror", "-march=native")


@dataclass(frozen=True)
class Calls:
    """The lines of a program of `calls.c`: calls, wrong results, and resident KiB early and late."""

    made: int
    wrong: int
    early: int
    late: int


def model(size: int) -> onnx.ModelProto:
    """A small network of convolutions, a pool and a softmax, from pictures of size x size."""
    random = np.random.default_rng(0)
    shapes = {"a": (16, 3, 3, 3), "b": (16, 1, 3, 3), "c": (8, 16, 1, 1), "d": (8, 10)}
    weights = [numpy_helper.from_array(random.standard_normal(s).astype(np.float32) / 4, n) for n, s in shapes.items()]
    nodes = [
        helper.make_node("Conv", ["x", "a"], ["t0"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["t0"], ["t1"]),
        helper.make_node("Conv", ["t1", "b"], ["t2"], pads=[1, 1, 1, 1], group=16),
        helper.make_node("MaxPool", ["t2"], ["t3"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Conv", ["t3", "c"], ["t4"]),
        helper.make_node("ReduceMean", ["t4"], ["t5"], axes=[2, 3], keepdims=0),
        helper.make_node("MatMul", ["t5", "d"], ["t6"]),
        helper.make_node("Softmax", ["t6"], ["y"]),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, size, size])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 10])
    graph = helper.make_graph(nodes, "net", [x], [y], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def calls(folder: Path, size: int, options: Sequence[str], words: Sequence[float]) -> Calls:
    """The network built into a folder, and called by `calls.c`, which is compiled with further options."""
    out = folder / "net"
    api.build(model(size), out=out, name="net", threads=WORKERS, compile=False)
    taken = [p for p in sorted((*out.glob("*.c"), *out.glob("*.S"))) if p.name not in ("main.c", "runner.c")]
    program = folder / "calls"
    command = ["gcc", *STRICT, *options, f"-I{out}", "-o", program, HERE / "calls.c", *taken, "-lm", "-lpthread"]
    subprocess.run(list(map(str, command)), check=True, cwd=out)
    done = subprocess.run([str(program), *map(str, words)], capture_output=True, text=True)
    found = re.search(r"(\d+) calls, (\d+) wrong, (\d+) KiB, (\d+) KiB", done.stdout)
    if found is None or done.returncode not in (0, 1) or "WARNING: ThreadSanitizer" in done.stderr:
        raise SystemExit(f"the calls ended with {done.returncode}:\n{done.stdout}{done.stderr[-4000:]}")
    return Calls(*map(int, found.groups()))


def threads(folder: Path, seconds: float) -> Calls:
    """Eight threads under ThreadSanitizer: half of the time each calls alone, half on a pool of its own."""
    alone = calls(folder, 32, ["-fsanitize=thread"], [CALLERS, seconds / 2, 10**9, 1])
    pooled = calls(folder, 32, ["-fsanitize=thread"], [CALLERS, seconds / 2, 10**9, WORKERS])
    return Calls(alone.made + pooled.made, alone.wrong + pooled.wrong, 0, 0)


def soak(folder: Path, count: int) -> Calls:
    """Calls of a small network on one thread, and a hundredth of them on pools that open and close."""
    alone = calls(folder, 8, ["-O2"], [1, 10**6, count, 1])
    pooled = calls(folder, 32, ["-O2"], [1, 10**6, count // 100, WORKERS])
    late = alone.early + max(alone.late - alone.early, pooled.late - pooled.early)
    return Calls(alone.made + pooled.made, alone.wrong + pooled.wrong, alone.early, late)


def soak_python(folder: Path, count: int) -> Calls:
    """The same from Python."""
    api.build(model(8), out=folder / "python", name="net")
    x = np.ones((1, 3, 8, 8), np.float32)
    wrong, early = 0, 0
    with Network(folder / "python") as network:
        want = network.run({"x": x})["y"].copy()
        for k in range(count):
            wrong += int(not np.array_equal(network.run({"x": x})["y"], want))
            if k == count // 10:
                early = _resident()
    return Calls(count, wrong, early, _resident())


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE") // 1024


def opencl(folder: Path, runs: int) -> Calls:
    """The host code of OpenCL on whatever driver is there."""
    return _on_a_gpu(folder, runs, "generic_opencl", ["gcc", "-std=gnu11"])


def cuda(folder: Path, runs: int) -> Calls:
    """The host code and the kernels of CUDA in the emulation, whose groups of threads are fibers."""
    return _on_a_gpu(folder, runs, "cuda_sm90", ["g++", *EMULATED])


def cuda_threads(folder: Path, runs: int) -> Calls:
    """Four threads with sessions of their own under ThreadSanitizer, which the emulation tells of its fibers."""
    return _on_a_gpu(folder, runs, "cuda_sm90", ["g++", *EMULATED], "thread", 4)


def _on_a_gpu(
    folder: Path,
    runs: int,
    device: str,
    compiler: Sequence[str],
    sanitizers: str = "address,undefined",
    callers: int = 1,
) -> Calls:
    """Sessions opened, run and closed under sanitizers; what drivers and the emulation keep is theirs."""
    out, program = folder / device, folder / f"{device}-calls"
    api.build(model(16), out=out, name="net", device=device, compile=False)
    unused = ("main.c", "runner.c", "net_where.c")
    taken = [p for suffix in ("c", "cu") for p in sorted(out.glob(f"*.{suffix}")) if p.name not in unused]
    flags = ["-O1", "-g1", f"-fsanitize={sanitizers}", "-fno-sanitize-recover=all", f"-I{out}", "-o", program]
    weights = ["-x", "assembler-with-cpp", *sorted(out.glob("*.S"))]
    command = [*compiler, *flags, HERE / "device_calls.c", *taken, *weights, "-lm", "-lpthread", "-ldl"]
    subprocess.run(list(map(str, command)), check=True, cwd=out)
    # Threads of OpenCL's own have signal stacks of their own, which AddressSanitizer would take for its.
    environment = {**os.environ, "ASAN_OPTIONS": "detect_leaks=0:use_sigaltstack=0"}
    done = subprocess.run([str(program), str(runs), str(callers)], capture_output=True, text=True, env=environment)
    found = re.search(r"(\d+) calls, (\d+) wrong", done.stdout)
    if found is None or done.returncode:
        raise SystemExit(f"the calls ended with {done.returncode}:\n{done.stdout}{done.stderr[-4000:]}")
    return Calls(int(found[1]), int(found[2]), 0, 0)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=("threads", "calls", "python", "opencl", "cuda", "cuda_threads"))
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--calls", type=int, default=10000)
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        if given.kind == "threads":
            found = threads(folder, given.seconds)
        else:
            kinds = {
                "calls": soak, "python": soak_python, "opencl": opencl, "cuda": cuda, "cuda_threads": cuda_threads,
            }  # fmt: skip
            found = kinds[given.kind](folder, given.calls)
    grown = found.late - found.early
    print(f"| {given.kind} | {found.made:,} | {found.wrong} | {grown} KiB |")
    return int(found.wrong > 0 or grown > GROWTH)


if __name__ == "__main__":
    raise SystemExit(main())
