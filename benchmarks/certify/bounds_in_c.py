"""Times of NAME_bounds beside NAME_run: `python -m benchmarks.certify.bounds_in_c MODEL... --eps 0.001`."""

from __future__ import annotations

import argparse
import ctypes
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

import edgec
from benchmarks.measure import on_cores, take_turns
from edgec.build import Built


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--eps", type=float, default=1e-3)
    given = parser.parse_args(arguments)
    print("| network | NAME_run, us | NAME_bounds, us | ratio | arena of bounds, bytes | more weights, bytes |")
    print("|---|---|---|---|---|---|")
    for path in given.models:
        print(line(path, given.eps), flush=True)


def line(path: Path, eps: float) -> str:
    """A row of the table for one model, on one thread."""
    built = edgec.build(path, numeric="exact", bounds=True)
    alone = edgec.build(path, numeric="exact", compile=False)
    assert built.program.bounds is not None
    with on_cores(1):
        times = take_turns(_calls(built, eps), seconds=3.0)
    first, second = (float(np.median(t)) * 1e6 for t in times)
    more = built.weights_bytes - alone.weights_bytes
    arena = built.program.bounds.arena_bytes
    return f"| {path.name} | {first:.1f} | {second:.1f} | {second / first:.2f} | {arena} | {more} |"


def _calls(built: Built, eps: float) -> tuple[Callable[[], None], Callable[[], None]]:
    """The two functions on drawn inputs, with their arguments made once."""
    network, net = built.network, built.network._net
    random = np.random.default_rng(0)
    inputs = {p.onnx_name: random.uniform(0, 1, p.shape).astype(np.float32) for p in network.inputs}
    run, _ = network.bind(inputs)
    arrays = [inputs[p.onnx_name] for p in network.inputs]
    results = [np.empty(p.shape, np.float32) for p in network.outputs for _ in range(2)]
    net.bounds_into(arrays, eps, results)  # which takes the memory of the arena
    memory = [net._weights, net._bounds_arena, *arrays]
    passed = [*map(_pointer, memory), ctypes.c_float(eps), *map(_pointer, results)]
    function = getattr(net._library, f"{network.name}_bounds")

    def bounds(_keep: object = (memory, results)) -> None:
        function(*passed)

    return run, bounds


def _pointer(array: np.ndarray) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


if __name__ == "__main__":
    main()
