"""Attention of one token over a cache of keys and values: bytes of cache read a second, beside plain reading.

    python -m benchmarks.cpu.cache [--shapes 9x3x64 32x8x64] [--contexts 512 2048 8192] [--kinds fp32 fp16 int8]

A shape is query heads x key heads x features. Layers are repeated with other caches until these take 96 MB, and take
turns with a kernel that only reads (the largest number of each row of 4096); the least processor time of all rounds
counts, on one thread. Prints a line for each case.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from math import prod
from pathlib import Path

import numpy as np

from edgec.artifact.compile import compile_library
from edgec.artifact.folder import publish
from edgec.artifact.network import Network
from edgec.device.load import load_device
from edgec.device.toolchain import pick_compiler
from edgec.emit.project import files
from edgec.frontend.language.cache import KINDS, Kind, Positions, Rows, Stored, products_of, shares_of
from edgec.frontend.values import Value, select
from edgec.fuse import plan
from edgec.ir import expr as X
from edgec.ir.graph import Graph, placeholder
from edgec.ir.types import DTYPES, Type
from edgec.schedule.build import schedule

SHAPES, CONTEXTS = ("9x3x64", "32x8x64"), (512, 2048, 8192)
BYTES = 96 << 20
RANDOM = np.random.default_rng(24)


def attention(kind: Kind, shape: str, context: int) -> Graph:
    """One token at any position of ``context``; the caches of all layers are heads of one."""
    heads, groups, features = map(int, shape.split("x"))
    row = features * DTYPES[KINDS[kind]].itemsize + (4 if kind == "int8" else 0)
    count = groups * max(1, round(BYTES / (2 * groups * context * row)))
    rows = Rows(Positions(X.size("past", 0, context - 1), 1, context, 1))
    number, dtype = placeholder("past", Type("i64", ())), KINDS[kind]
    query = placeholder("query", Type("f32", (count, heads // groups, 1, features)))
    inputs = [number, query]

    def stored(name: str, axis: int) -> Stored:
        sizes = (count, features, context) if axis == 2 else (count, context, features)
        inputs.append(placeholder(name, Type(dtype, sizes)))
        numbers = Value(inputs[-1]).part(axis, 0, rows.seen).cast("f32")
        if kind != "int8":
            return Stored(numbers, None)
        inputs.append(placeholder(f"{name}_scale", Type("f32", (count, 1, context))))
        return Stored(numbers, Value(inputs[-1]).part(2, 0, rows.seen))

    keys, values = stored("keys", 2), stored("values", 1)
    hidden = rows.hidden()
    scores = select(hidden, float("-inf"), products_of(Value(query), keys) * features**-0.5)
    y = shares_of(scores, values) @ values.numbers.unsqueeze(1)
    outputs = (("y", y.node), ("hidden", hidden.node))  # as in a model, many layers read it
    return Graph(tuple(inputs), outputs, "net", sizes=((rows.at.past, number),))


def reading() -> Graph:
    """The largest number of each row of a matrix."""
    x = placeholder("x", Type("f32", (BYTES >> 14, 1 << 12)))
    return Graph((x,), (("y", Value(x).reduce("max", [1]).node),), "net")


def loaded(graph: Graph, folder: Path) -> Network:
    device = load_device("host")
    publish(files(schedule(plan(graph), device), device, "net"), folder)
    compile_library(folder, device, pick_compiler(device))
    return Network(folder)


def taken(run: Callable[[], None]) -> float:
    """Seconds of the processor for one run."""
    begin = time.thread_time()
    run()
    return time.thread_time() - begin


def measure(kind: Kind, shape: str, context: int, rounds: int) -> str:
    """One line: GB/s of cache, of plain reading, their ratio, microseconds a layer."""
    graph = attention(kind, shape, context)
    given = {"past": np.array(context - 1)}
    for node in graph.inputs[1:]:
        sizes = node.type.shape
        low, high = (-127, 128) if node.type.dtype == "i8" else (0, 0)
        drawn = RANDOM.integers(low, high, sizes) if high else RANDOM.standard_normal(sizes, np.float32)
        name = str(node.attributes["name"])
        scaled = np.abs(drawn) / 64 if name.endswith("_scale") else drawn  # scores as far apart as in a model
        given[name] = scaled.astype(DTYPES[node.type.dtype])
    size = sum(n.type.bytes for n in graph.inputs[2:])
    with tempfile.TemporaryDirectory(prefix="edgec-cache-") as folder:
        run, _ = loaded(graph, Path(folder) / "net").bind(given)
        read, _ = loaded(reading(), Path(folder) / "read").bind({"x": np.ones((BYTES >> 14, 1 << 12), np.float32)})
        times = [(taken(run), taken(read)) for _ in range(rounds)]
    took, least = map(min, zip(*times))
    layers = prod(graph.inputs[1].type.shape[:2]) / int(shape.split("x")[0])
    speed, plain = size / took / 1e9, BYTES / least / 1e9
    share = f"{speed:6.2f} of {plain:6.2f} GB/s {speed / plain:6.1%}"
    return f"{shape:8} {kind} context {context:5} {share} {took / layers * 1e6:8.1f} us a layer"


def main() -> None:
    p = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    p.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    p.add_argument("--shapes", nargs="+", default=SHAPES)
    p.add_argument("--contexts", type=int, nargs="+", default=CONTEXTS)
    p.add_argument("--rounds", type=int, default=12)
    o = p.parse_args()
    for shape in o.shapes:
        for context in o.contexts:
            for kind in o.kinds:
                print(measure(kind, shape, context, o.rounds), flush=True)


if __name__ == "__main__":
    main()
